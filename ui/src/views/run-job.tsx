/** The scheduler's job that a run belongs to: links to it and to its nodes, and its partition. */

import { get, type Run, type RunConfig, runPath } from "../api";
import { isScheduled, jobOf } from "../state/jobs";
import { useLoad } from "../state/load";
import { href } from "../state/place";
import { NodeLinks } from "./node-links";

interface Told {
  cluster?: unknown;
  id?: unknown;
  partition?: unknown;
}

export function RunJob({ run }: { run: Run }) {
  const { value: config } = useLoad(isScheduled(run) ? run.id : null, (signal) => get<RunConfig>(runPath(run.id, "/config"), { signal }));
  const told = (config?.system.job ?? {}) as Told;
  const named = typeof told.cluster === "string" && told.id !== undefined ? { cluster: told.cluster, job: String(told.id) } : null;
  const found = named ?? jobOf(run);
  const nodes = run.attempts.at(-1)?.nodes ?? [];
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
      {nodes.length > 0 && (
        <div>
          <dt>{nodes.length > 1 ? "Nodes" : "Node"}</dt>
          <dd class="clip" title={nodes.join(" ")}>
            <NodeLinks cluster={found.cluster} nodes={nodes} />
          </dd>
        </div>
      )}
      {typeof told.partition === "string" && (
        <div>
          <dt>Partition</dt>
          <dd>{told.partition}</dd>
        </div>
      )}
    </>
  );
}
