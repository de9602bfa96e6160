/** The list of runs: keyset pages, loaded as far as one scrolls, kept live by updates and patched before the server answers. */

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { call, get, type Problem, type Run, type RunChange, type RunPage, runPath } from "../api";
import { say } from "../parts/notice";
import { asProblem } from "./load";
import { carry, on, resyncs } from "./live";
import { paced } from "./pace";

const PAGE = 100;
const MOST = 500;
const FLUSH_MS = 250;
const HEAD_MS = 3000;
const DEFAULT_SORT = "-started_at";

interface RunQuery {
  project: string;
  filter: string;
  sort: string;
}

/** What is loaded of a list; replaced whole at each change. */
interface LoadedRuns {
  items: Run[];
  total: number | null;
  problem: Problem | null;
  loading: boolean;
  next: string | null;
}

/** One query's runs, as far as they are loaded. */
export class RunList {
  readonly loaded = signal<LoadedRuns>({ items: [], total: null, problem: null, loading: false, next: null });
  private readonly abort = new AbortController();
  private readonly fresh = new Map<string, Run>();
  private readonly offs: (() => void)[];
  private readonly flush = paced(() => this.apply(), FLUSH_MS);
  private readonly refreshHead = paced(() => void this.head(), HEAD_MS);

  constructor(
    readonly query: RunQuery,
    private metrics: readonly string[] | null,
  ) {
    carry(metrics);
    this.offs = [
      on("run", ({ run }) => (this.fresh.set(run.id, run), this.flush())),
      on("run_removed", ({ id }) => this.remove(id)),
    ];
    void this.page(null);
  }

  end(): void {
    this.abort.abort();
    for (const off of this.offs) off();
    this.flush.stop();
    this.refreshHead.stop();
  }

  /** Load on until `count` runs are there. */
  reach(count: number): void {
    const { next, loading, problem, items } = this.now;
    // Who drags to the end of many thousands does not wait for them by the hundred.
    const limit = Math.min(MOST, Math.max(PAGE, count - items.length));
    if (next !== null && !loading && !problem && count > items.length) void this.page(next, limit).then(() => this.reach(count));
  }

  /** The first page again: runs may have come, gone or moved while nobody told. */
  async head(): Promise<void> {
    try {
      const { items, total, next } = await this.fetch(null);
      const ids = new Set(items.map((run) => run.id));
      const rest = this.now.items.slice(items.length).filter((run) => !ids.has(run.id));
      this.set({ items: [...items, ...rest], total, problem: null, next: rest.length ? this.now.next : next });
    } catch (error) {
      this.fail(error);
    }
  }

  /** Show the newest values of other metrics: what is loaded is loaded again with them. */
  async show(metrics: readonly string[] | null): Promise<void> {
    if (String(metrics) === String(this.metrics)) return;
    this.metrics = metrics;
    carry(metrics);
    try {
      const { items, total, next } = await this.fetch(null, Math.min(MOST, Math.max(PAGE, this.now.items.length)));
      if (this.metrics === metrics) this.set({ items, total, next, problem: null });
    } catch (error) {
      this.fail(error);
    }
  }

  /** Change a run here at once and on the server after; a refusal takes it back and says why. */
  async change(run: Run, change: RunChange): Promise<void> {
    this.put({ ...run, ...change } as Run);
    try {
      this.put(await call<Run>("PATCH", runPath(run.id), { body: change }));
    } catch (error) {
      this.put(run);
      say(asProblem(error).message, true);
    }
  }

  remove(id: string): void {
    const { items, total } = this.now;
    const left = items.filter((run) => run.id !== id);
    if (left.length < items.length) this.set({ items: left, total: (total ?? items.length) - 1 });
  }

  private async page(cursor: string | null, limit = PAGE): Promise<void> {
    this.set({ loading: true });
    try {
      const { items, total, next } = await this.fetch(cursor, limit);
      const known = new Set(this.now.items.map((run) => run.id));
      this.set({ items: [...this.now.items, ...items.filter((run) => !known.has(run.id))], total, next, problem: null });
    } catch (error) {
      this.fail(error);
    }
    this.set({ loading: false });
  }

  private fetch(cursor: string | null, limit = PAGE): Promise<RunPage> {
    const query = { ...this.query, limit, cursor, metrics: this.metrics };
    return get<RunPage>("runs", { query, signal: this.abort.signal });
  }

  private fail(error: unknown): void {
    if (!this.abort.signal.aborted) this.set({ problem: asProblem(error) });
  }

  private get now(): LoadedRuns {
    return this.loaded.peek();
  }

  private set(change: Partial<LoadedRuns>): void {
    this.loaded.value = { ...this.now, ...change };
  }

  private put(run: Run): void {
    this.set({ items: this.now.items.map((old) => (old.id === run.id ? run : old)) });
  }

  /** Take in what the stream said: known runs in place, new ones on top where that is certain, else the head is asked. */
  private apply(): void {
    const { project, filter, sort } = this.query;
    const { items, total } = this.now;
    const known = new Set(items.map((run) => run.id));
    const news = [...this.fresh.values()].filter((run) => !known.has(run.id) && (!project || run.project === project));
    const updated = items.map((run) => this.fresh.get(run.id) ?? run);
    this.fresh.clear();
    const certain = filter === "" && sort === DEFAULT_SORT && total !== null && news.every((run) => !items[0] || begun(run) >= begun(items[0]));
    if (certain) news.sort((a, b) => (begun(a) < begun(b) ? 1 : -1));
    else if (news.length || filter !== "") this.refreshHead();
    this.set(certain ? { items: [...news, ...updated], total: total + news.length } : { items: updated });
  }
}

const begun = (run: Run): string => run.started_at ?? run.created_at;

/** The list for a query; a new query makes a new list. `metrics` are those whose newest values are shown, null: any few. */
export function useRuns({ project, filter, sort }: RunQuery, metrics: readonly string[] | null): RunList {
  const list = useMemo(() => new RunList({ project, filter, sort }, metrics), [project, filter, sort]);
  useEffect(() => void list.show(metrics), [list, String(metrics)]);
  useEffect(() => () => list.end(), [list]);
  const epoch = resyncs.value;
  useEffect(() => void (epoch && list.head()), [epoch, list]);
  return list;
}
