/** What people and policies did to a job. */

import { type ActionPage, get } from "../api";
import { now } from "../state/now";
import { usePolled } from "../state/polled";
import { ago, moment } from "../words";

const POLL_MS = 10_000;

export function JobAudit({ cluster, job }: { cluster: string; job: string }) {
  const { value: page } = usePolled(`${cluster} ${job} audit`, POLL_MS, (signal) => get<ActionPage>("actions", { query: { cluster, job, limit: 20 }, signal }));
  if (!page?.items.length) return null;
  return (
    <section>
      <h2>Done to it</h2>
      <ul class="audit">
        {page.items.map((action) => (
          <li key={action.id}>
            <b>{action.kind}</b>
            {action.dry_run && " (only tried)"} by {action.actor}
            {action.policy && `, policy ${action.policy}`}, <time title={moment(action.at)}>{ago(action.at, now.value)}</time>
            {action.outcome !== "done" && `, ${action.outcome}`}
            {action.reason && `: ${action.reason}`}
          </li>
        ))}
      </ul>
    </section>
  );
}
