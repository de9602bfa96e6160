/** One metric on a board: its chart, what is drawn where in words, and what can be done with it. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { Chart, Series } from "../api";
import { copy, save } from "../parts/copy";
import { Dialog } from "../parts/dialog";
import { Glyph } from "../parts/glyph";
import { Menu } from "../parts/menu";
import { ProblemNote, Skeleton } from "../parts/notice";
import type { Loaded } from "../state/load";
import { adjust, href, place } from "../state/place";
import { dark } from "../state/theme";
import { type Axis, type RunPlace, type Split } from "../state/url";
import { brief, count, withUnit } from "../words";
import { csv } from "./csv";
import { compared, type Member } from "./compare";
import { useChart, useComparison } from "./fetch";
import type { Mark } from "./marks";
import { palette } from "./palette";
import { picture } from "./picture";
import { crosshair, Plot } from "./plot";
import { ALL, nearest, shape, type Shape, summary } from "./shape";
import { BucketTable } from "./table";
import type { Range } from "./ticks";
import "./card.css";

export interface CardProps {
  run: string;
  /** Path of the points, where they are not the run's own. */
  of?: string;
  series: Series;
  axis: Axis;
  look: Pick<RunPlace, "smooth" | "log" | "band" | "from" | "to" | "pin">;
  /** Events on the axis of the chart. */
  marks?: readonly Mark[];
  by: Split;
  width: number;
  height: number;
  /** Whether this is the card that fills the screen. */
  full?: boolean;
}

/** How a card is drawn, whatever its lines are of. */
type Drawing = Omit<CardProps, "axis" | "by"> & { loaded: Loaded<Chart> };

const CHROME = 62;
const NO_MARKS: readonly Mark[] = [];

/** Of a run, or of what `of` names. */
export function Card({ axis, by, ...props }: CardProps) {
  return <Frame {...props} loaded={useChart({ ...asked(props, axis), run: props.run, of: props.of ?? null, by })} />;
}

/** Of several runs: `run` is what the chart is called in files. */
export function ComparedCard({ axis, members, live, ...props }: Omit<CardProps, "by"> & { members: readonly Member[]; live: boolean }) {
  const loaded = useComparison(members.map(({ run }) => run), live, asked(props, axis));
  const chart = useMemo(() => loaded.value && compared(loaded.value, members), [loaded.value, members]);
  return <Frame {...props} loaded={{ ...loaded, value: chart }} />;
}

function asked({ series, look, width }: Pick<CardProps, "series" | "look" | "width">, x: Axis) {
  const zoom = zoomOf(look);
  const buckets = Math.min(2000, Math.max(200, Math.ceil(width / 100) * 100));
  return { metric: series.metric, x, start: zoom?.[0] ?? null, end: zoom?.[1] ?? null, buckets };
}

function Frame({ run, of, series, look, marks = NO_MARKS, height, full, loaded }: Drawing) {
  const zoom = zoomOf(look);
  const { value: chart, problem, loading, reload } = loaded;
  const { smooth, log, band } = look;
  const drawn = useMemo(() => chart && shape(chart, { smooth, log, band }), [chart, smooth, log, band]);
  const box = useRef<HTMLElement>(null);
  const [tabled, setTabled] = useState(false);
  return (
    <figure ref={box} class={full ? "card full" : "card"} data-metric={series.metric} aria-busy={loading} style={{ height: `${height}px` }}>
      <figcaption class="row">
        <span class="card-name clip grow" title={series.metric}>
          <bdi>{series.metric}</bdi>
        </span>
        {chart && drawn && <Readout shape={drawn} unit={series.unit} />}
        <Tools {...{ run, of, series, chart, drawn, look, full: full ?? false, box }} onTable={() => setTabled(true)} />
      </figcaption>
      {chart && drawn ? (
        <Body {...{ chart, drawn, log, zoom, marks }} height={height - CHROME} />
      ) : problem ? (
        <ProblemNote problem={problem} retry={reload} />
      ) : (
        <Skeleton lines={5} />
      )}
      {chart && drawn && <Foot chart={chart} shape={drawn} log={log} />}
      {tabled && chart && (
        <Dialog title={series.metric} wide onClose={() => setTabled(false)}>
          <BucketTable chart={chart} />
        </Dialog>
      )}
    </figure>
  );
}

/** The zoom of a view; null is the whole range. */
export function zoomOf({ from, to }: Pick<RunPlace, "from" | "to">): Range | null {
  return from !== null && to !== null && from < to ? [from, to] : null;
}

interface BodyProps {
  chart: Chart;
  drawn: Shape;
  log: boolean;
  zoom: Range | null;
  height: number;
  marks: readonly Mark[];
}

function Body({ chart, drawn, log, zoom, height, marks }: BodyProps) {
  const onZoom = (range: Range | null) => adjust({ from: range?.[0] ?? null, to: range?.[1] ?? null });
  if (drawn.points === 0) {
    return (
      <div class="card-empty" style={{ height: `${height}px` }}>
        <p>{chart.empty_reason ?? "There are no points here."}</p>
        {zoom && <button onClick={() => onZoom(null)}>Whole range</button>}
      </div>
    );
  }
  return <Plot {...{ chart, log, zoom, height, marks, onZoom }} shape={drawn} summary={summary(chart, drawn, brief)} />;
}

