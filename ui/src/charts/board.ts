/** Which cards a board has, in which groups, and where each row of cards lies: 5,000 metrics are laid out, few mounted. Pure. */

import type { Series } from "../api";

const GROUP_HEIGHT = 38;
export const CARD_HEIGHT = 262;
export const GAP = 10;
const CARD_WIDTH = 340;
export const PINNED = "Pinned";

export interface Group {
  name: string;
  series: Series[];
}

export type BoardRow = { top: number; height: number } & (
  | { kind: "group"; group: Group; open: boolean }
  | { kind: "cards"; group: string; series: Series[] }
);

/** A pattern as a regular expression, or what is wrong with it. */
export function matcher(pattern: string): RegExp | string {
  try {
    return new RegExp(pattern, "iu");
  } catch (error) {
    return (error as Error).message.replace(/^Invalid regular expression: /, "");
  }
}

/** Metrics by the part of their name before the first slash; pinned ones come first and once more in their group. */
export function groups(series: readonly Series[], match: RegExp, pins: readonly string[], prefix: string): Group[] {
  const fitting = series.filter(({ metric }) => match.test(metric));
  const byName = new Map<string, Series[]>();
  for (const one of fitting) {
    const name = groupOf(one.metric.slice(one.metric.startsWith(prefix) ? prefix.length : 0));
    const members = byName.get(name);
    if (members) members.push(one);
    else byName.set(name, [one]);
  }
  const pinned = pins.flatMap((pin) => fitting.filter(({ metric }) => metric === pin));
  const sorted = [...byName].map(([name, members]) => ({ name, series: members.sort(byMetric) })).sort(byGroup);
  return pinned.length ? [{ name: PINNED, series: pinned }, ...sorted] : sorted;
}

const groupOf = (metric: string): string => (metric.includes("/") ? metric.slice(0, metric.indexOf("/")) : "");
const order = new Intl.Collator("en", { numeric: true });
const byMetric = (a: Series, b: Series): number => order.compare(a.metric, b.metric);
const byGroup = (a: Group, b: Group): number => order.compare(a.name, b.name);

/** How many cards stand side by side. */
export const columnsFor = (width: number): number => Math.max(1, Math.min(4, Math.floor((width + GAP) / (CARD_WIDTH + GAP))));

/** Rows with their places from the top of the board, and the board's height. */
export function layout(all: readonly Group[], columns: number, closed: ReadonlySet<string>): { rows: BoardRow[]; height: number } {
  const rows: BoardRow[] = [];
  let top = 0;
  for (const group of all) {
    const open = !closed.has(group.name);
    rows.push({ kind: "group", top, height: GROUP_HEIGHT, group, open });
    top += GROUP_HEIGHT;
    for (let i = 0; open && i < group.series.length; i += columns) {
      rows.push({ kind: "cards", top, height: CARD_HEIGHT, group: group.name, series: group.series.slice(i, i + columns) });
      top += CARD_HEIGHT + GAP;
    }
  }
  return { rows, height: top };
}

/** The rows that touch the stretch from `top` to `bottom`, found by bisection. */
export function inView(rows: readonly BoardRow[], top: number, bottom: number): BoardRow[] {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle]!.top + rows[middle]!.height < top) low = middle + 1;
    else high = middle;
  }
  const end = rows.findIndex((row, i) => i >= low && row.top > bottom);
  return rows.slice(low, end === -1 ? rows.length : end);
}
