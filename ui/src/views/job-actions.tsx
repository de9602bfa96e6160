/** What administrators do with a job, each after a question; the server keeps who did it and why. */

import { useState } from "preact/hooks";
import { call, clusterPath, type Job, type JobChanged } from "../api";
import { Confirm } from "../parts/confirm";
import { say } from "../parts/notice";
import { verbsOf } from "../state/jobs";
import { mayAdminister } from "../state/session";

type Verb = JobChanged["kind"];

const WHAT: Record<Verb, { does: string; done: string; means: string; danger?: boolean }> = {
  cancel: { does: "Cancel the job", done: "is cancelled", means: "It ends: its processes get SIGTERM, then SIGKILL. It does not start again.", danger: true },
  requeue: { does: "Requeue the job", done: "is requeued", means: "This launch ends, and the job starts anew under the same id: from its last checkpoint, if it takes one up.", danger: true },
  hold: { does: "Hold the job", done: "is held", means: "It stays in the queue and does not start until it is released." },
  release: { does: "Release the job", done: "is released", means: "It may start again when its turn comes." },
};

export function JobActions({ job, cluster, reload }: { job: Job; cluster: string; reload(): void }) {
  const [asked, ask] = useState<Verb | null>(null);
  if (!mayAdminister()) return null;
  const act = async (reason: string) => {
    await call<JobChanged>("POST", clusterPath(cluster, "jobs", job.id, asked!), { body: { reason } });
    say(`Job ${job.id} ${WHAT[asked!].done}`);
    reload();
  };
  return (
    <>
      {verbsOf(job).map((verb) => (
        <button key={verb} class={WHAT[verb].danger ? "danger" : ""} onClick={() => ask(verb)}>
          {verb[0]!.toUpperCase() + verb.slice(1)}
        </button>
      ))}
      {asked && (
        <Confirm title={`${WHAT[asked].does} ${job.id}?`} verb={WHAT[asked].does} danger={WHAT[asked].danger ?? false} reason="asked" act={act} onClose={() => ask(null)}>
          <p>
            <b>{job.name}</b> of {job.user}, {job.state}
            {job.nodes.length > 0 && ` on ${job.nodes.join(", ")}`}. {WHAT[asked].means}
          </p>
        </Confirm>
      )}
    </>
  );
}
