/** One job: why it waits or how it ended, its launches, its run, the end of its output, and what was done to it. */

import { clusterPath, get, type Job, type JobAttempt, type JobLogs } from "../api";
import { useKeys } from "../keys";
import { Chip } from "../parts/chip";
import { copy } from "../parts/copy";
import { Glyph } from "../parts/glyph";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { type Fact, PageHead } from "../parts/page-head";
import { PlainTable } from "../parts/plain-table";
import { Tail } from "../parts/tail";
import { plainState } from "../state/clusters";
import { lasting } from "../state/jobs";
import { plain } from "../state/lines";
import { now } from "../state/now";
import { go, href } from "../state/place";
import { usePolled } from "../state/polled";
import { jobsPlace, runPlace } from "../state/url";
import { ago, bytes, duration, LIVE, moment } from "../words";
import { Audit } from "./audit";
import { JobActions } from "./job-actions";
import { NodeLinks } from "./node-links";
import "./clusters.css";
import "./run.css";

const POLL_MS = 3000;

export function JobView({ cluster, job: named }: { cluster: string; job: string }) {
  const loaded = usePolled(`${cluster} ${named}`, POLL_MS, (signal) => get<Job>(clusterPath(cluster, "jobs", named), { signal }));
  const { value: job, problem, reload } = loaded;
  useKeys({ u: () => go(jobsPlace(cluster)) });
  if (!job) return <main class="clusters">{problem ? <NoJob {...{ problem, reload, cluster, named }} /> : <Skeleton lines={12} />}</main>;
  return (
    <main class="clusters">
      <Head {...{ job, cluster, reload }} />
      {problem && <ProblemNote problem={problem} retry={reload} />}
      <Why job={job} />
      <Attempts attempts={job.attempts} cluster={cluster} />
      <Output job={job} cluster={cluster} />
      <Audit cluster={cluster} job={job.id} />
    </main>
  );
}

function NoJob({ problem, reload, cluster, named }: { problem: NonNullable<ReturnType<typeof usePolled>["problem"]>; reload(): void; cluster: string; named: string }) {
  if (problem.status !== 404) return <ProblemNote problem={problem} retry={reload} />;
  return (
    <Empty title={`No job ${named}`}>
      <p>{problem.message}</p>
      <a class="button" href={href(jobsPlace(cluster))}>
        Jobs of {cluster}
      </a>
    </Empty>
  );
}

/** The reason in words with advice; nothing for a job that runs or has finished well. */
function Why({ job }: { job: Job }) {
  if (job.state === "running" || job.state === "finished" || !(job.reason_words || job.reason)) return null;
  const waits = job.state === "queued";
  return (
    <div class={waits ? "note warn-note" : "note bad-note"} role="note">
      <Glyph name="warn" />
      <div class="grow">
        <p>
          {waits ? "It waits: " : ""}
          {job.reason_words || job.reason}
        </p>
        <p class="small soft">
          {job.advice && `${job.advice} · `}
          <code>{job.reason}</code>
          {job.expected_start_at && ` · Slurm expects to start it ${ago(job.expected_start_at, now.value)}`}
        </p>
      </div>
    </div>
  );
}

