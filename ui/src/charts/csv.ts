/** A chart as CSV: every bucket of every line with all its columns, numbers as they were logged. Pure. */

import type { Chart, Line } from "../api";
import { exact } from "../words";

const COLUMNS = ["x", "x_last", "min", "max", "mean", "first", "last", "count", "n_nan", "n_posinf", "n_neginf"] as const;
const OWNERS = ["rank", "device", "node", "attempt", "abandoned"] as const;

/** RFC 4180 with a head line; the first columns say whose line it is. */
export function csv(chart: Chart): string {
  const head = ["metric", "unit", ...OWNERS, ...COLUMNS.map((name) => (name === "x" ? chart.x : name === "x_last" ? `${chart.x}_last` : name))];
  const body = chart.lines.flatMap((line) => line.x.map((_, i) => [chart.metric, chart.unit, ...owners(line), ...cells(line, i)]));
  return [head, ...body].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

const owners = (line: Line): string[] => OWNERS.map((name) => String(line[name] ?? ""));
const cells = (line: Line, i: number): string[] => COLUMNS.map((name) => cell(line[name][i] ?? null));
const cell = (value: number | null): string => (value === null ? "" : exact(value));

/** A name that a spreadsheet would take for a formula is disarmed; numbers stay numbers. */
function quoted(value: string): string {
  const safe = /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
