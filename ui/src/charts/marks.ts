/** Events on a chart: bands behind its lines and flags above them, merged where they would cover each other. Pure, but for the drawing. */

import type { RunEvent } from "../api";
import { isSure, RISING, type Severity, severityOf, type Stretch } from "../state/events";
import type { Frame } from "./draw";
import type { Palette } from "./palette";
import { fraction, type Range } from "./ticks";


/** An event where it stands on the axis. */
export type Mark = Stretch & { event: RunEvent };

/** A stretch of the axis in which something of a severity went on. */
export interface Band extends Stretch {
  severity: Severity;
  sure: boolean;
}

/** Events that begin at (nearly) the same place: `at` is its share of the width. */
export interface Flag {
  at: number;
  events: RunEvent[];
  severity: Severity;
  sure: boolean;
}

/** The stretches in view, those of one kind put together, so that many do not darken each other. */
export function bands(marks: readonly Mark[], [low, high]: Range): Band[] {
  const found: Band[] = [];
  for (const severity of RISING) {
    for (const sure of [false, true]) {
      const alike = marks.filter(({ event, from, to }) => severityOf(event) === severity && isSure(event) === sure && to > from && to >= low && from <= high);
      let open: Band | null = null;
      for (const { from, to } of alike.sort((a, b) => a.from - b.from)) {
        const [begin, end] = [Math.max(low, from), Math.min(high, to)];
        if (open !== null && begin <= open.to) open.to = Math.max(open.to, end);
        else found.push((open = { from: begin, to: end, severity, sure }));
      }
    }
  }
  return found;
}

/** How much wider than its points a chart may become for events beside them, as a share. */
const ROOM = 0.15;

/** The range of a chart's points with room for what happened before the first and after the last: a crash has no points. */
export function widened([low, high]: Range, marks: readonly Mark[]): Range {
  const room = (high - low) * ROOM;
  const near = marks.filter(({ from }) => from >= low - room && from <= high + room);
  const begins = near.map(({ from }) => from);
  const ends = near.map(({ from, to }) => (to === Infinity ? from : Math.min(to, high + room)));
  return [Math.min(low, ...begins), Math.max(high, ...ends)];
}

interface Plane {
  range: Range;
  /** Pixels. */
  width: number;
  /** Whether this is the whole chart: then nothing is out of view, and what lies beyond stands at the edge. */
  whole: boolean;
}

/** Flags at least `apart` pixels from each other; what began before the range and goes on in it stands at its edge. */
export function flags(marks: readonly Mark[], { range, width, whole }: Plane, apart = 18): Flag[] {
  const found: Flag[] = [];
  const inView = marks.filter(({ from, to }) => whole || (to >= range[0] && from <= range[1])).sort((a, b) => a.from - b.from);
  for (const { event, from } of inView) {
    const at = Math.min(1, Math.max(0, fraction(from, range)));
    const last = found.at(-1);
    if (last && (at - last.at) * width < apart) {
      last.events.push(event);
      last.sure ||= isSure(event);
      if (RISING.indexOf(severityOf(event)) > RISING.indexOf(last.severity)) last.severity = severityOf(event);
    } else found.push({ at, events: [event], severity: severityOf(event), sure: isSure(event) });
  }
  return found;
}

/** The events at a place of the axis: those that went on then, and those that began within `reach` of it. */
export const at = (marks: readonly Mark[], x: number, reach: number): Mark[] => marks.filter(({ from, to }) => x >= from - reach && x <= Math.max(to, from + reach));

/** Bands over the whole height with a bar on top, and a hair where an event begins. */
export function paintMarks({ ctx, left, top, width, height, dense, px }: Frame, marks: readonly Mark[], { range, whole }: Omit<Plane, "width">, palette: Palette): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  for (const { from, to, severity, sure } of bands(marks, range)) {
    const [begin, end] = [px(from), px(to)];
    const wide = Math.max(dense, end - begin);
    ctx.fillStyle = palette.severity[severity];
    ctx.globalAlpha = sure ? 0.1 : 0.05;
    ctx.fillRect(begin, top, wide, height);
    ctx.globalAlpha = sure ? 0.85 : 0.4;
    ctx.fillRect(begin, top, wide, 3 * dense);
  }
  ctx.lineWidth = dense;
  for (const { at, severity, sure } of flags(marks, { range, whole, width: width / dense })) {
    const x = Math.round(left + at * width) + 0.5;
    ctx.strokeStyle = palette.severity[severity];
    ctx.globalAlpha = sure ? 0.6 : 0.4;
    ctx.setLineDash(sure ? [] : [3 * dense, 3 * dense]);
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
  }
  ctx.restore();
}
