/** Drawing of lines, bands and marks onto a canvas. Knows pixels and colours, nothing of the DOM or of fetching. */

import type { Chart } from "../api";
import { type Mark, paintMarks } from "./marks";
import type { Palette } from "./palette";
import type { Hole, Shape, Stroke } from "./shape";
import type { Range } from "./ticks";

/** Canvas pixels: the plot's box, and from values to them. */
export interface Frame {
  ctx: CanvasRenderingContext2D;
  left: number;
  top: number;
  width: number;
  height: number;
  /** Canvas pixels for one CSS pixel. */
  dense: number;
  px(x: number): number;
  py(y: number): number;
}

/** What is drawn beside the lines: restarts, and events over the range of the axis that is in view. */
export interface Beside {
  restarts: Chart["restarts"];
  marks: readonly Mark[];
  range: Range;
  /** Whether that is the whole range. */
  whole: boolean;
}

/** Draw everything inside the axes. */
export function paint(frame: Frame, shape: Shape, { restarts, marks, range, whole }: Beside, palette: Palette): void {
  const { ctx, left, top, width, height } = frame;
  within(ctx, left, top, width, height);
  ctx.lineJoin = "round";
  if (marks.length) paintMarks(frame, marks, { range, whole }, palette);
  paintRestarts(frame, restarts.filter((restart) => restart.attempt > 1), palette);
  for (const stroke of shape.strokes) paintBand(frame, stroke, palette);
  for (const stroke of shape.strokes) paintStroke(frame, stroke, palette);
  ctx.restore();
  // Marks at the first and last step are whole, too.
  const room = 6 * frame.dense;
  within(ctx, left - room, top, width + 2 * room, height);
  for (const stroke of shape.strokes) for (const hole of stroke.holes) paintHole(frame, hole, palette);
  ctx.restore();
}

function within(ctx: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
}

