/** The jobs of a cluster: pages as far as one has scrolled, asked again while one looks; and what a job says of itself. */

import { useEffect, useRef } from "preact/hooks";
import { clusterPath, get, type Job, type JobPage, type Run } from "../api";
import { between, duration } from "../words";
import { usePolled } from "./polled";
import type { Loaded } from "./load";
import type { JobsPlace } from "./url";

const PAGE = 500;
const POLL_MS = 3000;

/** States as people ask for them, and those that they stand for. */
const STATES: Record<JobsPlace["state"], string | null> = {
  "": null,
  queued: "queued",
  running: "running,starting,hung,waiting",
  finished: "finished",
  failed: "failed,crashed,oom,timeout,preempted,cancelled,lost",
};

/** The first jobs that fit, at least `wanted` of them where there are so many, or those that are loaded. */
export function useJobs(place: JobsPlace, wanted: number): Loaded<JobPage> {
  const { cluster, user, partition, name, since } = place;
  const query = { state: STATES[place.state], user, partition, name, since, limit: PAGE };
  const goal = useRef(wanted);
  goal.current = wanted;
  const loaded = usePolled(JSON.stringify([cluster, query]), POLL_MS, async (signal) => {
    let page: JobPage | null = null;
    do {
      const next: JobPage = await get<JobPage>(clusterPath(cluster, "jobs"), { query: { ...query, cursor: page?.next ?? null }, signal });
      page = page ? { ...next, items: [...page.items, ...next.items] } : next;
    } while (page.next !== null && page.items.length < goal.current);
    return page;
  });
  const { value, loading, reload } = loaded;
  const missing = !loading && !!value?.next && value.items.length < wanted;
  useEffect(() => void (missing && reload()), [missing, reload]);
  return loaded;
}

/** What may be done with a job as it stands. */
export function verbsOf(job: Pick<Job, "state" | "held">): ("cancel" | "requeue" | "hold" | "release")[] {
  if (job.state === "queued") return [job.held ? "release" : "hold", "cancel"];
  return job.state === "running" || job.state === "starting" ? ["requeue", "cancel"] : [];
}

/** How long a job waits, runs, or ran. */
export function lasting(job: Pick<Job, "state" | "submitted_at" | "started_at" | "ended_at">, now: number): string {
  const start = job.started_at ?? job.submitted_at;
  const seconds = between(start, job.ended_at, now);
  return Number.isFinite(seconds) ? duration(Math.max(0, Math.floor(seconds))) : "–";
}

/** `gpu-0`, `gpu-0, gpu-1 +6`; how many are asked for where there are none yet. */
export function nodesOf({ nodes, node_count }: Pick<Job, "nodes" | "node_count">): string {
  if (!nodes.length) return node_count ? `${node_count} wanted` : "–";
  return nodes.slice(0, 2).join(", ") + (nodes.length > 2 ? ` +${nodes.length - 2}` : "");
}

/** Whether a scheduler's job is behind a run, by its key or by that of an attempt (`slurm.RESTARTS`). */
export const isScheduled = (run: Pick<Run, "key" | "attempts">): boolean => jobOf(run) !== null || run.attempts.some(({ key }) => key.startsWith("slurm."));

/** Cluster and job of a run that a scheduler started, as its key says (`slurm:CLUSTER:JOB`, `...@2` for an id that came again). */
export function jobOf({ key }: Pick<Run, "key">): { cluster: string; job: string } | null {
  const found = /^slurm:(.+):([^:#@]+)/.exec(key ?? "");
  return found ? { cluster: found[1]!, job: found[2]! } : null;
}
