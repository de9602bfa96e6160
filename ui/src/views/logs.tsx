/** Output of a run: choose a stream, follow it, search it, open folds, link to a line. */

import { useEffect, useMemo } from "preact/hooks";
import { get, type LogStream, type Run, runPath } from "../api";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { searchPattern } from "../parts/marked";
import { on } from "../state/live";
import { lastOf } from "../state/lines";
import { useLoad } from "../state/load";
import { LogWindow } from "../state/log-window";
import { paced } from "../state/pace";
import { adjust } from "../state/place";
import type { RunPlace } from "../state/url";
import { LogBar } from "./log-bar";
import { LogLines } from "./log-lines";
import "./logs.css";

const STREAMS_MS = 3000;

export function Logs({ run, place }: { run: Run; place: RunPlace }) {
  const { value: streams, problem, reload } = useLoad(run.id, (signal) => get<LogStream[]>(runPath(run.id, "/logs"), { signal }));
  useEffect(() => {
    const known = new Set(streams?.map((stream) => stream.id));
    const refresh = paced(reload, STREAMS_MS);
    const off = on("logs", (update) => {
      if (update.run === run.id && Object.keys(update.streams).some((id) => !known.has(id))) refresh();
    });
    return () => (off(), refresh.stop());
  }, [run.id, streams]);
  if (!streams) return problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={14} />;
  const stream = streams.find((one) => one.id === place.stream) ?? preferred(streams);
  if (!stream) return <NoOutput />;
  return <Stream key={stream.id} {...{ run, place, stream, streams }} />;
}

/** What to open first: the newest attempt's lowest rank, stderr only where nothing else has lines. */
function preferred(streams: readonly LogStream[]): LogStream | undefined {
  const worth = (stream: LogStream) => [stream.attempt, stream.lines > 0 ? 1 : 0, stream.stream === "stdout" ? 1 : 0, -(stream.rank ?? 1e9)];
  return [...streams].sort((a, b) => compare(worth(b), worth(a)))[0];
}

function compare(a: number[], b: number[]): number {
  return a.map((value, i) => value - b[i]!).find((difference) => difference !== 0) ?? 0;
}

interface StreamProps {
  run: Run;
  place: RunPlace;
  stream: LogStream;
  streams: LogStream[];
}

function Stream({ run, place, stream, streams }: StreamProps) {
  const window = useMemo(() => new LogWindow(run.id, stream.id), [run.id, stream.id]);
  const { entries, problem, stream: newest } = window.lines.value;
  const following = place.follow && place.line === null;
  window.following = following;
  useEffect(() => () => window.end(), [window]);
  useEffect(() => {
    if (place.line !== null) show(window, place.line);
    else if (!entries.length || following) void window.tail();
  }, [window, place.line, following]);
  const pattern = useMemo(() => searchPattern(place.find), [place.find]);
  return (
    <section class="logs" aria-label="Output">
      <LogBar {...{ run, place, stream: newest ?? stream, streams }} choose={(id) => adjust({ stream: id, line: null, follow: true })} />
      {problem && <ProblemNote problem={problem} retry={() => void window.tail()} />}
      <LogLines window={window} place={place} pattern={pattern} following={following} />
    </section>
  );
}

/** Make line `n` one of the loaded ones. */
function show(window: LogWindow, n: number): void {
  const { entries } = window.lines.peek();
  const [first, last] = [entries[0], entries.at(-1)];
  if (!first || !last || first.n > n || lastOf(last) < n) void window.around(n);
}

function NoOutput() {
  return (
    <Empty title="No output kept">
      <p>
        Output is kept by <code>stepward run -- CMD</code>, by <code>sw.init(capture_output=True)</code>, or from a scheduler's files.
      </p>
    </Empty>
  );
}
