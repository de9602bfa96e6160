/** The runs of a comparison: loaded, told apart by name, put together by what their configurations have in common. */

import { useEffect } from "preact/hooks";
import type { Member } from "../charts/compare";
import { get, Problem, type Run, runPath, type Series } from "../api";
import { LIVE } from "../words";
import { configOf, type Leaves } from "./configs";
import { type Json, shown } from "./leaves";
import { type Loaded, useLoad } from "./load";

const POLL_MS = 10_000;

export interface Compared {
  runs: Run[];
  configs: ReadonlyMap<string, Leaves>;
  /** Ids of runs that are not there, or not for this reader. */
  missing: string[];
  /** Metrics of any of them, those of machines left out. */
  series: Series[];
  live: boolean;
}

/** Load the runs, their configurations and metrics; again every now and then while one of them goes on. */
export function useCompared(ids: readonly string[]): Loaded<Compared> {
  const loaded = useLoad(ids.length ? ids.join(" ") : null, (signal) => load(ids, signal));
  const live = loaded.value?.live ?? false;
  useEffect(() => {
    if (!live) return;
    const timer = setInterval(() => document.hidden || loaded.reload(), POLL_MS);
    return () => clearInterval(timer);
  }, [live, loaded.reload]);
  return loaded;
}

async function load(ids: readonly string[], signal: AbortSignal): Promise<Compared> {
  const found = await Promise.all(
    ids.map(async (id) => {
      try {
        return await Promise.all([get<Run>(runPath(id), { signal }), get<Series[]>(runPath(id, "/series"), { signal }), configOf(id, signal)]);
      } catch (error) {
        if (error instanceof Problem && error.status === 404) return null;
        throw error;
      }
    }),
  );
  const there = found.filter((one) => one !== null);
  const runs = there.map(([run]) => run);
  const series = new Map(there.flatMap(([, all]) => all.filter(({ system }) => !system).map((one) => [one.metric, one])));
  const configs = new Map(there.map(([{ id }, , leaves]) => [id, leaves]));
  return { runs, configs, missing: ids.filter((_, i) => found[i] === null), series: [...series.values()], live: runs.some(({ state }) => LIVE.has(state)) };
}

/** Leaves of the configurations by path; `same` are those in which all runs agree. Pure. */
export function settings(runs: readonly Run[], configs: ReadonlyMap<string, Leaves>): { differing: string[]; same: string[] } {
  const paths = [...new Set(runs.flatMap(({ id }) => [...(configs.get(id)?.keys() ?? [])]))].sort();
  const values = (path: string) => new Set(runs.map(({ id }) => said(configs.get(id), path)));
  return { differing: paths.filter((path) => values(path).size > 1), same: paths.filter((path) => values(path).size === 1) };
}

/** What a run has at a path, in words; a dash where it has nothing. */
export function said(leaves: Leaves | undefined, path: string): string {
  const value = leaves?.get(path);
  return value === undefined ? "–" : shown(value as Json);
}

/** How the runs are drawn: each by itself, or those together that have the same at `group`. Pure. */
export function members(runs: readonly Run[], group: string, configs: ReadonlyMap<string, Leaves>): Member[] {
  const names = new Map<string, number>();
  for (const { name } of runs) names.set(name, (names.get(name) ?? 0) + 1);
  const hues = new Map<string, number>();
  return runs.map(({ id, name }) => {
    const value = said(configs.get(id), group);
    const key = group ? value : id;
    const hue = hues.get(key) ?? hues.size;
    hues.set(key, hue);
    const own = names.get(name)! > 1 ? `${name} · ${id.slice(-4)}` : name;
    return { run: id, key, name: group ? `${group.split(".").at(-1)} ${value}` : own, hue };
  });
}