function Head({ job, cluster, reload }: { job: Job; cluster: string; reload(): void }) {
  const limit = job.time_limit_s === null ? "–" : typeof job.time_limit_s === "number" ? duration(job.time_limit_s) : "none";
  const nodes = job.nodes.length ? <NodeLinks cluster={cluster} nodes={job.nodes} /> : `${job.node_count ?? "–"} wanted`;
  const facts: Fact[] = [
    ["Nodes", nodes, job.nodes.join(" ")],
    ["User", job.user],
    ["Partition", job.partition],
    [job.state === "queued" ? "Waits" : LIVE.has(job.state) ? "Runs" : "Took", lasting(job, now.value), `submitted ${moment(job.submitted_at)}\nstarted ${moment(job.started_at)}`],
    ["Time limit", limit],
    ["Has, or asks for", job.tres],
  ];
  if (job.ended_at) facts.push(["Ended", ago(job.ended_at, now.value), moment(job.ended_at)]);
  if (job.exit_code !== null || job.signal) facts.push(["Exit", job.signal ?? String(job.exit_code)]);
  if (job.restarts) facts.push(["Restarts", String(job.restarts)]);
  if (job.dependency) facts.push(["Depends on", job.dependency]);
  if (job.comment) facts.push(["Comment", job.comment]);
  const name = (
    <>
      {job.id} <bdi>{job.name}</bdi>
    </>
  );
  const signs = (
    <>
      <Chip state={job.state} title={job.slurm_state} />
      {job.held && <span class="soft">held</span>}
    </>
  );
  const tools = (
    <>
      {job.run && (
        <a class="button primary" href={href(runPlace(job.run))}>
          Open its run
        </a>
      )}
      <JobActions job={job} cluster={cluster} reload={reload} />
      <button class="quiet icon" aria-label="Copy as command" title="Copy as command" onClick={() => void copy(`stepward jobs show --cluster ${cluster} ${job.id}`, "Command copied")}>
        <Glyph name="copy" />
      </button>
    </>
  );
  return <PageHead back={href(jobsPlace(cluster))} from={`${cluster} jobs`} name={name} title={job.name} {...{ signs, tools, facts }} />;
}

function Attempts({ attempts, cluster }: { attempts: JobAttempt[]; cluster: string }) {
  if (!attempts.length) return null;
  return (
    <section>
      <h2>Launches</h2>
      <PlainTable label="Launches" heads={["#", "State", "Nodes", "Started", "Lasted", "Exit", "Reason"]}>
        {attempts.map((attempt) => (
          <tr key={attempt.number} data-attempt={attempt.number}>
            <th scope="row">{attempt.number}</th>
            <td>
              <Chip state={attempt.state} title={attempt.slurm_state} />
            </td>
            <td>
              <NodeLinks cluster={cluster} nodes={attempt.nodes} />
            </td>
            <td class="number" title={`submitted ${moment(attempt.submitted_at)}`}>
              {moment(attempt.started_at)}
            </td>
            <td class="number">{lasting(attempt, now.value)}</td>
            <td>{attempt.signal ?? attempt.exit_code ?? ""}</td>
            <td class="words-cell">{[told(attempt), attempt.reason].filter(Boolean).join(", ")}</td>
          </tr>
        ))}
      </PlainTable>
    </section>
  );
}

/** Slurm's word where it says more than ours: a launch that was requeued is `cancelled` for us. */
function told({ state, slurm_state }: JobAttempt): string {
  const word = plainState(slurm_state.toLowerCase());
  return ["pending", "running", "completed", state as string].includes(word) ? "" : word;
}

const TAIL = 100;

function Output({ job, cluster }: { job: Job; cluster: string }) {
  const started = job.started_at !== null || !LIVE.has(job.state);
  const pace = LIVE.has(job.state) ? POLL_MS : POLL_MS * 10;
  const key = started ? `${cluster} ${job.id} ${job.state}` : null;
  const { value: logs, problem } = usePolled(key, pace, (signal) => get<JobLogs>(clusterPath(cluster, "jobs", job.id, "logs"), { query: { tail: TAIL }, signal }));
  if (!started) return null;
  return (
    <section>
      <div class="row">
        <h2 class="grow">Output</h2>
        {logs?.run && (
          <a class="link" href={href(runPlace(logs.run, { tab: "logs" }))}>
            All of it
          </a>
        )}
      </div>
      {problem ? (
        <p class="soft">
          {problem.message}
          {problem.hint && ` · ${problem.hint}`}
        </p>
      ) : (
        !logs && <Skeleton lines={4} />
      )}
      {logs?.outputs.map((output) => (
        <div key={output.stream}>
          <p class="small faint output-head">
            {output.stream}
            {output.path && ` · ${output.path}`}
            {output.skipped_bytes > 0 && ` · ${bytes(output.skipped_bytes)} before this`}
          </p>
          <Tail label={`Output ${output.stream}`} text={output.lines.map((line) => plain(line.text) + (line.repeats > 1 ? `  ×${line.repeats}` : "")).join("\n") || "no lines yet"} />
        </div>
      ))}
    </section>
  );
}
