/** The virtual table of jobs; asks for more of them as one scrolls. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Job, JobPage } from "../api";
import { Chip } from "../parts/chip";
import { reveal, rowsInView, useView } from "../parts/windowed";
import { lasting, nodesOf } from "../state/jobs";
import { now } from "../state/now";
import { go, href } from "../state/place";
import { type JobsPlace, nodePlace, runPlace } from "../state/url";
import { ago, duration, moment } from "../words";

const ROW = 33;
const HEADS: [string, number][] = [["Job", 90], ["Name", 190], ["State", 150], ["User", 90], ["Partition", 100], ["Nodes", 150], ["Time", 110], ["Ended", 100], ["Why, and what to do", 420], ["Run", 70]];

interface Props {
  place: JobsPlace;
  page: JobPage;
  cursor: number;
  want(count: number): void;
}

export function JobTable({ place, page, cursor, want }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const { items, total } = page;
  const [first, end] = rowsInView(view, ROW, total);
  useEffect(() => want(end), [end]);
  useLayoutEffect(() => reveal(box.current!, cursor, ROW), [cursor]);
  return (
    <div ref={box} class="table-box" tabIndex={0} role="region" aria-label="Jobs">
      <table class="run-table jobs-table" aria-rowcount={total + 1}>
        <colgroup>
          {HEADS.map(([head, width]) => (
            <col key={head} style={{ width: `${width}px` }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {HEADS.map(([head]) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr aria-hidden="true" style={{ height: `${first * ROW}px` }} />
          {items.slice(first, end).map((job, i) => (
            <Row key={job.id} job={job} cluster={place.cluster} index={first + i} current={first + i === cursor} />
          ))}
          <tr aria-hidden="true" style={{ height: `${Math.max(0, total - Math.min(end, items.length)) * ROW}px` }} />
        </tbody>
      </table>
    </div>
  );
}

function Row({ job, cluster, index, current }: { job: Job; cluster: string; index: number; current: boolean }) {
  const target = { view: "job", cluster, job: job.id } as const;
  const open = (event: MouseEvent) => {
    if (!(event.target as Element).closest("a, button") && !getSelection()?.toString()) go(target);
  };
  const limit = typeof job.time_limit_s === "number" ? ` of ${duration(job.time_limit_s)}` : "";
  const node = job.nodes.length === 1 ? job.nodes[0] : undefined;
  return (
    <tr aria-rowindex={index + 2} data-job={job.id} class={current ? "current" : ""} onClick={open}>
      <th scope="row">
        <a href={href(target)}>{job.id}</a>
      </th>
      <td title={job.name}>
        <bdi>{job.name}</bdi>
      </td>
      <td>
        <Chip state={job.state} title={job.slurm_state} />
        {job.held && <span class="small soft"> held</span>}
      </td>
      <td>{job.user}</td>
      <td>{job.partition}</td>
      <td title={job.nodes.join(" ")}>{node ? <a href={href(nodePlace(cluster, node))}>{node}</a> : nodesOf(job)}</td>
      <td title={`submitted ${moment(job.submitted_at)}\nstarted ${moment(job.started_at)}${limit ? `\nmay take${limit.slice(3)}` : ""}`}>{lasting(job, now.value)}</td>
      <td title={moment(job.ended_at)}>{job.ended_at ? ago(job.ended_at, now.value) : ""}</td>
      <td title={[job.reason, job.reason_words, job.advice].filter(Boolean).join("\n")}>{why(job)}</td>
      <td>{job.run && <a href={href(runPlace(job.run))}>run</a>}</td>
    </tr>
  );
}

/** Why it waits or how it ended, in words, and what to do. */
export function why({ reason, reason_words, advice, state }: Pick<Job, "reason" | "reason_words" | "advice" | "state">): string {
  if (state === "running" || state === "finished") return "";
  return [reason_words || reason, advice].filter(Boolean).join(" · ");
}