/** The value at the shared crosshair, else the newest one; of several lines none speaks for all. */
function Readout({ shape, unit }: { shape: Shape; unit: string }) {
  const [stroke, ...others] = shape.strokes.filter(({ line }) => !line.abandoned);
  if (!stroke || others.length) return null;
  const at = crosshair.value?.x;
  const i = at === undefined ? stroke.y.length - 1 : nearest(stroke.x, at);
  const { mean, last, n_nan, n_posinf, n_neginf } = stroke.line;
  const bad = n_nan[i] ? NaN : n_posinf[i] ? Infinity : n_neginf[i] ? -Infinity : null;
  // The newest bucket does not tell the order within it: a NaN in it is never passed over.
  const value = at === undefined ? (bad ?? last[i]) : (mean[i] ?? bad);
  return value === null || value === undefined ? null : (
    <span class="readout number">
      {withUnit(value, unit)}
    </span>
  );
}

function Foot({ chart, shape, log }: { chart: Chart; shape: Shape; log: boolean }) {
  const colours = palette(dark.value);
  const living = shape.strokes.filter(({ line }) => !line.abandoned);
  const shown = [...living, ...shape.strokes.filter(({ line }) => line.abandoned)].slice(0, 6);
  const more = chart.lines_total - living.length;
  const bad = shape.strokes.flatMap(({ holes }) => holes);
  const total = (pick: "nan" | "up" | "down") => bad.reduce((sum, hole) => sum + hole[pick], 0);
  return (
    <div class="card-foot small faint">
      {total("nan") > 0 && <span class="bad-ink">✕ {total("nan")} NaN</span>}
      {total("up") > 0 && <span class="bad-ink">▲ {total("up")} +Inf</span>}
      {total("down") > 0 && <span class="bad-ink">▼ {total("down")} −Inf</span>}
      {log && shape.nonPositive > 0 && <span class="warn-ink">{count(shape.nonPositive, "bucket")} ≤ 0: not on a log scale</span>}
      {more > 0 && <span>{count(more, "line")} not drawn</span>}
      {shape.strokes.length > shown.length && <span>{count(shape.strokes.length, "line")}</span>}
      {(shape.strokes.length > 1 || shape.strokes[0]?.label !== ALL) &&
        shown.map((stroke) => (
          <span key={stroke} class="legend" title={stroke.label}>
            <i class={stroke.dashed ? "swatch dashed" : "swatch"} style={{ color: colours.hues[stroke.hue]!, opacity: stroke.line.abandoned ? 0.5 : 1 }} />
            <span class="clip">{stroke.label}</span>
          </span>
        ))}
    </div>
  );
}

interface ToolsProps {
  run: string;
  of: string | undefined;
  series: Series;
  chart: Chart | undefined;
  drawn: Shape | undefined;
  look: CardProps["look"];
  full: boolean;
  box: { current: HTMLElement | null };
  onTable(): void;
}

function Tools({ run, of, series, chart, drawn, look, full, box, onTable }: ToolsProps) {
  const { metric } = series;
  const pinned = look.pin.includes(metric);
  const pin = () => adjust({ pin: pinned ? look.pin.filter((name) => name !== metric) : [...look.pin, metric] });
  // Only a run's own charts have a place of their own in the address.
  const placed = of === undefined && (place.peek().view === "run" || place.peek().view === "compare");
  const name = `${run}-${metric.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80)}`;
  const png = async () => {
    const canvas = box.current?.querySelector("canvas");
    if (canvas && drawn) save(`${name}.png`, await picture(canvas, metric, drawn, palette(dark.peek())));
  };
  const link = () => {
    const here = place.peek();
    if (here.view === "run" || here.view === "compare") void copy(href({ ...here, card: metric }), "Link copied");
  };
  return (
    <Menu label={`Actions for ${metric.slice(0, 80)}`} button={<Glyph name="menu" />}>
      {(close) => {
        const item = (glyph: Parameters<typeof Glyph>[0]["name"], label: string, work: () => unknown, off = false) => (
          <button disabled={off} onClick={() => (close(), void work())}>
            <Glyph name={glyph} /> {label}
          </button>
        );
        return (
          <>
            {item("pin", pinned ? "Unpin" : "Pin to the top", pin)}
            {placed && item("full", full ? "Close full screen" : "Full screen", () => adjust({ card: full ? "" : metric }))}
            {item("table", "Show as table", onTable, !chart)}
            <hr />
            {item("download", "Download PNG", png, !drawn?.points)}
            {item("download", "Download CSV", () => save(`${name}.csv`, new Blob([csv(chart!)], { type: "text/csv" })), !chart)}
            {placed && item("link", "Copy link to this chart", link)}
            {item("copy", "Copy the metric's name", () => copy(metric))}
          </>
        );
      }}
    </Menu>
  );
}
