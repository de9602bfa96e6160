/** Where the time of a run went: the waterfall, its attempts on one line of time, interruptions and advice. */

import { useEffect } from "preact/hooks";
import { get, type Run, type RunGoodput, runPath } from "../api";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { BUCKETS, named, percent, type Slice, waterfall } from "../state/buckets";
import { type Loaded, useLoad } from "../state/load";
import { adjust } from "../state/place";
import type { RunPlace } from "../state/url";
import { count, duration, LIVE } from "../words";
import "./goodput.css";

const REFRESH_MS = 10_000;
/** Overall goodput is their product: what each of them is lowered by. */
const FACTORS = {
  scheduling: "the job had its nodes",
  runtime: "of that, it was in steps that count",
  program: "of that, at the speed of its ideal step",
} as const;
const WINDOWS = { all: "Whole run", "24h": "24 h", "1h": "1 h" } as const;

export function Goodput({ run, place }: { run: Run; place: RunPlace }) {
  const { value: found, problem, reload } = useGoodput(run);
  if (!found) {
    if (problem?.code === "no_goodput") return <Empty title="Nothing to account for yet" />;
    return problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={10} />;
  }
  const { report } = found;
  const cut = found.windows.find(({ window }) => window === place.window);
  return (
    <section class="goodput" aria-label="Goodput">
      <Answer found={found} cut={cut} />
      {found.windows.length > 0 && (
        <div class="tool-bar" role="toolbar" aria-label="Window">
          {(Object.keys(WINDOWS) as (keyof typeof WINDOWS)[]).map((window) => (
            <button key={window} aria-pressed={place.window === window} onClick={() => adjust({ window })}>
              {WINDOWS[window]}
            </button>
          ))}
        </div>
      )}
      <Waterfall buckets={cut ? cut.buckets_s : report.buckets_s} />
      <Timeline found={found} />
      <Facts found={found} />
    </section>
  );
}

function useGoodput(run: Run): Loaded<RunGoodput> {
  const loaded = useLoad(run.id, (signal) => get<RunGoodput>(runPath(run.id, "/goodput"), { signal }));
  const live = LIVE.has(run.state);
  useEffect(() => {
    if (!live) return loaded.reload();
    const timer = setInterval(() => document.hidden || loaded.reload(), REFRESH_MS);
    return () => clearInterval(timer);
  }, [run.id, live]);
  return loaded;
}

/** Factors, attempts and steps are of the whole run: a window says its share alone. */
function Answer({ found: { report, exact }, cut }: { found: RunGoodput; cut: RunGoodput["windows"][number] | undefined }) {
  const { overall, wall_s } = cut ?? report;
  return (
    <header class="goodput-answer">
      <p class="goodput-share number">{percent(overall)}</p>
      <div>
        <h2>
          of {cut && "the last "}{duration(wall_s)} moved the run forward
          {report.open && !cut && " so far"}
          {!exact && <span class="faint"> (provisional)</span>}
        </h2>
        {!cut && <Whole report={report} />}
        {!report.buckets_s.productive && report.ideal_step_s === null && (
          <p class="warn-ink">
            No step of it is known, so that nothing can be told from <b>other</b>: <code>with run.step(i):</code> in the training loop says when steps begin and end.
          </p>
        )}
      </div>
    </header>
  );
}

function Whole({ report }: { report: RunGoodput["report"] }) {
  return (
    <>
      <p class="soft number">
        {(Object.keys(FACTORS) as (keyof typeof FACTORS)[]).map((name, i) => (
          <span key={name}>
            {i > 0 && " × "}
            {name} {percent(report[name])} <span class="faint small">({FACTORS[name]})</span>
          </span>
        ))}
      </p>
      <p class="soft number">
        {count(report.attempts, "attempt")}, {duration(report.device_s)} of device time
        {report.ideal_step_s !== null && `, ideal step ${duration(report.ideal_step_s)}`}
        {report.lost_steps > 0 && `, ${count(report.lost_steps, "step")} lost`}
        {report.provisional_s > 0 && `, ${duration(report.provisional_s)} would be lost if it died now`}
      </p>
    </>
  );
}

