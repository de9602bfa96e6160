/** A chart as CSV: every bucket of every line with all its columns, numbers as they were logged. Pure. */

import type { Chart, Line } from "../api";
import { exact } from "../words";
import type { NamedLine } from "./shape";

const COLUMNS = ["x", "x_last", "min", "max", "mean", "first", "last", "count", "n_nan", "n_posinf", "n_neginf"] as const;
const OWNERS = ["name", "rank", "device", "node", "attempt", "abandoned"] as const;

/** RFC 4180 with a head line; the first columns say whose line it is. */
export function csv(chart: Chart): string {
  const whose = OWNERS.filter((name) => name !== "name" || chart.lines.some((line: NamedLine) => line.name));
  const head = ["metric", "unit", ...whose, ...COLUMNS.map((name) => (name === "x" ? chart.x : name === "x_last" ? `${chart.x}_last` : name))];
  const body = chart.lines.flatMap((line) => line.x.map((_, i) => [chart.metric, chart.unit, ...whose.map((name) => String((line as NamedLine)[name] ?? "")), ...cells(line, i)]));
  return [head, ...body].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

const cells = (line: Line, i: number): string[] => COLUMNS.map((name) => cell(line[name][i] ?? null));
const cell = (value: number | null): string => (value === null ? "" : exact(value));

/** A name that a spreadsheet would take for a formula is disarmed; numbers stay numbers. */
function quoted(value: string): string {
  const safe = /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
