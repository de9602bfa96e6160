/** The scheduler's job that a run belongs to: a link to it, and its partition. */

import { get, type Run, type RunConfig, runPath } from "../api";
import { jobOf } from "../state/jobs";
import { useLoad } from "../state/load";
import { href } from "../state/place";

interface Told {
  cluster?: unknown;
  id?: unknown;
  partition?: unknown;
}

export function RunJob({ run }: { run: Run }) {
  const scheduled = jobOf(run) !== null || run.attempts.some(({ key }) => key.startsWith("slurm."));
  const { value: config } = useLoad(scheduled ? run.id : null, (signal) => get<RunConfig>(runPath(run.id, "/config"), { signal }));
  const told = (config?.system.job ?? {}) as Told;
  const named = typeof told.cluster === "string" && told.id !== undefined ? { cluster: told.cluster, job: String(told.id) } : null;
  const found = named ?? jobOf(run);
  if (!found) return null;
  return (
    <>
      <div>
        <dt>Job</dt>
        <dd>
          <a class="link" href={href({ view: "job", ...found })} title={`on ${found.cluster}`}>
            {found.job}
          </a>
        </dd>
      </div>
      {typeof told.partition === "string" && (
        <div>
          <dt>Partition</dt>
          <dd>{told.partition}</dd>
        </div>
      )}
    </>
  );
}
