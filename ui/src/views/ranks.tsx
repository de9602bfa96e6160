/** Who writes this run: ranks, launchers, agents; how each is, where, how far, and its last words. */

import { useRef, useState } from "preact/hooks";
import type { Run, Source } from "../api";
import { Chip } from "../parts/chip";
import { Glyph } from "../parts/glyph";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { rowsInView, useView } from "../parts/windowed";
import { plain } from "../state/lines";
import { now } from "../state/now";
import { adjust, href } from "../state/place";
import { useSources } from "../state/run";
import { type RunPlace, runPlace } from "../state/url";
import { ago, count, duration, LIVE, moment, step } from "../words";
import "./ranks.css";

const ROW = 33;
const HEADS = ["Source", "State", "Node", "Step", "Behind", "Phase", "Last seen", "Last words"];
const CLOCK_OFF_S = 2;

export function Ranks({ run, place }: { run: Run; place: RunPlace }) {
  const { value: sources, problem, reload } = useSources(run.id);
  const [opened, open] = useState<string | null>(null);
  if (!sources) return problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={8} />;
  if (!sources.length) return <Empty title="No source has been heard yet" />;
  const newest = Math.max(...sources.map((source) => source.attempt));
  const shown = ordered(place.past ? sources : sources.filter((source) => source.attempt === newest));
  const ranks = shown.filter((source) => source.kind === "rank").length;
  const whole = shown.find((source) => source.writer === opened);
  return (
    <section class="ranks" aria-label="Ranks and other sources">
      <div class="tool-bar" role="toolbar" aria-label="Ranks">
        <span class="soft number">
          {count(ranks, "rank")}
          {shown.length > ranks && `, ${count(shown.length - ranks, "other source")}`}
        </span>
        <span class="grow" />
        {newest > 1 && (
          <button aria-pressed={place.past} onClick={() => adjust({ past: !place.past })}>
            All attempts
          </button>
        )}
      </div>
      <SourceTable {...{ shown, run, opened }} attempts={place.past} open={(writer) => open(writer === opened ? null : writer)} />
      {whole && <LastWords run={run} source={whole} close={() => open(null)} />}
    </section>
  );
}

/** Newest attempt first, ranks by number, then the others. */
export function ordered(sources: readonly Source[]): Source[] {
  const key = ({ rank, kind }: Source) => (kind === "rank" ? (rank ?? 1e9) : 1e10);
  return [...sources].sort((a, b) => b.attempt - a.attempt || key(a) - key(b) || a.node.localeCompare(b.node));
}

interface TableProps {
  shown: Source[];
  run: Run;
  attempts: boolean;
  opened: string | null;
  open(writer: string): void;
}

function SourceTable({ shown, run, attempts, opened, open }: TableProps) {
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const [first, end] = rowsInView(view, ROW, shown.length);
  const furthest = Math.max(...shown.filter((source) => source.kind === "rank").map((source) => Number(source.step ?? -Infinity)));
  return (
    <div ref={box} class="table-box boxed" tabIndex={0} role="region" aria-label="Sources">
      <table class="run-table source-table">
        <colgroup>
          {[170, 120, 150, 90, 80, 120, 110, 420].map((width, i) => (
            <col key={i} style={{ width: `${width}px` }} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {HEADS.map((head, i) => (
              <th key={head} scope="col" class={i === 3 || i === 4 ? "right" : ""}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr aria-hidden="true" style={{ height: `${first * ROW}px` }} />
          {shown.slice(first, end).map((source) => (
            <Row key={source.writer} {...{ source, run, furthest, open, attempts }} opened={source.writer === opened} />
          ))}
          <tr aria-hidden="true" style={{ height: `${(shown.length - end) * ROW}px` }} />
        </tbody>
      </table>
    </div>
  );
}

interface RowProps {
  source: Source;
  run: Run;
  furthest: number;
  attempts: boolean;
  opened: boolean;
  open(writer: string): void;
}

function Row({ source, run, furthest, attempts, opened, open }: RowProps) {
  const behind = source.kind === "rank" && source.step !== null ? furthest - Number(source.step) : 0;
  const offset = Math.abs(source.clock_offset_s) > CLOCK_OFF_S ? `clock off by ${duration(source.clock_offset_s)}` : "";
  const last = source.traceback?.trim().split("\n").at(-1) ?? source.tail.at(-1);
  return (
    <tr class={opened ? "current" : ""} data-writer={source.writer}>
      <th scope="row">
        <b>{source.kind === "rank" ? `rank ${source.rank ?? "?"}` : source.kind}</b>
        {source.role !== "trainer" && <span class="faint"> {source.role}</span>}
        {attempts && <span class="faint"> attempt {source.attempt}</span>}
      </th>
      <td>
        <Chip state={source.state} title={source.signal ?? (source.exit_code === null ? null : `exit ${source.exit_code}`)} />
      </td>
      <td title={`pid ${source.pid}`}>
        {source.node || "–"}
        {offset && (
          <span class="warn-ink" title={offset}>
            {" "}
            <Glyph name="warn" />
          </span>
        )}
      </td>
      <td class="right">{step(source.step)}</td>
      <td class={behind > 0 && LIVE.has(run.state) ? "right warn-ink" : "right faint"}>{behind > 0 ? step(behind) : ""}</td>
      <td>{source.phase ?? ""}</td>
      <td>
        <time title={moment(source.last_seen_at)}>{ago(source.last_seen_at, now.value)}</time>
      </td>
      <td>
        {last === undefined ? (
          source.signal ?? (source.exit_code === null ? "" : `exit ${source.exit_code}`)
        ) : (
          <button class="quiet words mono clip" aria-expanded={opened} onClick={() => open(source.writer)}>
            {plain(last).slice(0, 300)}
          </button>
        )}
      </td>
    </tr>
  );
}

function LastWords({ run, source, close }: { run: Run; source: Source; close(): void }) {
  return (
    <div class="whole-line" role="region" aria-label="Last words">
      <div class="row small soft">
        <b class="grow">
          Last words of {source.kind === "rank" ? `rank ${source.rank}` : source.kind} on {source.node || "?"}, attempt {source.attempt}
          {source.signal && ` · ${source.signal}`}
          {source.exit_code !== null && ` · exit ${source.exit_code}`}
        </b>
        <a class="button quiet" href={href(runPlace(run.id, { tab: "logs" }))}>
          Logs
        </a>
        <button class="quiet icon" aria-label="Close" onClick={close}>
          <Glyph name="close" />
        </button>
      </div>
      {source.traceback && <pre tabIndex={0}>{source.traceback}</pre>}
      {source.tail.length > 0 && <pre tabIndex={0}>{source.tail.map(plain).join("\n")}</pre>}
    </div>
  );
}
