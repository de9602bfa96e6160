/** The diagnosis of an event or of a run's newest attempt: loaded, and asked again when there may be a newer one. */

import { useEffect } from "preact/hooks";
import { type Cause, type Diagnosis, type Evidence, get, type Problem, type Run, type RunEvent, runPath } from "../api";
import { LIVE } from "../words";
import { endOf } from "./events";
import { on } from "./live";
import { type Loaded, useLoad } from "./load";
import { paced } from "./pace";
import { type RunPlace, runPlace } from "./url";

const REFRESH_MS = 5000;
/** A diagnosis follows what it is about within this time; nothing tells of it. */
const FOLLOWS_MS = 20_000;

export interface Found {
  diagnosis: Diagnosis | null;
  /** The diagnosis as files, below the API. */
  path: string;
}

/** The diagnosis that was made for an event; where there is none, or no event is named, the newest of the run. */
export function useDiagnosis(run: Pick<Run, "id" | "state" | "attempts">, event: string | null): Loaded<Found> {
  const loaded = useLoad(`${run.id}/${event}`, (signal) => find(run.id, event, signal));
  const { reload } = loaded;
  useEffect(() => {
    const timers = [FOLLOWS_MS / 4, FOLLOWS_MS].map((ms) => setTimeout(reload, ms));
    return () => timers.forEach(clearTimeout);
  }, [run.id, run.state, run.attempts.length, reload]);
  useEffect(() => {
    let later: ReturnType<typeof setTimeout> | undefined;
    const refresh = paced(() => {
      reload();
      clearTimeout(later);
      later = setTimeout(reload, FOLLOWS_MS);
    }, REFRESH_MS);
    const off = on("events", (update) => update.run === run.id && refresh());
    return () => (off(), refresh.stop(), clearTimeout(later));
  }, [run.id, reload]);
  return loaded;
}

async function find(run: string, event: string | null, signal: AbortSignal): Promise<Found> {
  const paths = [...(event === null ? [] : [runPath(run, `/events/${encodeURIComponent(event)}/diagnosis`)]), runPath(run, "/diagnosis")];
  for (const path of paths) {
    try {
      return { diagnosis: await get<Diagnosis>(path, { signal }), path };
    } catch (error) {
      if ((error as Problem).code !== "no_diagnosis") throw error;
    }
  }
  return { diagnosis: null, path: paths[0]! };
}

/** Where the proof is shown: the line of a stream, or the chart's window; null where there is neither. */
export function proofPlace(run: string, { stream, line, chart }: Evidence): RunPlace | null {
  if (stream) return runPlace(run, { tab: "logs", stream, line });
  return chart ? chartPlace(run, chart.metric, Date.parse(chart.from_t), Date.parse(chart.to_t)) : null;
}

/** A stretch of time (in ms) on the charts of a run, of one metric where one is named. */
export function chartPlace(run: string, metric: string | null, from: number, to: number): RunPlace {
  const tab = metric?.startsWith("system/") ? "system" : "charts";
  return runPlace(run, { tab, x: "time", from: from / 1000, to: to / 1000, card: metric ?? "" });
}

/** An event's time on the charts (ms), with room around it; what goes on reaches to `now`. */
export function windowOf(event: RunEvent, attempts: Run["attempts"], now: number): [number, number] {
  const [from, to] = [Date.parse(event.started_at), Math.min(now, endOf(event, attempts))];
  const room = Math.max(60_000, (to - from) * 0.3);
  return [from - room, to + room];
}

/** What is said in a line of a diagnosis: its first cause; null where nothing is wrong, or nothing is proven of an attempt that did not end badly. */
export function headline({ document, attempt }: Diagnosis, attempts: Run["attempts"]): { cause: Cause | null; outcome: "failed" | "degraded" } | null {
  const { outcome, causes = [] } = document;
  if (outcome !== "failed" && outcome !== "degraded") return null;
  const state = attempts.find(({ number }) => number === attempt)?.state;
  if (!causes.length && (outcome === "degraded" || state === undefined || state === "finished" || LIVE.has(state))) return null;
  return { cause: causes[0] ?? null, outcome };
}

/** Of each attempt the newest diagnosis that has a cause, the newest attempt first; it needs an address: an event's, or as the newest of all. */
export function byAttempt(newestFirst: readonly Diagnosis[]): Diagnosis[] {
  const found = new Map<number, Diagnosis>();
  newestFirst.forEach((one, i) => {
    if (one.attempt !== null && !found.has(one.attempt) && one.document.causes?.length && (one.event !== null || i === 0)) found.set(one.attempt, one);
  });
  return [...found.values()].sort((a, b) => b.attempt! - a.attempt!);
}

/** A share as a whole percent, never rounded to a certainty that is not there. */
export const confidence = (share: number): string => `${Math.min(share < 1 ? 99 : 100, Math.round(share * 100))} %`;
