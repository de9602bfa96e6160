/** What people and policies did to a job, a node or a cluster. */

import { type ActionPage, get } from "../api";
import { now } from "../state/now";
import { usePolled } from "../state/polled";
import { ago, moment } from "../words";

const POLL_MS = 10_000;
const SHOWN = 20;

interface Props {
  cluster: string;
  job?: string;
  node?: string;
}

/** A submission knows its job only when it is done. */
const jobOf = ({ job, data }: ActionPage["items"][number]): string => job || (typeof data?.job === "string" ? data.job : "");

export function Audit({ cluster, job, node }: Props) {
  const query = { cluster, job, node, limit: SHOWN };
  const { value: page } = usePolled(`audit ${JSON.stringify(query)}`, POLL_MS, (signal) => get<ActionPage>("actions", { query, signal }));
  if (!page?.items.length) return null;
  return (
    <section>
      <h2>Done to it</h2>
      <ul class="audit">
        {page.items.map((action) => (
          <li key={action.id}>
            <b>{action.kind.replaceAll("_", " ")}</b>
            {!node && action.node && ` ${action.node}`}
            {!job && jobOf(action) && ` job ${jobOf(action)}`}
            {action.dry_run && " (only tried)"} by {action.actor}
            {action.policy && `, policy ${action.policy}`}, <time title={moment(action.at)}>{ago(action.at, now.value)}</time>
            {action.outcome !== "done" && `, ${action.outcome}`}
            {action.reason && `: ${action.reason}`}
            {typeof action.data?.error === "string" && <span class="soft"> ({action.data.error})</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
