/** uPlot's axes for our scales: both axes run from 0 to 1 beneath (but time, whose calendar uPlot knows), ticks are ours. */

import type uPlot from "uplot";
import type { Axis } from "../state/url";
import { binaryUnit, brief, step, withUnit } from "../words";
import type { Palette } from "./palette";
import { durationTicks, fraction, linearTicks, logTicks, type Range, valueAt } from "./ticks";

const BYTES = new Set(["B", "B/s"]);
const FONT = "11px system-ui, sans-serif";

/** What is in view; the axes read it anew at each drawing. */
export interface Scales {
  axis: Axis;
  x: Range;
  y: Range;
  log: boolean;
  unit: string;
}

/** From a value to uPlot's own scale, and back. */
export const toX = (s: Scales, x: number): number => (s.axis === "time" ? x : fraction(x, s.x));
export const fromX = (s: Scales, u: number): number => (s.axis === "time" ? u : valueAt(u, s.x));
export const toY = (s: Scales, y: number): number =>
  s.log ? fraction(Math.log10(y), [Math.log10(s.y[0]), Math.log10(s.y[1])]) : fraction(y, s.y);
export const rangeX = (s: Scales): [number, number] => (s.axis === "time" ? [s.x[0], s.x[1]] : [0, 1]);

/** Both axes; ticks on demand for `scales()`. */
export function axes(scales: () => Scales, palette: Palette): uPlot.Axis[] {
  const style = {
    stroke: palette.faint,
    font: FONT,
    grid: { stroke: palette.grid, width: 1 },
    ticks: { show: false },
  };
  return [{ ...style, ...horizontal(scales), size: scales().axis === "time" ? 40 : 28, gap: 6 }, { ...style, ...vertical(scales), gap: 6 }];
}

function horizontal(scales: () => Scales): uPlot.Axis {
  if (scales().axis === "time") return { values: CALENDAR, space: 64 };
  const ticks = (width: number): number[] => {
    const { axis, x } = scales();
    const target = Math.max(2, Math.floor(width / 75));
    return axis === "relative" ? durationTicks(x, target) : linearTicks(x, target, 1);
  };
  return {
    splits: (u) => ticks(u.bbox.width / devicePixelRatio).map((tick) => toX(scales(), tick)),
    values: (u) => ticks(u.bbox.width / devicePixelRatio).map(scales().axis === "relative" ? shortDuration : shortNumber),
  };
}

function vertical(scales: () => Scales): uPlot.Axis {
  const ticks = (height: number): number[] => {
    const { y, log, unit } = scales();
    const target = Math.max(2, Math.floor(height / 36));
    if (log) return logTicks(y, target);
    if (!BYTES.has(unit)) return linearTicks(y, target);
    const { bytes } = binaryUnit(Math.max(Math.abs(y[0]), Math.abs(y[1])));
    return linearTicks([y[0] / bytes, y[1] / bytes], target).map((tick) => tick * bytes);
  };
  const say = (tick: number) => (BYTES.has(scales().unit) ? withUnit(tick, scales().unit) : Math.abs(tick) >= 1e6 ? shortNumber(tick) : brief(tick));
  return {
    splits: (u) => ticks(u.bbox.height / devicePixelRatio).map((tick) => toY(scales(), tick)),
    values: (u) => ticks(u.bbox.height / devicePixelRatio).map(say),
    size: (_u, values) => Math.max(38, 14 + 6.4 * Math.max(0, ...(values ?? []).map((value) => value.length))),
  };
}

/** A number on an axis, such as a step: thousands as k, millions as M, and whole where it is short. */
export function shortNumber(value: number): string {
  const size = Math.abs(value);
  if (size < 10_000) return step(value);
  if (size < 1e6) return `${Number((value / 1e3).toPrecision(6))}k`;
  if (size < 1e9) return `${Number((value / 1e6).toPrecision(6))}M`;
  return size < 1e12 ? `${Number((value / 1e9).toPrecision(6))}G` : brief(value);
}

/** A duration on an axis: `45s`, `1m30s`, `2h15m`, `3d4h`. */
export function shortDuration(seconds: number): string {
  if (seconds < 0) return `−${shortDuration(-seconds)}`;
  if (seconds < 60) return `${Number(seconds.toPrecision(6))}s`;
  const parts: [number, string, number, string] =
    seconds < 3600 ? [60, "m", 1, "s"] : seconds < 86400 ? [3600, "h", 60, "m"] : [86400, "d", 3600, "h"];
  const [big, unit, small, smaller] = parts;
  const rest = Math.round((seconds % big) / small);
  return `${Math.floor(seconds / big)}${unit}${rest ? rest + smaller : ""}`;
}

// uPlot's table: from this distance of ticks on, the text of a tick, and what is added where year, month or day turn.
const day = "\n{D} {MMM}";
const CALENDAR: uPlot.Axis.Values = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [3600, "{HH}:{mm}", `${day} {YYYY}`, null, day, null, null, null, 1],
  [60, "{HH}:{mm}", `${day} {YYYY}`, null, day, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", `${day} {YYYY}`, null, day, null, null, null, 1],
  [0.001, "{ss}.{fff}", `${day} {YYYY}`, null, "\n{HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];
