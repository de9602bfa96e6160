/** The queue and the recent history of a cluster: filtered, live, and why each job waits. */

import { useRef, useState } from "preact/hooks";
import { useKeys } from "../keys";
import { Glyph } from "../parts/glyph";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { useJobs } from "../state/jobs";
import { adjust, go, href } from "../state/place";
import { JOB_SPANS, JOB_STATES, type JobsPlace, jobsPlace, type Place } from "../state/url";
import { count } from "../words";
import { JobTable } from "./job-table";
import "./clusters.css";

const WORDS: Record<JobsPlace["state"], string> = { "": "All", queued: "Waiting", running: "Running", finished: "Finished", failed: "Other ends" };

export function JobsView({ place }: { place: JobsPlace }) {
  const [wanted, want] = useState(0);
  const { value: page, problem, reload } = useJobs(place, wanted);
  const [cursor, setCursor] = useState(-1);
  const search = useRef<HTMLInputElement>(null);
  const items = page?.items ?? [];
  const current = items[cursor];
  const above: Place = place.cluster === "host" ? { view: "clusters" } : { view: "cluster", cluster: place.cluster };
  const move = (by: number) => setCursor(Math.max(0, Math.min(items.length - 1, cursor + by)));
  useKeys({
    "/": () => search.current?.focus(),
    j: () => move(1),
    k: () => move(cursor < 0 ? 1 : -1),
    Enter: () => current && go({ view: "job", cluster: place.cluster, job: current.id }),
    u: () => go(above),
  });
  return (
    <main class="runs">
      <div class="runs-bar">
        <h1 class="row">
          <a class="faint" href={href(above)}>
            {place.cluster}
          </a>
          <span class="faint" aria-hidden="true">
            /
          </span>
          Jobs
        </h1>
        <Filters place={place} search={search} />
        <span class="faint small number grow" role="status">
          {page ? count(page.total, "job") : ""}
        </span>
      </div>
      {page?.history_missing && <Missing why={page.history_missing} />}
      {problem && <ProblemNote problem={problem} retry={reload} />}
      {!page ? !problem && <Skeleton lines={14} /> : items.length ? <JobTable {...{ place, page, cursor, want }} /> : <NoJobs place={place} />}
    </main>
  );
}

function Filters({ place, search }: { place: JobsPlace; search: { current: HTMLInputElement | null } }) {
  const field = (name: "user" | "partition", label: string) => (
    <input class="short-field" type="search" placeholder={label} aria-label={label} value={place[name]} onChange={(event) => adjust({ [name]: event.currentTarget.value.trim() })} />
  );
  return (
    <>
      <div class="segments" role="group" aria-label="State">
        {JOB_STATES.map((state) => (
          <button key={state} aria-pressed={place.state === state} onClick={() => adjust({ state })}>
            {WORDS[state]}
          </button>
        ))}
      </div>
      <label class="search">
        <Glyph name="search" />
        <input ref={search} type="search" placeholder="Name" aria-label="Name contains" value={place.name} onChange={(event) => adjust({ name: event.currentTarget.value.trim() })} />
      </label>
      {field("user", "User")}
      {field("partition", "Partition")}
      <label class="row small soft">
        Ended within
        <select value={place.since} onChange={(event) => adjust({ since: event.currentTarget.value as JobsPlace["since"] })}>
          {JOB_SPANS.map((span) => (
            <option key={span}>{span}</option>
          ))}
        </select>
      </label>
    </>
  );
}

function Missing({ why }: { why: string }) {
  return (
    <div class="note warn-note" role="status">
      <Glyph name="warn" />
      <p>Jobs that Slurm's controller has forgotten are missing: {why}</p>
    </div>
  );
}

function NoJobs({ place }: { place: JobsPlace }) {
  const { state, user, partition, name, cluster, since } = place;
  if (state || user || partition || name) {
    return (
      <Empty title="No job fits">
        <a class="button" href={href(jobsPlace(cluster, { since }))}>
          All jobs
        </a>
      </Empty>
    );
  }
  return (
    <Empty title="No job waits or runs, and none ended in this time">
      <p>
        <code>stepward jobs submit --cluster {cluster} -- CMD</code>, or <code>sbatch</code> as ever.
      </p>
    </Empty>
  );
}
