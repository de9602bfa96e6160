/** Loading from the API inside components: one hook, so that every view treats waiting, failure and reconnecting alike. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../api";
import { resyncs } from "./live";

export interface Loaded<T> {
  /** Newest value; it stays while the same key loads again, and when loading again fails. */
  value: T | undefined;
  problem: Problem | null;
  loading: boolean;
  reload(): void;
}

interface Held<T> {
  key: string | null;
  value?: T | undefined;
  problem: Problem | null;
  loading: boolean;
}

/** Load by `key`; a new key (null = nothing) drops the old value, `reload` and a resync keep it until the new one is there. */
export function useLoad<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [held, hold] = useState<Held<T>>({ key, problem: null, loading: key !== null });
  const [turn, setTurn] = useState(0);
  const current = useRef(load);
  current.current = load;
  const epoch = resyncs.value;
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    hold((old) => (old.key === key ? { ...old, loading: true } : { key, problem: null, loading: true }));
    current.current(abort.signal).then(
      (value) => abort.signal.aborted || hold({ key, value, problem: null, loading: false }),
      (error: unknown) => abort.signal.aborted || hold((old) => ({ ...old, key, problem: asProblem(error), loading: false })),
    );
    return () => abort.abort();
  }, [key, turn, epoch]);
  const reload = useCallback(() => setTurn((turn) => turn + 1), []);
  const fresh = held.key === key ? held : { value: undefined, problem: null, loading: key !== null };
  return { value: fresh.value, problem: fresh.problem, loading: fresh.loading, reload };
}

/** Any failure as a problem that can be shown. */
export function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem(0, "page_error", error instanceof Error ? error.message : String(error));
}
