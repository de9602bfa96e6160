/** Lines of output as people read them, and pages of them joined. Pure. */

import type { LogLine } from "../api";

/** How many entries stay loaded; beyond it the far end is let go. */
export const KEPT = 20_000;

// CSI and OSC sequences, other escapes, and control characters that say nothing to a reader (tab stays).
const ESCAPES = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;

/** Words of a source as a terminal would leave them; lines of streams come so from the server. */
export function plain(raw: string): string {
  const states = raw.split("\r").filter((state) => state.trim() !== "");
  return (states.at(-1) ?? "").replace(ESCAPES, "");
}

/** Number of the last line that an entry stands for. */
export const lastOf = (line: LogLine): number => line.n_last ?? line.n;

/** Entries with a later page: what the page says anew replaces what was known from its first line on. */
export function append(entries: readonly LogLine[], page: readonly LogLine[]): LogLine[] {
  const first = page[0];
  if (!first) return [...entries];
  const kept = entries.filter((entry) => entry.n < first.n);
  // An entry that was opened line by line reaches into the page's fold; the lines stay, the fold's rest comes.
  const known = kept.length ? lastOf(kept.at(-1)!) : -Infinity;
  return [...kept, ...page.filter((line) => lastOf(line) > known)].slice(-KEPT);
}

/** Entries with an earlier page in front. */
export function prepend(entries: readonly LogLine[], page: readonly LogLine[]): LogLine[] {
  const first = entries[0]?.n ?? Infinity;
  return [...page.filter((line) => line.n < first), ...entries].slice(0, KEPT);
}

/** Entries with a fold replaced by its lines. */
export function unfold(entries: readonly LogLine[], n: number, lines: readonly LogLine[]): LogLine[] {
  return entries.flatMap((entry) => (entry.n === n ? lines.filter((line) => line.n >= n && line.n <= lastOf(entry)) : [entry]));
}

/** Index of the entry that line `n` is in, else of the next one after it; -1 where all come before it. */
export function indexOf(entries: readonly LogLine[], n: number): number {
  return entries.findIndex((entry) => lastOf(entry) >= n);
}

/** The match to jump to from a line, around the ends; from nowhere backwards from the newest. */
export function nextMatch(numbers: readonly number[], line: number | null, by: 1 | -1): number | null {
  if (!numbers.length) return null;
  if (by === 1) return numbers.find((n) => n > (line ?? -1)) ?? numbers[0]!;
  return numbers.findLast((n) => n < (line ?? Infinity)) ?? numbers.at(-1)!;
}
