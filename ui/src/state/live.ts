/**
 * Live updates: one SSE stream a tab, fanned out by kind. After every reconnect (and when the server says that we were
 * too slow) `resyncs` counts up: whoever shows loaded data loads it again, since updates may have been missed.
 */

import { signal } from "@preact/signals";
import { address, get, parse, reachable } from "../api";
import type { components } from "../api.gen";

type Schemas = components["schemas"];
type Updates = {
  run: Schemas["RunUpdate"];
  run_removed: Schemas["RunRemoved"];
  points: Schemas["PointsUpdate"];
  logs: Schemas["LogsUpdate"];
  events: Schemas["EventsUpdate"];
};
type Kind = keyof Updates;
const KINDS: readonly Kind[] = ["run", "run_removed", "points", "logs", "events"];
const RETRY_MS = [1000, 2000, 5000, 10000];

export const resyncs = signal(0);
/** When the next attempt to connect is due (ms since the epoch), null while connected. */
export const retryAt = signal<number | null>(null);

const listeners = new Map<Kind, Set<(update: never) => void>>();
let source: EventSource | null = null;
let watched: string | null = null;
let metrics: readonly string[] | null = null;
let failures = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Call `listener` on every update of a kind; the answer ends it. */
export function on<K extends Kind>(kind: K, listener: (update: Updates[K]) => void): () => void {
  const set = listeners.get(kind) ?? new Set();
  listeners.set(kind, set.add(listener as (update: never) => void));
  return () => set.delete(listener as (update: never) => void);
}

/** Connect, or connect again with the details of another run (null = of none). */
export function watch(run: string | null): void {
  if (source && run === watched) return;
  watched = run;
  connect();
}

/** Connect again where other newest values are to travel with the runs (null: those that the server chooses). */
export function carry(names: readonly string[] | null): void {
  if (String(names) === String(metrics)) return;
  metrics = names;
  if (source) connect();
}

/** Try now rather than when the back-off ends. */
export function retry(): void {
  connect();
}

/** End the stream: nobody is signed in. */
export function hush(): void {
  clearTimeout(timer);
  source?.close();
  source = null;
  retryAt.value = null;
}

function connect(): void {
  hush();
  const opened = new EventSource(address("live", { runs: 1, events: 1, run: watched, metrics }));
  source = opened;
  opened.onopen = () => {
    const again = failures > 0;
    failures = 0;
    reachable.value = true;
    retryAt.value = null;
    if (again) resyncs.value++;
  };
  opened.onerror = () => {
    if (source !== opened) return;
    opened.close();
    source = null;
    const wait = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]!;
    retryAt.value = Date.now() + wait;
    timer = setTimeout(connect, wait);
    // An EventSource does not tell why it failed: a call does, and notices when the session has ended.
    get("session").catch(() => undefined);
  };
  opened.addEventListener("resync", () => resyncs.value++);
  for (const kind of KINDS) {
    opened.addEventListener(kind, (event) => {
      const update = parse((event as MessageEvent<string>).data) as never;
      for (const listener of listeners.get(kind) ?? []) listener(update);
    });
  }
}
