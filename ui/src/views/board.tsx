/** Charts of a run, user's or system's: a card a metric in groups, of which only those in view are mounted. */

import type { ComponentChild } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Run, RunEvent, Series } from "../api";
import { type BoardRow, CARD_HEIGHT, columnsFor, GAP, type Group, groups, inView, layout, matcher, PINNED } from "../charts/board";
import { Card, zoomOf } from "../charts/card";
import type { Mark } from "../charts/marks";
import { Dialog } from "../parts/dialog";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { Glyph } from "../parts/glyph";
import { useView } from "../parts/windowed";
import { placed } from "../state/events";
import type { Loaded } from "../state/load";
import { adjust } from "../state/place";
import { AXES, type Axis, type Look, type RunPlace } from "../state/url";
import { count } from "../words";
import { BoardBar } from "./board-bar";
import "./board.css";

interface Props {
  run: Run;
  place: RunPlace;
  series: Loaded<Series[]>;
  events: RunEvent[];
  system: boolean;
}

const PREFIX = "system/";
const MARGIN = 300;

export function Board({ run, place, series, events, system }: Props) {
  const all = useMemo(() => (series.value ?? []).filter((one) => one.system === system), [series.value, system]);
  const match = useMemo(() => matcher(place.match), [place.match]);
  const axis = axisOf(place, system);
  const marks = useMemo(() => (place.marks ? placed(events, axis, run) : []), [place.marks, events, axis, run.started_at, run.attempts]);
  if (!series.value) return series.problem ? <ProblemNote problem={series.problem} retry={series.reload} /> : <Skeleton lines={10} />;
  if (!all.length) return system ? <NoReadings /> : <NoMetrics run={run} />;
  const fitting = typeof match === "string" ? [] : groups(all, match, place.pin, system ? PREFIX : "");
  const shown = fitting.reduce((sum, group) => sum + (group.name === PINNED ? 0 : group.series.length), 0);
  const full = all.find(({ metric }) => metric === place.card);
  return (
    <>
      <BoardBar events={events.length} place={place} axis={axis} system={system} all={all} shown={shown} wrong={typeof match === "string" ? match : null} />
      {shown ? (
        <Cards {...{ place, axis, marks }} run={run.id} groups={fitting} />
      ) : (
        <Empty title={typeof match === "string" ? "The pattern is not complete" : "No metric matches"}>
          <p>{typeof match === "string" ? match : `${count(all.length, "metric")} of this run do not match /${place.match}/.`}</p>
          <button onClick={() => adjust({ match: "" })}>Show all</button>
        </Empty>
      )}
      {full && (
        <Full series={full} place={place}>
          {(width, height) => <Card full run={run.id} series={full} axis={axis} look={place} by={place.by} marks={marks} width={width} height={height} />}
        </Full>
      )}
    </>
  );
}

/** Readings are taken by the clock, so their steps only count samples: they are drawn over time. */
export function axisOf(place: Look, system: boolean): Axis {
  if (system) return place.x === "relative" ? "relative" : "time";
  return AXES.find((axis) => axis === place.x) ?? "step";
}

interface CardsProps {
  run: string;
  place: Look;
  axis: Axis;
  groups: Group[];
  /** Path of the points, where they are not the run's own. */
  of?: string;
  marks?: readonly Mark[];
}

/** Cards of a run, or of what `of` names. */
export function Cards({ run, place, axis, groups, of, marks = [] }: CardsProps) {
  return (
    <Grid groups={groups}>
      {(series, width) => <Card key={series.metric} run={run} {...(of ? { of } : {})} series={series} axis={axis} look={place} by={place.by} marks={marks} width={width} height={CARD_HEIGHT} />}
    </Grid>
  );
}

/** Rows of cards under the heads of their groups; only those near the part in view are there. */
export function Grid({ groups, children }: { groups: Group[]; children(series: Series, width: number): ComponentChild }) {
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box, true);
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const columns = columnsFor(view.width || 1000);
  const { rows, height } = useMemo(() => layout(groups, columns, closed), [groups, columns, closed]);
  const toggle = (name: string) => setClosed((old) => (old.has(name) ? new Set([...old].filter((one) => one !== name)) : new Set([...old, name])));
  const width = ((view.width || 1000) - GAP * (columns - 1)) / columns;
  return (
    <div ref={box} class="board" style={{ height: `${height}px` }}>
      {inView(rows, view.top - MARGIN, view.top + view.height + MARGIN).map((row) => (
        <div key={`${row.kind}/${keyOf(row)}`} class={`board-${row.kind}`} style={{ top: `${row.top}px`, height: `${row.height}px`, gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))` }}>
          {row.kind === "group" ? (
            <GroupHead row={row} toggle={toggle} />
          ) : (
            row.series.map((series) => children(series, width))
          )}
        </div>
      ))}
    </div>
  );
}

const keyOf = (row: BoardRow): string => (row.kind === "group" ? row.group.name : `${row.group}/${row.series[0]!.metric}`);

function GroupHead({ row, toggle }: { row: BoardRow & { kind: "group" }; toggle(name: string): void }) {
  const { group, open } = row;
  return (
    <button class="quiet group-head" aria-expanded={open} onClick={() => toggle(group.name)}>
      <Glyph name={open ? "down" : "right"} />
      <span class="clip">{group.name || "Metrics"}</span>
      <span class="faint number">{group.series.length}</span>
    </button>
  );
}

/** A card in a dialog as large as the window. */
export function Full({ series, place, children }: { series: Series; place: Look; children(width: number, height: number): ComponentChild }) {
  const [size, setSize] = useState({ width: innerWidth, height: innerHeight });
  useEffect(() => {
    const read = () => setSize({ width: innerWidth, height: innerHeight });
    addEventListener("resize", read);
    return () => removeEventListener("resize", read);
  }, []);
  const title = `${series.metric}${zoomOf(place) ? " (zoomed)" : ""}`;
  return (
    <Dialog title={title} wide onClose={() => adjust({ card: "" })}>
      {children(Math.min(1240, size.width - 60), Math.max(240, size.height - 140))}
    </Dialog>
  );
}

function NoMetrics({ run }: { run: Run }) {
  return (
    <Empty title="No metrics yet">
      <p>
        {run.pending > 0
          ? `${count(run.pending, "point")} were logged and are on their way.`
          : "The run has not logged any. In the training loop: "}
        {run.pending === 0 && <code>run.log({"{"}"loss": loss{"}"}, step=i)</code>}
      </p>
    </Empty>
  );
}

function NoReadings() {
  return (
    <Empty title="No system metrics">
      <p>
        Nobody has sampled this run's host and devices. <code>stepward run -- CMD</code> does, and so does the SDK after <code>sw.init()</code>.
      </p>
    </Empty>
  );
}
