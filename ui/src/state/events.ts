/** What happened to a run, or to all runs: loaded, kept live, filtered; and where an event stands on an axis. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type EventPage, get, type Problem, type Run, type RunEvent, runPath } from "../api";
import { duration } from "../words";
import { on, resyncs } from "./live";
import { asProblem, type Loaded, useLoad } from "./load";
import type { Axis, EventChoice } from "./url";

const PAGE = 100;

/** What detectors saw in a run, oldest first, without what they took back. */
export function useRunEvents(run: string | undefined): Loaded<RunEvent[]> {
  const loaded = useLoad(run ?? null, async (signal) => {
    const events = await get<RunEvent[]>(runPath(run!, "/events"), { query: { by: "detectors" }, signal });
    return events.map((event) => ({ ...event, run: run! }));
  });
  const [live, tell] = useState<{ of: RunEvent[]; events: RunEvent[] } | null>(null);
  const base = loaded.value;
  useEffect(() => {
    if (!base || !run) return;
    return on("events", (update) => {
      const seen = update.run === run ? update.events.filter((event) => event.detector !== null).map((event) => ({ ...event, run })) : [];
      if (seen.length) tell((old) => ({ of: base, events: merged(old?.of === base ? old.events : base, seen) }));
    });
  }, [run, base]);
  return { ...loaded, value: live && live.of === base ? live.events : base };
}

/** Old events with the news in their place, in order of their begin; what was withdrawn is gone. */
export function merged(old: readonly RunEvent[], news: readonly RunEvent[]): RunEvent[] {
  const byId = new Map(old.map((event) => [event.id, event]));
  for (const event of news) byId.set(event.id, event);
  return [...byId.values()].filter(({ certainty }) => certainty !== "withdrawn").sort((a, b) => (a.started_at < b.started_at ? -1 : a.started_at > b.started_at ? 1 : 0));
}

/** Whether an event is one of those that were chosen. */
export const chosen = (event: RunEvent, { type, certainty, severity }: EventChoice): boolean =>
  (!type || event.type === type) && (!certainty || event.certainty === certainty) && (!severity || event.severity === severity);

export const RISING = ["info", "warning", "critical"] as const;
export type Severity = (typeof RISING)[number];
export const severityOf = (event: RunEvent): Severity => RISING.find((name) => name === event.severity) ?? "info";
export const isSure = (event: RunEvent): boolean => event.certainty !== "suspected";

/** A detector's event with no end lasts; a writer's is an instant. */
const lasts = (event: RunEvent): boolean => event.detector !== null && event.ended_at === null;

/** When an event ended (ms since the epoch): at the latest with its attempt; infinite while both go on. */
export function endOf(event: RunEvent, attempts: Run["attempts"]): number {
  const ended = lasts(event) ? (attempts.find(({ number }) => number === event.attempt)?.ended_at ?? null) : (event.ended_at ?? event.started_at);
  return ended === null ? Infinity : Math.max(Date.parse(event.started_at), Date.parse(ended));
}

/** Whom an event is about: ranks, nodes, devices; empty where nobody is to blame by name. */
export function whereOf({ ranks, nodes, devices }: Pick<RunEvent, "ranks" | "nodes" | "devices">): string {
  const some = (name: string, ids: readonly (string | number)[]) => (ids.length > 6 ? `${ids.length} ${name}s` : ids.length ? `${name} ${[...ids].sort((a, b) => Number(a) - Number(b) || 0).join(", ")}` : "");
  return [some("rank", ranks), nodes.length > 3 ? `${nodes.length} nodes` : nodes.join(", "), some("device", devices)].filter(Boolean).join(" · ");
}

/** How long an event went on; one whose end nobody saw ended with its attempt, of which a list of many runs knows nothing. */
export function lastedOf(event: RunEvent, attempts?: Run["attempts"]): string {
  if (lasts(event) && !attempts) return "no end seen";
  const long = endOf(event, attempts ?? []) - Date.parse(event.started_at);
  if (long === Infinity) return "goes on";
  if (lasts(event)) return "to the end";
  return long > 0 ? duration(long / 1000) : "–";
}

interface FleetEvents {
  items: RunEvent[];
  problem: Problem | null;
  loading: boolean;
  more: (() => void) | null;
  reload(): void;
}

