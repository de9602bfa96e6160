/** Configurations of many runs as path -> leaf, each asked once. */

import { useEffect, useState } from "preact/hooks";
import { get, type RunConfig, runPath } from "../api";
import { type Json, quoted, rows } from "./leaves";

export type Leaves = ReadonlyMap<string, unknown>;

const kept = new Map<string, Leaves>();

/** What the user set for each of these runs, as far as it is loaded; asked one by one. */
export function useConfigs(runs: readonly { id: string }[]): ReadonlyMap<string, Leaves> {
  const [, turn] = useState(0);
  const missing = runs.find((run) => !kept.has(run.id))?.id;
  useEffect(() => {
    if (missing === undefined) return;
    configOf(missing).then(
      () => turn((n) => n + 1),
      () => (kept.set(missing, new Map()), turn((n) => n + 1)),
    );
  }, [missing]);
  return kept;
}

/** What the user set for a run; asked once. */
export async function configOf(run: string, signal?: AbortSignal): Promise<Leaves> {
  const leaves = kept.get(run) ?? leavesOf(await get<RunConfig>(runPath(run, "/config"), signal ? { signal } : {}));
  kept.set(run, leaves);
  return leaves;
}

function leavesOf(config: RunConfig): Leaves {
  const key = (path: string[]) => path.map((part) => (part.includes(".") ? quoted(part) : part)).join(".");
  return new Map(rows(config.user as Json).filter((row) => row.children === null).map((row) => [key(row.path), row.value]));
}
