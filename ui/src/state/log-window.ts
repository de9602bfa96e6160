/**
 * The part of a stream of output that is loaded: a window of entries that grows at both ends as one scrolls, jumps to a
 * line, follows the newest, and lets the far end go.
 */

import { signal } from "@preact/signals";
import { get, type LogLine, type LogPage, type LogStream, type Problem, runPath } from "../api";
import { on } from "./live";
import { append, lastOf, prepend, unfold } from "./lines";
import { asProblem } from "./load";
import { paced } from "./pace";

const PAGE = 500;
const MOST = 5000;
const FOLLOW_MS = 400;

/** What is loaded; replaced whole at each change. */
export interface Lines {
  entries: LogLine[];
  stream: LogStream | null;
  problem: Problem | null;
  loading: boolean;
  atStart: boolean;
  atEnd: boolean;
  /** Counts jumps: a view then scrolls to where it was sent. */
  jumps: number;
  /** Entries that came in front at this change, so that a view can stay where it is. */
  added: number;
}

const NOTHING: Lines = { entries: [], stream: null, problem: null, loading: false, atStart: false, atEnd: false, jumps: 0, added: 0 };

export class LogWindow {
  readonly lines = signal(NOTHING);
  following = false;
  private readonly abort = new AbortController();
  private readonly off: () => void;
  private readonly catchUp = paced(() => void this.newer(), FOLLOW_MS);

  constructor(
    readonly run: string,
    readonly id: string,
  ) {
    this.off = on("logs", (update) => {
      const lines = update.run === run ? update.streams[id] : undefined;
      if (lines === undefined) return;
      const { stream } = this.now;
      this.set({ stream: stream && { ...stream, lines }, atEnd: false });
      if (this.following && !document.hidden) this.catchUp();
    });
  }

  end(): void {
    this.abort.abort();
    this.off();
    this.catchUp.stop();
  }

  /** The newest lines, in place of what was loaded. */
  tail(): Promise<void> {
    return this.load({ tail: PAGE }, ({ lines }) => ({
      entries: lines,
      atEnd: true,
      atStart: (lines[0]?.n ?? 0) <= 1,
      jumps: this.now.jumps + 1,
    }));
  }

  /** Lines around line `n`, in place of what was loaded. */
  around(n: number): Promise<void> {
    const from = Math.max(1, n - PAGE / 2);
    return this.load({ from_n: from, limit: PAGE }, (page) => ({
      entries: page.lines,
      atStart: from === 1,
      atEnd: reachesEnd(page),
      jumps: this.now.jumps + 1,
    }));
  }

  async older(): Promise<void> {
    const first = this.now.entries[0]?.n;
    if (first === undefined || this.now.atStart || this.now.loading) return;
    const from = Math.max(1, first - PAGE);
    await this.load({ from_n: from, limit: PAGE }, ({ lines }) => {
      const { entries: old, atEnd } = this.now;
      const added = lines.filter((line) => line.n < first).length;
      const entries = prepend(old, lines);
      return { entries, added, atStart: from === 1, atEnd: atEnd && entries.length === old.length + added };
    });
  }

  /** More lines at the end; the last entry is asked again, since it may have grown. */
  async newer(): Promise<void> {
    if (this.now.loading) return;
    await this.load({ from_n: this.now.entries.at(-1)?.n ?? 1, limit: PAGE }, (page) => {
      const entries = append(this.now.entries, page.lines);
      return { entries, atEnd: reachesEnd(page), atStart: (entries[0]?.n ?? 0) <= 1 };
    });
    if (this.following && !this.now.atEnd && !this.now.problem) this.catchUp();
  }

  /** The single lines of an entry that stands for many. */
  open(entry: LogLine): Promise<void> {
    const limit = Math.min(MOST, lastOf(entry) - entry.n + 1);
    return this.load({ from_n: entry.n, limit, fold: 0 }, ({ lines }) => ({ entries: unfold(this.now.entries, entry.n, lines) }));
  }

  private get now(): Lines {
    return this.lines.peek();
  }

  private set(change: Partial<Lines>): void {
    this.lines.value = { ...this.now, added: 0, ...change };
  }

  private async load(query: Record<string, number>, take: (page: LogPage) => Partial<Lines>): Promise<void> {
    this.set({ loading: true });
    try {
      const page = await get<LogPage>(logPath(this.run, this.id), { query, signal: this.abort.signal });
      this.set({ stream: page.stream, problem: null, loading: false, ...take(page) });
    } catch (error) {
      if (!this.abort.signal.aborted) this.set({ problem: asProblem(error), loading: false });
    }
  }
}

/** Whether a page holds the newest line that there is; lines are numbered from 1. */
const reachesEnd = ({ lines, stream }: LogPage): boolean => {
  const last = lines.at(-1);
  return !last || lastOf(last) >= stream.lines;
};

export const logPath = (run: string, stream: string, rest = ""): string => runPath(run, `/logs/${encodeURIComponent(stream)}${rest}`);
