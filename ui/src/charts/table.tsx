/** The table twin of a chart: every bucket with its exact values, for reading, screen readers and copying. */

import { useRef } from "preact/hooks";
import type { Chart, Line } from "../api";
import { rowsInView, useView } from "../parts/windowed";
import { count, exact } from "../words";
import { label } from "./shape";
import { sayX } from "./tooltip";

const ROW = 26;
const HEAD = ["Line", "From", "To", "Points", "Min", "Mean", "Max", "First", "Last", "Not finite"];

export function BucketTable({ chart }: { chart: Chart }) {
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const rows = chart.lines.flatMap((line) => line.x.map((_, i) => [line, i] as const));
  const [first, end] = rowsInView(view, ROW, rows.length);
  return (
    <div ref={box} class="bucket-table" tabIndex={0} role="region" aria-label={`Table of ${chart.metric}`}>
      <table>
        <caption class="out-of-sight">{`${chart.metric}: ${count(rows.length, "bucket")}`}</caption>
        <thead>
          <tr>
            {HEAD.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr aria-hidden="true" style={{ height: `${first * ROW}px` }} />
          {rows.slice(first, end).map(([line, i]) => (
            <tr key={`${label(line)}/${i}`}>
              {cells(chart, line, i).map((cell, column) => (
                <td key={column}>{cell}</td>
              ))}
            </tr>
          ))}
          <tr aria-hidden="true" style={{ height: `${(rows.length - end) * ROW}px` }} />
        </tbody>
      </table>
    </div>
  );
}

function cells(chart: Chart, line: Line, i: number): string[] {
  const bad = [
    [line.n_nan[i], "NaN"],
    [line.n_posinf[i], "+Inf"],
    [line.n_neginf[i], "−Inf"],
  ].filter(([amount]) => amount);
  const value = (column: (number | null)[]) => exact(column[i] ?? null);
  return [
    label(line),
    sayX(chart.x, line.x[i]!),
    sayX(chart.x, line.x_last[i] ?? line.x[i]!),
    String(line.count[i] ?? 0),
    value(line.min),
    value(line.mean),
    value(line.max),
    value(line.first),
    value(line.last),
    bad.map(([amount, word]) => `${amount} × ${word}`).join(", "),
  ];
}