function paintBand(frame: Frame, { x, low, high, hue, line }: Stroke, palette: Palette): void {
  if (!low || !high) return;
  const { ctx, px, py, dense } = frame;
  ctx.fillStyle = ctx.strokeStyle = palette.hues[hue]!;
  ctx.lineWidth = dense / 2;
  const [fill, edge] = line.abandoned ? [0.07, 0.15] : [0.16, 0.55];
  const upper = (i: number) => py(high[i]!);
  // A bucket whose values are alike still has to be seen between two that are not.
  const lower = (i: number) => Math.max(py(low[i]!), upper(i) + 0.5);
  for (const [from, to] of stretches(high, low)) {
    ctx.beginPath();
    for (let i = from; i <= to; i++) ctx.lineTo(px(x[i]!), upper(i));
    for (let i = to; i >= from; i--) ctx.lineTo(px(x[i]!), lower(i));
    ctx.closePath();
    ctx.globalAlpha = fill;
    ctx.fill();
    // A spike one bucket wide is a hair: its edge keeps it in sight.
    ctx.globalAlpha = edge;
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
}

/** Index pairs of unbroken stretches in which both columns have values. */
export function stretches(a: readonly (number | null)[], b: readonly (number | null)[] = a): [number, number][] {
  const found: [number, number][] = [];
  a.forEach((value, i) => {
    if (value === null || (b[i] ?? null) === null) return;
    const last = found.at(-1);
    if (last && last[1] === i - 1) last[1] = i;
    else found.push([i, i]);
  });
  return found;
}

function paintStroke(frame: Frame, stroke: Stroke, palette: Palette): void {
  const { ctx, dense } = frame;
  ctx.strokeStyle = ctx.fillStyle = palette.hues[stroke.hue]!;
  ctx.setLineDash(stroke.dashed ? [4 * dense, 3 * dense] : []);
  if (stroke.raw) {
    ctx.globalAlpha = stroke.line.abandoned ? 0.15 : 0.3;
    ctx.lineWidth = dense;
    trace(frame, stroke, stroke.raw);
  }
  ctx.globalAlpha = stroke.line.abandoned ? 0.4 : 1;
  ctx.lineWidth = 1.4 * dense;
  trace(frame, stroke, stroke.y);
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
}

function trace(frame: Frame, stroke: Stroke, ys: readonly (number | null)[]): void {
  const { ctx, px, py, dense } = frame;
  const { x, line } = stroke;
  // Without a band the unsmoothed line itself runs through the lowest and highest value: no spike is ever hidden.
  const through = stroke.low === null && ys === (stroke.raw ?? stroke.y);
  ctx.beginPath();
  for (const [from, to] of stretches(ys)) {
    if (from === to) dot(ctx, px(x[from]!), py(ys[from]!), 2.2 * dense);
    for (let i = from; i <= to; i++) {
      const [at, low, high] = [px(x[i]!), line.min[i] ?? null, line.max[i] ?? null];
      if (i === from) ctx.moveTo(at, py(ys[i]!));
      if (through && low !== null && high !== null && low !== high) {
        ctx.lineTo(at, py(low));
        ctx.lineTo(at, py(high));
      }
      ctx.lineTo(at, py(ys[i]!));
    }
  }
  ctx.stroke();
}

function dot(ctx: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  const path = new Path2D();
  path.arc(x, y, radius, 0, 7);
  ctx.fill(path);
}

/** Pixels between the arrows of a stretch of infinities. */
const EVERY = 22;

/** A cross and a rug on the ground for NaN, arrows along the upper or lower edge for infinities. */
function paintHole(frame: Frame, hole: Hole, palette: Palette): void {
  const { ctx, top, height, dense, px } = frame;
  const [from, to, ground] = [px(hole.from), px(hole.to), top + height];
  ctx.fillStyle = ctx.strokeStyle = palette.bad;
  ctx.lineWidth = 1.6 * dense;
  if (hole.nan) {
    ctx.globalAlpha = 0.12;
    ctx.fillRect(from, top, Math.max(dense, to - from), height);
    ctx.globalAlpha = 1;
    ctx.fillRect(from, ground - 3 * dense, Math.max(2 * dense, to - from), 3 * dense);
    cross(ctx, from, ground - 9 * dense, 3.5 * dense);
  }
  for (const x of along(from, to, EVERY * dense)) {
    if (hole.up) arrow(ctx, x, top + 2 * dense, 5 * dense);
    if (hole.down) arrow(ctx, x, ground - 2 * dense, -5 * dense);
  }
}

/** Where the arrows of a stretch stand: at its begin, and on along it, so that a long one is not taken for a moment. */
export function along(from: number, to: number, every: number): number[] {
  return Array.from({ length: Math.max(0, Math.floor((to - from) / every)) + 1 }, (_, i) => from + i * every);
}

function cross(ctx: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  ctx.beginPath();
  ctx.moveTo(x - r, y - r);
  ctx.lineTo(x + r, y + r);
  ctx.moveTo(x - r, y + r);
  ctx.lineTo(x + r, y - r);
  ctx.stroke();
}

/** A triangle whose tip is at (x, y); it points up for a positive height. */
function arrow(ctx: CanvasRenderingContext2D, x: number, y: number, height: number): void {
  const half = Math.abs(height) * 0.8;
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x - half, y + height * 1.6);
  ctx.lineTo(x + half, y + height * 1.6);
  ctx.fill();
}

function paintRestarts(frame: Frame, restarts: Chart["restarts"], palette: Palette): void {
  const { ctx, top, left, width, height, dense, px } = frame;
  ctx.strokeStyle = ctx.fillStyle = palette.restart;
  ctx.lineWidth = dense;
  ctx.font = `600 ${10 * dense}px system-ui, sans-serif`;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  restarts.forEach(({ attempt, x }, i) => {
    const at = Math.round(px(x)) + 0.5;
    const end = Math.min(left + width, i + 1 < restarts.length ? px(restarts[i + 1]!.x) : Infinity);
    if (at < left || at > left + width) return;
    ctx.setLineDash([2 * dense, 3 * dense]);
    ctx.beginPath();
    ctx.moveTo(at, top);
    ctx.lineTo(at, top + height);
    ctx.stroke();
    // The whole word where it fits before the next restart, else the number alone.
    const fitting = [`attempt ${attempt}`, String(attempt)].find((text) => ctx.measureText(text).width + 6 * dense < end - at);
    if (fitting) ctx.fillText(fitting, at + 4 * dense, top + 5 * dense);
  });
  ctx.setLineDash([]);
}
