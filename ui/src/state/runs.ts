/** The list of runs: keyset pages, loaded as far as one scrolls, kept live by updates and patched before the server answers. */

import { useEffect, useMemo, useReducer } from "preact/hooks";
import { call, get, type Problem, type Run, type RunChange, type RunPage, runPath } from "../api";
import { say } from "../parts/notice";
import { asProblem } from "./load";
import { on, resyncs } from "./live";
import { paced } from "./pace";

const PAGE = 100;
const FLUSH_MS = 250;
const HEAD_MS = 3000;
export const DEFAULT_SORT = "-started_at";

export interface RunQuery {
  project: string;
  filter: string;
  sort: string;
}

/** One query's runs, as far as they are loaded. */
export class RunList {
  items: Run[] = [];
  total: number | null = null;
  problem: Problem | null = null;
  loading = false;
  private next: string | null = null;
  private readonly abort = new AbortController();
  private readonly fresh = new Map<string, Run>();
  private readonly offs: (() => void)[];
  private readonly flush = paced(() => this.apply(), FLUSH_MS);
  private readonly refreshHead = paced(() => void this.head(), HEAD_MS);

  constructor(
    readonly query: RunQuery,
    private readonly changed: () => void,
  ) {
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
    if (this.next !== null && !this.loading && !this.problem && count > this.items.length) {
      void this.page(this.next).then(() => this.reach(count));
    }
  }

  /** The first page again: runs may have come, gone or moved while nobody told. */
  async head(): Promise<void> {
    try {
      const { items, total } = await this.fetch(null);
      const ids = new Set(items.map((run) => run.id));
      const rest = this.items.slice(items.length).filter((run) => !ids.has(run.id));
      Object.assign(this, { items: [...items, ...rest], total, problem: null });
    } catch (error) {
      this.fail(error);
    }
    this.changed();
  }

  /** Change a run here at once and on the server after; a refusal takes it back and says why. */
  async change(run: Run, change: RunChange): Promise<void> {
    this.put({ ...run, ...change } as Run);
    this.changed();
    try {
      this.put(await call<Run>("PATCH", runPath(run.id), { body: change }));
    } catch (error) {
      this.put(run);
      say(asProblem(error).message, true);
    }
    this.changed();
  }

  remove(id: string): void {
    const left = this.items.filter((run) => run.id !== id);
    if (left.length === this.items.length) return;
    this.items = left;
    this.total = Math.max(0, (this.total ?? 1) - 1);
    this.changed();
  }

  private async page(cursor: string | null): Promise<void> {
    this.loading = true;
    this.changed();
    try {
      const { items, total, next } = await this.fetch(cursor);
      const known = new Set(this.items.map((run) => run.id));
      this.items = [...this.items, ...items.filter((run) => !known.has(run.id))];
      Object.assign(this, { total, next, problem: null });
    } catch (error) {
      this.fail(error);
    }
    this.loading = false;
    this.changed();
  }

  private fetch(cursor: string | null): Promise<RunPage> {
    return get<RunPage>("runs", { query: { ...this.query, limit: PAGE, cursor }, signal: this.abort.signal });
  }

  private fail(error: unknown): void {
    if (!this.abort.signal.aborted) this.problem = asProblem(error);
  }

  private put(run: Run): void {
    this.items = this.items.map((old) => (old.id === run.id ? run : old));
  }

  /** Take in what the stream said: known runs in place, new ones on top where that is certain, else the head is asked. */
  private apply(): void {
    const { project, filter, sort } = this.query;
    const known = new Set(this.items.map((run) => run.id));
    const news = [...this.fresh.values()].filter((run) => !known.has(run.id) && (!project || run.project === project));
    this.items = this.items.map((run) => this.fresh.get(run.id) ?? run);
    this.fresh.clear();
    if (filter === "" && sort === DEFAULT_SORT && this.total !== null) {
      this.items = [...news.sort((a, b) => (begun(a) < begun(b) ? 1 : -1)), ...this.items];
      this.total += news.length;
    } else if (news.length || filter !== "") {
      this.refreshHead();
    }
    this.changed();
  }
}

const begun = (run: Run): string => run.started_at ?? run.created_at;

/** The list for a query; a new query makes a new list. */
export function useRuns({ project, filter, sort }: RunQuery): RunList {
  const [, changed] = useReducer((turn: number) => turn + 1, 0);
  const list = useMemo(() => new RunList({ project, filter, sort }, () => changed(undefined as never)), [project, filter, sort]);
  useEffect(() => () => list.end(), [list]);
  const epoch = resyncs.value;
  useEffect(() => void (epoch && list.head()), [epoch, list]);
  return list;
}
