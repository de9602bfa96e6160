/** Configuration trees as flat lists. Pure. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface TreeRow {
  path: string[];
  depth: number;
  /** Number of children of a branch, null for a leaf. */
  children: number | null;
  value: Json;
}

const isBranch = (value: Json): value is { [key: string]: Json } | Json[] => typeof value === "object" && value !== null && !shortList(value);

/** Lists of plain values are read on one line. */
const shortList = (value: object): boolean =>
  Array.isArray(value) && value.length <= 32 && value.every((item) => typeof item !== "object" || item === null);

/** Rows of a tree from top to bottom, branches before what is in them; `closed` holds the paths that stay shut. */
export function rows(tree: Json, closed: (path: string) => boolean = () => false, path: string[] = []): TreeRow[] {
  if (!isBranch(tree)) return [];
  return Object.entries(tree).flatMap(([key, value]) => {
    const at = [...path, key];
    const children = isBranch(value) ? Object.keys(value).length : null;
    const row = { path: at, depth: path.length, children, value };
    return children === null || closed(pathKey(at)) ? [row] : [row, ...rows(value, closed, at)];
  });
}

export const pathKey = (path: readonly string[]): string => path.join("\u0000");

/** Leaves only, those whose path or value contains `search`. */
export function search(tree: Json, text: string): TreeRow[] {
  const wanted = text.toLowerCase();
  return rows(tree).filter((row) => row.children === null && `${row.path.join(".")} = ${shown(row.value)}`.toLowerCase().includes(wanted));
}

/** A leaf's value as people read it: strings bare, all else as JSON. */
export const shown = (value: Json): string => (typeof value === "string" ? value : JSON.stringify(value));

/** A part of a key as the filter language wants it. */
export const quoted = (part: string): string => (/^[A-Za-z_]\w*$/.test(part) ? part : `"${part.replace(/[\\"]/g, "\\$&")}"`);
