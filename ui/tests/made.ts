// Charts for tests, as the server would answer them.
import type { Chart, Line } from "../src/api";

/** A line with one point a bucket; NaN and infinities are counted as the server does. */
export function line(values: number[], more: Partial<Line> = {}): Line {
  const finite = values.map((value) => (Number.isFinite(value) ? value : null));
  const xs = values.map((_, i) => i);
  const flags = (test: (value: number) => boolean) => values.map((value) => Number(test(value)));
  return {
    rank: null,
    device: null,
    node: null,
    attempt: 1,
    abandoned: false,
    x: xs,
    x_last: xs,
    min: finite,
    max: finite,
    mean: finite,
    first: finite,
    last: finite,
    count: values.map(() => 1),
    n_nan: flags(Number.isNaN),
    n_posinf: flags((value) => value === Infinity),
    n_neginf: flags((value) => value === -Infinity),
    ...more,
  };
}

export function chart(lines: Line[], more: Partial<Chart> = {}): Chart {
  return { metric: "loss", unit: "", x: "step", lines, restarts: [], lines_total: lines.length, rounded: false, empty_reason: null, ...more };
}