/** Events of all runs, newest first: as many pages as were asked for, with what came since on top. */
export function useFleetEvents(query: EventChoice & { project: string; since: string }): FleetEvents {
  const [held, hold] = useState<{ key: string; items: RunEvent[]; next: string | null; problem: Problem | null; loading: boolean }>({ key: "", items: [], next: null, problem: null, loading: true });
  const [turn, again] = useState(0);
  const abort = useRef<AbortController | null>(null);
  const key = JSON.stringify(query);
  const load = (cursor: string | null) => {
    hold((old) => (old.key === key ? { ...old, problem: null, loading: true } : { key, items: [], next: null, problem: null, loading: true }));
    const signal = abort.current!.signal;
    get<EventPage>("events", { query: { ...query, limit: PAGE, cursor }, signal }).then(
      ({ items, next }) => signal.aborted || hold((old) => ({ key, items: cursor ? [...old.items, ...items] : items, next, problem: null, loading: false })),
      (error: unknown) => signal.aborted || hold((old) => ({ ...old, problem: asProblem(error), loading: false })),
    );
  };
  const epoch = resyncs.value;
  useEffect(() => {
    abort.current = new AbortController();
    load(null);
    return () => abort.current?.abort();
  }, [key, turn, epoch]);
  useEffect(
    () =>
      on("events", ({ events }) => {
        const seen = events.filter((event) => event.detector !== null && (!query.project || event.project === query.project));
        if (!seen.length) return;
        hold((old) => ({ ...old, items: merged(old.items, seen).reverse().filter((event) => chosen(event, query)) }));
      }),
    [key],
  );
  return { items: held.items, problem: held.problem, loading: held.loading, more: held.next ? () => load(held.next) : null, reload: () => again((turn) => turn + 1) };
}

/** A stretch of an axis; both ends are the same for an instant, and the last is infinite while it lasts. */
export interface Stretch {
  from: number;
  to: number;
}

/** Where events stand on an axis; those that cannot be placed are left out. */
export function placed(events: readonly RunEvent[], axis: Axis, run: Pick<Run, "started_at" | "attempts">): (Stretch & { event: RunEvent })[] {
  const origin = axis === "relative" ? seconds(run.started_at) : 0;
  const steps = axis === "step" ? anchors(events, run.attempts) : null;
  return events.flatMap((event) => {
    const end = endOf(event, run.attempts) / 1000;
    const at = steps ? ofStep(event, end, steps) : { from: seconds(event.started_at) - origin, to: end - origin };
    return at && Number.isFinite(at.from) ? [{ ...at, event }] : [];
  });
}

type Anchor = readonly [time: number, step: number];

/** What is known of which step an attempt had reached when: its ends, and the events that say it. */
function anchors(events: readonly RunEvent[], attempts: Run["attempts"]): Map<number, Anchor[]> {
  const known = new Map<number, Anchor[]>();
  const add = (attempt: number | null, time: string | null, step: number | bigint | null) => {
    if (attempt === null || time === null || step === null) return;
    known.set(attempt, [...(known.get(attempt) ?? []), [seconds(time), Number(step)]]);
  };
  for (const { number, started_at, ended_at, first_step, last_step } of attempts) {
    add(number, started_at, first_step);
    add(number, ended_at, last_step);
  }
  for (const { attempt, started_at, step } of events) add(attempt, started_at, step);
  for (const list of known.values()) list.sort((a, b) => a[0] - b[0]);
  return known;
}

function ofStep(event: RunEvent, end: number, known: Map<number, Anchor[]>): Stretch | null {
  const list = known.get(event.attempt ?? -1) ?? [];
  const from = event.step === null ? between(list, seconds(event.started_at)) : Number(event.step);
  if (from === null) return null;
  return { from, to: end === Infinity ? end : Math.max(from, between(list, end) ?? from) };
}

/** The step at an instant, on the straight line between the two nearest that are known. */
function between(list: readonly Anchor[], time: number): number | null {
  const after = list.findIndex(([at]) => at >= time);
  if (after < 0) return list.at(-1)?.[1] ?? null;
  const [[t1, s1], before] = [list[after]!, list[after - 1]];
  if (!before || t1 === before[0]) return s1;
  return before[1] + ((time - before[0]) / (t1 - before[0])) * (s1 - before[1]);
}

const seconds = (instant: string | null): number => (instant === null ? NaN : Date.parse(instant) / 1000);
