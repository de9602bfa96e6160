/** Device time of many runs, put together by what the reader groups by. Pure. */

import type { RunShare } from "../api";
import type { Group } from "./url";

export interface Row {
  key: string;
  /** The run, where a row is one. */
  run: RunShare | null;
  runs: number;
  device_s: number;
  buckets: Record<string, number>;
  interruptions: number;
}

/** The most device time first. A run's device time is spread evenly over its nodes. */
export function grouped(runs: readonly RunShare[], group: Group): Row[] {
  const rows = new Map<string, Row>();
  for (const run of runs) {
    const keys = keysOf(run, group);
    for (const key of keys) {
      const row = rows.get(key) ?? { key, run: group === "run" ? run : null, runs: 0, device_s: 0, buckets: {}, interruptions: 0 };
      rows.set(key, row);
      row.runs += 1;
      row.interruptions += run.interruptions;
      row.device_s += run.device_s / keys.length;
      for (const [bucket, seconds] of Object.entries(run.buckets_device_s)) row.buckets[bucket] = (row.buckets[bucket] ?? 0) + seconds / keys.length;
    }
  }
  return [...rows.values()].sort((a, b) => b.device_s - a.device_s || a.key.localeCompare(b.key));
}

function keysOf(run: RunShare, group: Group): string[] {
  switch (group) {
    case "run":
      return [run.run];
    case "node":
      return run.nodes.length ? run.nodes : ["unknown"];
    default:
      return [run[group] || "unknown"];
  }
}
