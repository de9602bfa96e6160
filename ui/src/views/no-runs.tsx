/** What stands here before the first run: how to make one. */

import { CopyBlock } from "../parts/copy";
import { Empty } from "../parts/notice";

const SDK = `import stepward as sw

run = sw.init(name="first", config={"lr": 3e-4})
for i in range(1000):
    with run.step(i):
        loss = train_step()
    run.log({"loss": loss}, step=i)
run.finish()`;

export function NoRuns({ project }: { project: string }) {
  return (
    <Empty title={project ? `No runs in ${project} yet` : "No runs yet"}>
      <p>This page shows a run as soon as it starts. Three ways to start one:</p>
      <ol class="ways">
        <li>
          <h3>See it work: a small real training job that breaks and recovers</h3>
          <CopyBlock text="stepward demo" label="command" />
        </li>
        <li>
          <h3>Your own job, without changing it</h3>
          <CopyBlock text="stepward run -- python train.py" label="command" />
        </li>
        <li>
          <h3>From your training loop</h3>
          <CopyBlock text={SDK} label="lines" />
        </li>
      </ol>
    </Empty>
  );
}