function Waterfall({ buckets }: { buckets: Record<string, number> }) {
  const slices = waterfall(buckets);
  return (
    <table class="waterfall">
      <caption class="out-of-sight">Buckets of time, what was productive first, then the losses by size</caption>
      <thead class="out-of-sight">
        <tr>
          <th scope="col">Bucket</th>
          <th scope="col">Place in the wall time</th>
          <th scope="col">Time</th>
          <th scope="col">Share</th>
          <th scope="col">Meaning</th>
        </tr>
      </thead>
      <tbody>
        {slices.map((slice) => (
          <tr key={slice.bucket} data-bucket={slice.bucket} title={BUCKETS[slice.bucket]?.meaning}>
            <th scope="row">{named(slice.bucket)}</th>
            <td class="waterfall-lane">
              <Bar slice={slice} />
            </td>
            <td class="right number">{duration(slice.seconds)}</td>
            <td class="right number">{percent(slice.share)}</td>
            <td class="soft meaning">{BUCKETS[slice.bucket]?.meaning}</td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">all</th>
          <td />
          <td class="right number">{duration(slices.reduce((sum, { seconds }) => sum + seconds, 0))}</td>
          <td class="right number">{percent(slices.length ? slices.reduce((sum, { share }) => sum + share, 0) : null)}</td>
          <td class="meaning">every second is in exactly one of them</td>
        </tr>
      </tfoot>
    </table>
  );
}

export function Bar({ slice }: { slice: Slice }) {
  return (
    <span
      class={`slice ${BUCKETS[slice.bucket]?.tone ?? "other"}`}
      style={{ left: `${100 * slice.begins}%`, width: `max(2px, ${100 * slice.share}%)` }}
      title={`${named(slice.bucket)}: ${duration(slice.seconds)}, ${percent(slice.share)}`}
    />
  );
}

function Timeline({ found }: { found: RunGoodput }) {
  const wall = found.report.wall_s;
  if (!found.attempts.length || !wall) return null;
  return (
    <section aria-label="Attempts">
      <h3>Attempts</h3>
      <ol class="attempt-lanes">
        {found.attempts.slice(-50).map((attempt) => (
          <li key={attempt.attempt}>
            <span class="number">{attempt.attempt}</span>
            <span class="attempt-lane">
              <span
                class="attempt-span"
                style={{ left: `${(100 * attempt.start_s) / wall}%`, width: `max(3px, ${(100 * (attempt.end_s - attempt.start_s)) / wall}%)` }}
              >
                {waterfall(attempt.buckets_s).map((slice) => (
                  <Bar key={slice.bucket} slice={slice} />
                ))}
              </span>
            </span>
            <span class="soft number">
              {duration(attempt.end_s - attempt.start_s)}, {attempt.reason ?? "running"}
            </span>
          </li>
        ))}
      </ol>
      <p class="faint small">Within an attempt the colours show shares, not places.</p>
    </section>
  );
}

function Facts({ found }: { found: RunGoodput }) {
  const { reliability, advice, report } = found;
  const causes = Object.entries(reliability?.interruptions ?? {});
  const facts: [string, string][] = [];
  if (causes.length) facts.push(["Interruptions", causes.map(([cause, times]) => `${times} ${cause}`).join(", ")]);
  if (reliability?.mttf_s) facts.push(["Mean time to failure", duration(reliability.mttf_s)]);
  if (reliability?.mttr_s) facts.push(["Mean time to repair", duration(reliability.mttr_s)]);
  if (reliability?.ettr) facts.push(["Trained, or ready to", `${percent(reliability.ettr)} of the wall time`]);
  if (advice && advice.gain > 0) {
    const words = `every ${duration(advice.best_interval_s)} instead of ${duration(advice.interval_s)}: about ${percent(advice.gain)} of the time back`;
    facts.push(["Save a checkpoint", words]);
  }
  const assumed = [...report.assumptions, ...found.assumptions];
  if (report.mfu !== null) facts.push(["MFU", percent(report.mfu)]);
  if (assumed.length) facts.push(["Assumed", assumed.join("; ")]);
  if (report.rejected) facts.push(["Rejected", `${count(report.rejected, "event")}, such as: ${report.rejected_lines[0]?.reason}`]);
  if (!facts.length) return null;
  return (
    <dl class="goodput-facts">
      {facts.map(([name, words]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{words}</dd>
        </div>
      ))}
    </dl>
  );
}
