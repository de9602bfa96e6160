/** Charts from the server: kept for a while, so that a card that scrolls back into view draws at once, and kept live. */

import { useEffect, useRef } from "preact/hooks";
import { type Chart, type Comparison, get, runPath } from "../api";
import { on } from "../state/live";
import { type Loaded, useLoad } from "../state/load";
import { paced } from "../state/pace";
import type { Axis, Split } from "../state/url";

interface ChartQuery {
  run: string;
  /** Path of the points, where they are not the run's own. */
  of: string | null;
  metric: string;
  x: Axis;
  by: Split;
  start: number | null;
  end: number | null;
  buckets: number;
}

const KEEP = 200;
/** Shorter than the second that a value may take to the screen, of which commit and stream take half. */
const REFRESH_MS = 400;
/** The stream does not tell of points that are not the run's own; agents take one every 10 s. */
const POLL_MS = 10_000;
const kept = new Map<string, Chart>();

/** The newest chart for a query; while a zoomed or finer one loads, the last one on the same axis stays. */
export function useChart(query: ChartQuery): Loaded<Chart> {
  const key = JSON.stringify(query);
  const loaded = useLoad(key, async (signal) => keep(key, await fetchChart(query, signal)));
  const last = useRef<{ of: string; chart: Chart } | null>(null);
  const of = `${query.of ?? query.run}\n${query.metric}\n${query.x}`;
  const value = loaded.value ?? kept.get(key) ?? (last.current?.of === of ? last.current.chart : undefined);
  if (value) last.current = { of, chart: value };
  const busy = useRef(false);
  const missed = useRef(false);
  busy.current = loaded.loading;
  useEffect(() => {
    // A load that is under way is waited for: to begin anew would end it, and a slow server would never be heard.
    const refresh = paced(() => {
      if (busy.current) missed.current = true;
      else if (!document.hidden) loaded.reload();
    }, REFRESH_MS);
    const off = on("points", ({ run, metrics }) => {
      if (run === query.run && metrics.includes(query.metric)) refresh();
    });
    const timer = query.of === null ? undefined : setInterval(refresh, POLL_MS);
    return () => {
      clearInterval(timer);
      off();
      refresh.stop();
    };
  }, [query.run, query.of, query.metric, loaded.reload]);
  useEffect(() => {
    if (loaded.loading || !missed.current) return;
    missed.current = false;
    loaded.reload();
  }, [loaded.loading, loaded.reload]);
  return { ...loaded, value };
}

/** One metric of several runs; loaded again every now and then while one of them is `live`. */
export function useComparison(runs: readonly string[], live: boolean, query: Omit<ChartQuery, "run" | "of" | "by">): Loaded<Comparison> {
  const loaded = useLoad(JSON.stringify([runs, query]), (signal) => get<Comparison>("compare", { query: { ...query, run: runs }, signal }));
  const last = useRef<{ of: string; value: Comparison } | null>(null);
  const of = `${query.metric}\n${query.x}`;
  const value = loaded.value ?? (last.current?.of === of ? last.current.value : undefined);
  if (value) last.current = { of, value };
  useEffect(() => {
    if (!live) return;
    const timer = setInterval(() => document.hidden || loaded.reload(), POLL_MS);
    return () => clearInterval(timer);
  }, [live, loaded.reload]);
  return { ...loaded, value };
}

function fetchChart({ run, of, ...query }: ChartQuery, signal: AbortSignal): Promise<Chart> {
  return get<Chart>(of ?? runPath(run, "/points"), { query, signal });
}

function keep(key: string, chart: Chart): Chart {
  kept.delete(key);
  kept.set(key, chart);
  if (kept.size > KEEP) kept.delete(kept.keys().next().value!);
  return chart;
}
