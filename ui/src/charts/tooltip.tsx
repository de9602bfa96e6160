/** Exact values under the pointer: of every line's nearest bucket, the nearest line first among many. */

import type { Chart } from "../api";
import type { Axis } from "../state/url";
import { brief, count, duration, exact, moment, step } from "../words";
import { at, type Mark } from "./marks";
import type { Palette } from "./palette";
import type { Pointer } from "./plot";
import { ALL, nearest, type Shape, type Stroke } from "./shape";
import { EventLine } from "./flags";
import { fraction } from "./ticks";

const MOST = 9;
const MOST_EVENTS = 3;

interface Row {
  stroke: Stroke;
  i: number;
  away: number;
}

interface Props {
  chart: Chart;
  shape: Shape;
  marks: readonly Mark[];
  pointer: Pointer;
  log: boolean;
  palette: Palette;
  width: number;
}

export function Tooltip({ chart, shape, marks, pointer, log, palette, width }: Props) {
  const rows = under(shape, pointer, log);
  const happening = at(marks, pointer.x, Math.abs(shape.x[1] - shape.x[0]) / 100);
  const first = rows[0];
  if (!first && !happening.length) return null;
  const x = first?.stroke.line.x[first.i] ?? pointer.x;
  const last = first?.stroke.line.x_last[first.i] ?? x;
  const place = pointer.left > width / 2 ? { right: `${width - pointer.left + 14}px` } : { left: `${pointer.left + 14}px` };
  return (
    <div class="tooltip" style={place} aria-hidden="true">
      <p class="tooltip-x">
        {sayX(chart.x, x)}
        {last !== x && ` – ${sayX(chart.x, last)}`}
      </p>
      {rows.slice(0, MOST).map((row) => (
        <Entry key={row.stroke} row={row} unit={chart.unit} alone={rows.length === 1} palette={palette} />
      ))}
      {rows.length > MOST && <p class="faint">{count(rows.length - MOST, "more line")}</p>}
      <Happening found={happening} />
      {chart.rounded && <p class="faint">Holds integers beyond 2^53, rounded to a double.</p>}
    </div>
  );
}

function Happening({ found }: { found: readonly Mark[] }) {
  if (!found.length) return null;
  return (
    <ul class="tooltip-events">
      {found.slice(0, MOST_EVENTS).map(({ event }) => (
        <EventLine key={event.id} event={event} />
      ))}
      {found.length > MOST_EVENTS && <li class="faint">{count(found.length - MOST_EVENTS, "more event")}</li>}
    </ul>
  );
}

function Entry({ row: { stroke, i }, unit, alone, palette }: { row: Row; unit: string; alone: boolean; palette: Palette }) {
  const { line, y, raw } = stroke;
  const mean = line.mean[i] ?? null;
  const [low, high, points] = [line.min[i] ?? null, line.max[i] ?? null, line.count[i] ?? 1];
  const bad = [
    [line.n_nan[i], "NaN"],
    [line.n_posinf[i], "+Inf"],
    [line.n_neginf[i], "−Inf"],
  ].filter(([amount]) => amount);
  return (
    <div class="tooltip-entry">
      <i class={stroke.dashed ? "swatch dashed" : "swatch"} style={{ color: palette.hues[stroke.hue]! }} />
      <span class="tooltip-label">{alone && stroke.label === ALL ? (points > 1 ? "mean" : "value") : stroke.label}</span>
      <b class="number">{mean === null ? bad.map(([, word]) => word).join(" ") : `${exact(mean)}${unit && ` ${unit}`}`}</b>
      {raw && y[i] !== null && <span class="tooltip-more">smoothed {brief(y[i] ?? NaN)}</span>}
      {low !== null && high !== null && points > 1 && (
        <span class="tooltip-more number">
          {exact(low)} … {exact(high)}, {count(points, "point")}
        </span>
      )}
      {bad.length > 0 && (mean !== null || points > 1) && (
        <span class="tooltip-more bad-ink">{bad.map(([amount, word]) => `${amount} × ${word}`).join(", ")}</span>
      )}
    </div>
  );
}

/** The bucket of each line at the pointer, nearest line first; lines that end elsewhere are left out. */
function under(shape: Shape, pointer: Pointer, log: boolean): Row[] {
  const reach = Math.abs(shape.x[1] - shape.x[0]) / 20;
  const at = (stroke: Stroke, i: number) => {
    const y = stroke.y[i];
    if (y === null || y === undefined) return 1;
    return log ? fraction(Math.log10(y), [Math.log10(shape.y[0]), Math.log10(shape.y[1])]) : fraction(y, shape.y);
  };
  return shape.strokes
    .map((stroke) => ({ stroke, i: nearest(stroke.x, pointer.x) }))
    .filter(({ stroke, i }) => i >= 0 && covers(stroke, pointer.x, reach))
    .map(({ stroke, i }) => ({ stroke, i, away: Math.abs(at(stroke, i) - pointer.value) }))
    .sort((a, b) => a.away - b.away);
}

/** Whether a line reaches as far as the pointer; between its points the nearest one speaks. */
const covers = ({ line, x }: Stroke, at: number, reach: number): boolean =>
  at >= x[0]! - reach && at <= (line.x_last.at(-1) ?? x.at(-1)!) + reach;

/** A place on the x axis, whole. */
export function sayX(axis: Axis, x: number): string {
  if (axis === "step") return `step ${step(x)}`;
  return axis === "time" ? moment(x * 1000) : `${duration(x)} in`;
}
