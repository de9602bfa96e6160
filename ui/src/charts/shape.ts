/** From the server's answer to what is drawn: lines, bands, marks of values that are not finite, ranges. Pure. */

import type { Chart, Line } from "../api";
import { smooth } from "./ema";
import { padded, type Range } from "./ticks";

export interface Look {
  smooth: number;
  log: boolean;
  band: boolean;
}

/** A stretch of buckets with values that are not finite. */
export interface Hole {
  from: number;
  to: number;
  nan: number;
  up: number;
  down: number;
}

/** A line that is called and coloured by who asked for it, such as after its run. */
export interface NamedLine extends Line {
  name?: string;
  hue?: number;
}

/** One line, ready to draw: `x` is the middle of each bucket. */
export interface Stroke {
  line: Line;
  label: string;
  hue: number;
  dashed: boolean;
  x: number[];
  y: (number | null)[];
  /** Means beneath a smoothed line. */
  raw: (number | null)[] | null;
  /** Lowest and highest of each bucket, where a bucket holds several values. */
  low: (number | null)[] | null;
  high: (number | null)[] | null;
  holes: Hole[];
}

export interface Shape {
  strokes: Stroke[];
  x: Range;
  y: Range;
  points: number;
  /** Buckets that a log scale can't show. */
  nonPositive: number;
  low: number | null;
  high: number | null;
}

const HUES = 8;
/** Above this many lines, bands would only cover each other. */
const MOST_BANDS = 8;

/** Everything that a chart draws, in the order of drawing: abandoned branches lie beneath. */
export function shape(chart: Chart, look: Look): Shape {
  const surviving = chart.lines.filter((line) => !line.abandoned);
  const branched = surviving.length < chart.lines.length;
  const hues = new Map(surviving.map((line, i) => [identity(line), i]));
  const ordered = [...chart.lines.filter((line) => line.abandoned), ...surviving];
  const banded = look.band && surviving.length <= MOST_BANDS;
  const strokes = ordered.map((line) => stroke(line, (line as NamedLine).hue ?? hues.get(identity(line)) ?? 0, { ...look, band: banded }));
  // Beside what was left behind, it matters that the line is what was kept.
  if (branched) for (const one of strokes) if (one.label === ALL) one.label = "kept";
  return { strokes, ...extent(strokes, look.log) };
}

function stroke(line: Line, index: number, look: Look): Stroke {
  const shown = (value: number | null) => (value !== null && look.log && value <= 0 ? null : value);
  const several = line.count.some((count, i) => count > 1 && line.min[i] !== line.max[i]);
  const smoothed = look.smooth > 0;
  return {
    line,
    label: label(line),
    hue: index % HUES,
    dashed: line.abandoned || Math.floor(index / HUES) % 2 === 1,
    x: line.x.map((x, i) => middleOf(x, line.x_last[i] ?? x)),
    y: (smoothed ? smooth(line.mean, line.count, look.smooth) : line.mean).map(shown),
    raw: smoothed ? line.mean.map(shown) : null,
    low: several && look.band ? line.min.map(shown) : null,
    high: several && look.band ? line.max.map(shown) : null,
    holes: holes(line),
  };
}

const middleOf = (a: number, b: number): number => (a === b ? a : a / 2 + b / 2);
/** The label of a line over everything. */
export const ALL = "all ranks";
const identity = (line: Line): string => `${line.rank}/${line.device}/${line.node}`;

/** What a line stands for, in words. */
export function label(line: NamedLine): string {
  const parts = [
    line.name ?? "",
    line.rank === null ? (line.node ?? "") : `rank ${line.rank}`,
    line.device === null ? "" : `device ${line.device}`,
    line.abandoned ? `attempt ${line.attempt ?? "?"}, abandoned` : "",
  ].filter(Boolean);
  return parts.join(" · ") || ALL;
}

/** Neighbouring buckets with values that are not finite, merged. */
export function holes(line: Line): Hole[] {
  const found: Hole[] = [];
  let open: Hole | null = null;
  line.x.forEach((from, i) => {
    const [nan, up, down] = [line.n_nan[i] ?? 0, line.n_posinf[i] ?? 0, line.n_neginf[i] ?? 0];
    if (nan + up + down === 0) {
      open = null;
      return;
    }
    const to = line.x_last[i] ?? from;
    if (open === null) found.push((open = { from, to, nan, up, down }));
    else Object.assign(open, { to, nan: open.nan + nan, up: open.up + up, down: open.down + down });
  });
  return found;
}

function extent(strokes: Stroke[], log: boolean): Omit<Shape, "strokes"> {
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
  let [points, nonPositive] = [0, 0];
  const take = (value: number | null | undefined) => {
    if (value === null || value === undefined) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  };
  for (const { line, y, raw, low: lows, high: highs } of strokes) {
    line.x.forEach((x, i) => {
      left = Math.min(left, x);
      right = Math.max(right, line.x_last[i] ?? x);
      points += line.count[i] ?? 0;
      if (log && (line.min[i] ?? 1) <= 0) nonPositive++;
      take(y[i]);
      // A spike counts for the range even where no band is drawn: the line then runs through it.
      for (const value of [raw?.[i], lows?.[i] ?? line.min[i], highs?.[i] ?? line.max[i]]) {
        if (value !== null && value !== undefined && !(log && value <= 0)) take(value);
      }
    });
  }
  const seen = low <= high;
  const y: Range = !seen ? (log ? [0.1, 10] : [0, 1]) : log ? logRoom(low, high) : padded([low, high]);
  const x: Range = left > right ? [0, 1] : left === right ? around(left) : [left, right];
  return { x, y, points, nonPositive, low: seen ? low : null, high: seen ? high : null };
}

/** Room on both sides of a lonely point: one step or second, as far as a double can tell them apart. */
function around(x: number): Range {
  const room = Math.max(1, Math.abs(x) * Number.EPSILON * 4);
  return [x - room, x + room];
}

function logRoom(low: number, high: number): Range {
  const room = low === high ? 3 : (high / low) ** 0.05 || 1;
  const factor = Number.isFinite(room) ? Math.max(room, 1.01) : 1e10;
  return [Math.max(low / factor, Number.MIN_VALUE), Math.min(high * factor, Number.MAX_VALUE)];
}

/** Index of the bucket nearest to `x`; -1 for no buckets. */
export function nearest(xs: readonly number[], x: number): number {
  let [low, high] = [0, xs.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle]! < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - xs[low - 1]! <= xs[low]! - x ? low - 1 : low < xs.length ? low : -1;
}

/** What the chart says to those who can't see it. */
export function summary(chart: Chart, { points, low, high, strokes }: Shape, say: (value: number) => string): string {
  const name = `${chart.metric} over ${chart.x}`;
  if (!points) return `${name}: ${chart.empty_reason ?? "no points"}`;
  const bad = strokes.reduce((sum, { holes }) => sum + holes.reduce((all, hole) => all + hole.nan + hole.up + hole.down, 0), 0);
  const range = low === null || high === null ? "no finite value" : `from ${say(low)} to ${say(high)}`;
  const more = [bad ? `${bad} not finite` : "", chart.restarts.length > 1 ? `${chart.restarts.length} attempts` : ""];
  return [`${name}: ${points} points`, strokes.length > 1 ? `${strokes.length} lines` : "", range, ...more].filter(Boolean).join(", ");
}
