/** Several runs on one chart: a comparison as a chart whose lines are called after runs, or after what runs have in common. Pure. */

import type { Chart, Comparison, Line } from "../api";
import type { NamedLine } from "./shape";

/** A run of a comparison. Runs of one `key` are one line, which is called `name`. */
export interface Member {
  run: string;
  key: string;
  name: string;
  hue: number;
}

/** The chart of a comparison, its lines in the order of their first member. */
export function compared({ metric, unit, x, lines }: Comparison, members: readonly Member[]): Chart {
  const found = new Map(lines.map((line) => [line.run, line]));
  const named = [...new Set(members.map(({ key }) => key))].flatMap((key): NamedLine[] => {
    const alike = members.filter((member) => member.key === key);
    const theirs = alike.flatMap(({ run }) => found.get(run) ?? []);
    if (!theirs.length) return [];
    const { name, hue } = alike[0]!;
    const counted = alike.length > 1 ? `${name} (${theirs.length} runs)` : name;
    return [{ ...(theirs.length > 1 ? pooled(theirs) : theirs[0]!), name: counted, hue }];
  });
  const empty_reason = named.length ? null : "None of these runs has points of it here.";
  return { metric, unit, x, lines: named, lines_total: named.length, restarts: [], rounded: false, empty_reason };
}

/**
 * One line for several: the mean of their means, from the lowest to the highest of all. Each line has the same weight
 * wherever it reaches, whatever its pace: between its points it is taken as straight, beyond its ends it says nothing.
 */
export function pooled(lines: readonly Line[]): Line {
  const all: NamedLine = { abandoned: false, attempt: null, device: null, node: null, rank: null, x: [], x_last: [], count: [], min: [], max: [], mean: [], first: [], last: [], n_nan: [], n_posinf: [], n_neginf: [] };
  for (const { x, x_last, entries } of places(lines)) {
    const present = new Set(entries.map(([line]) => line));
    const passing = lines.filter((line) => !present.has(line)).map((line) => straight(line, x));
    const means = [...entries.map(([line, i]) => line.mean[i] ?? null), ...passing].filter((value) => value !== null);
    const of = (column: "min" | "max") => [...entries.map(([line, i]) => line[column][i] ?? null), ...passing].filter((value) => value !== null);
    const total = (column: "count" | "n_nan" | "n_posinf" | "n_neginf") => entries.reduce((sum, [line, i]) => sum + (line[column][i] ?? 0), 0);
    const mean = means.length ? means.reduce((sum, value) => sum + value / means.length, 0) : null;
    all.x.push(x);
    all.x_last.push(x_last);
    all.mean.push(mean);
    all.first.push(mean);
    all.last.push(mean);
    all.min.push(means.length ? Math.min(...of("min")) : null);
    all.max.push(means.length ? Math.max(...of("max")) : null);
    for (const column of ["count", "n_nan", "n_posinf", "n_neginf"] as const) all[column].push(total(column));
  }
  return all;
}

interface PlaceOnAxis {
  x: number;
  x_last: number;
  entries: [Line, number][];
}

/** The buckets of all lines, put together in as many places as the finest line has. */
function places(lines: readonly Line[]): PlaceOnAxis[] {
  const most = Math.max(...lines.map(({ x }) => x.length));
  const low = Math.min(...lines.map(({ x }) => x[0] ?? Infinity));
  const high = Math.max(...lines.map(({ x }) => x.at(-1) ?? -Infinity));
  const found = new Map<number, PlaceOnAxis>();
  for (const line of lines) {
    line.x.forEach((x, i) => {
      const at = high > low ? Math.round(((x - low) / (high - low)) * (most - 1)) : 0;
      const there = found.get(at);
      const last = line.x_last[i] ?? x;
      if (there) {
        there.x_last = Math.max(there.x_last, last);
        there.entries.push([line, i]);
      } else found.set(at, { x, x_last: last, entries: [[line, i]] });
    });
  }
  return [...found].sort(([a], [b]) => a - b).map(([, there]) => there);
}

/** A line between its points; null beyond its ends and beside a value that is not finite. */
function straight({ x, mean }: Line, at: number): number | null {
  const after = x.findIndex((one) => one >= at);
  if (after <= 0) return null;
  const [left, right] = [mean[after - 1] ?? null, mean[after] ?? null];
  if (left === null || right === null) return null;
  const share = (at - x[after - 1]!) / (x[after]! - x[after - 1]!);
  return left * (1 - share) + right * share;
}
