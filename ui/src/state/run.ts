/** One open run: the run itself, its metrics and its sources, each kept live. */

import { useEffect, useState } from "preact/hooks";
import { get, type Run, runPath, type Series, type Source } from "../api";
import { on, watch } from "./live";
import { type Loaded, useLoad } from "./load";
import { paced } from "./pace";

const REFRESH_MS = 2000;

interface OpenRun extends Loaded<Run> {
  removed: boolean;
  put(run: Run): void;
}

/** The run that `named` (an id or a unique name) stands for. */
export function useRun(named: string): OpenRun {
  const loaded = useLoad(named, (signal) => get<Run>(runPath(named), { signal }));
  const [live, put] = useState<{ of: Loaded<Run>["value"]; run: Run } | null>(null);
  const [removed, setRemoved] = useState<string | null>(null);
  const value = live && loaded.value && live.of === loaded.value ? live.run : loaded.value;
  const id = loaded.value?.id;
  useEffect(() => {
    if (!id) return;
    watch(id);
    const offs = [
      on("run", ({ run }) => run.id === id && put({ of: loaded.value, run })),
      on("run_removed", (update) => update.id === id && setRemoved(id)),
    ];
    return () => offs.forEach((off) => off());
  }, [id, loaded.value]);
  useEffect(() => () => watch(null), []);
  return { ...loaded, value, removed: removed !== null && removed === id, put: (run) => put({ of: loaded.value, run }) };
}

/** The metrics that there are; asked again when a new one is heard of, or when a series may have got another rank. */
export function useSeries(run: string): Loaded<Series[]> {
  const loaded = useLoad(run, (signal) => get<Series[]>(runPath(run, "/series"), { signal }));
  useEffect(() => {
    const known = new Set(loaded.value?.map((series) => series.metric));
    const refresh = paced(loaded.reload, REFRESH_MS);
    const off = on("points", (update) => {
      if (update.run === run && update.metrics.some((metric) => !known.has(metric))) refresh();
    });
    return () => (off(), refresh.stop());
  }, [run, loaded.value]);
  return loaded;
}

/** The writers of a run, asked again at the pace of its updates. */
export function useSources(run: string): Loaded<Source[]> {
  const loaded = useLoad(run, (signal) => get<Source[]>(runPath(run, "/sources"), { signal }));
  useEffect(() => {
    const refresh = paced(() => document.hidden || loaded.reload(), REFRESH_MS);
    const off = on("run", (update) => update.run.id === run && refresh());
    return () => (off(), refresh.stop());
  }, [run, loaded.reload]);
  return loaded;
}
