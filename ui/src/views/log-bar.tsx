/** The bar above the output: which stream, search with jumps, follow, download. */

import { useEffect, useRef, useState } from "preact/hooks";
import { address, get, type LogPage, type LogStream, type Run } from "../api";
import { useKeys } from "../keys";
import { Glyph } from "../parts/glyph";
import { ProblemNote } from "../parts/notice";
import { nextMatch } from "../state/lines";
import { useLoad } from "../state/load";
import { logPath } from "../state/log-window";
import { adjust } from "../state/place";
import type { RunPlace } from "../state/url";
import { bytes, count, step } from "../words";

const MOST = 5000;

interface Props {
  run: Run;
  place: RunPlace;
  stream: LogStream;
  streams: LogStream[];
  choose(id: string): void;
}

export function LogBar({ run, place, stream, streams, choose }: Props) {
  return (
    <div class="tool-bar" role="toolbar" aria-label="Output">
      <Picker {...{ stream, streams, choose }} />
      <Search {...{ run, place, stream }} />
      <span class="grow small faint number clip">
        {step(stream.lines)} lines, {bytes(stream.bytes)}
        {stream.lost_bytes > 0 && <span class="warn-ink"> · {bytes(stream.lost_bytes)} not kept</span>}
      </span>
      <button aria-pressed={place.clock} onClick={() => adjust({ clock: !place.clock })}>
        Times
      </button>
      <button aria-pressed={place.follow && place.line === null} onClick={() => adjust({ follow: !(place.follow && place.line === null), line: null })}>
        <Glyph name="follow" /> Follow
      </button>
      <a class="button" href={address(logPath(run.id, stream.id, "/raw"))} download={`${run.name}-${nameOf(stream)}.log`}>
        <Glyph name="download" /> Raw
      </a>
    </div>
  );
}

/** What wrote a stream, in words. */
const ownerOf = (stream: LogStream): string => (stream.rank === null ? `launcher${stream.node ? ` on ${stream.node}` : ""}` : `rank ${stream.rank}`);

const nameOf = (stream: LogStream): string => `attempt${stream.attempt}-${ownerOf(stream).replace(/\W+/g, "-")}-${stream.stream.replace(/[^\w.]+/g, "-")}`;

/** Attempt, owner and stream, each chosen by itself; what the rest of the choice does not have falls to what there is. */
function Picker({ stream, streams, choose }: Pick<Props, "stream" | "streams" | "choose">) {
  const ofAttempt = streams.filter((one) => one.attempt === stream.attempt);
  const ofOwner = ofAttempt.filter((one) => ownerOf(one) === ownerOf(stream));
  const pick = (among: LogStream[], likeness: ((one: LogStream) => boolean)[]) => {
    const best = [...among].sort((a, b) => likeness.filter((like) => like(b)).length - likeness.filter((like) => like(a)).length)[0];
    if (best) choose(best.id);
  };
  const sameOwner = (one: LogStream) => ownerOf(one) === ownerOf(stream);
  const sameStream = (one: LogStream) => one.stream === stream.stream;
  const attempts = [...new Set(streams.map((one) => one.attempt))].sort((a, b) => b - a);
  const owners = [...new Set(ofAttempt.map(ownerOf))].sort(new Intl.Collator("en", { numeric: true }).compare);
  return (
    <>
      {attempts.length > 1 && (
        <select aria-label="Attempt" value={String(stream.attempt)} onChange={(event) => pick(streams.filter((one) => String(one.attempt) === event.currentTarget.value), [sameOwner, sameStream])}>
          {attempts.map((attempt) => (
            <option key={attempt} value={String(attempt)}>{`attempt ${attempt}`}</option>
          ))}
        </select>
      )}
      <select aria-label="Rank" value={ownerOf(stream)} onChange={(event) => pick(ofAttempt.filter((one) => ownerOf(one) === event.currentTarget.value), [sameStream])}>
        {owners.map((owner) => (
          <option key={owner} value={owner}>
            {owner}
          </option>
        ))}
      </select>
      <select aria-label="Stream" value={stream.id} onChange={(event) => choose(event.currentTarget.value)}>
        {ofOwner.map((one) => (
          <option key={one.id} value={one.id}>
            {one.stream}
          </option>
        ))}
      </select>
    </>
  );
}

function Search({ run, place, stream }: Pick<Props, "run" | "place" | "stream">) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(place.find);
  useEffect(() => setText(place.find), [place.find]);
  useEffect(() => {
    if (text === place.find) return;
    const timer = setTimeout(() => adjust({ find: text }), 300);
    return () => clearTimeout(timer);
  }, [text]);
  const key = place.find ? `${stream.id}\n${place.find}` : null;
  const found = useLoad(key, (signal) => get<LogPage>(logPath(run.id, stream.id), { query: { q: place.find, from_n: 1, limit: MOST }, signal }));
  const numbers = found.value?.lines.map((line) => line.n) ?? [];
  const jump = (by: 1 | -1) => {
    const to = nextMatch(numbers, place.line, by);
    if (to !== null) adjust({ line: to, follow: false });
  };
  useKeys({ "/": () => input.current?.focus(), n: () => jump(1), p: () => jump(-1), f: () => adjust({ follow: !place.follow, line: null }) });
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter" && text === place.find) jump(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") input.current?.blur();
  };
  const at = place.line === null ? -1 : numbers.indexOf(place.line);
  return (
    <div class="log-search row">
      <label class="search">
        <Glyph name="search" />
        <input ref={input} type="search" class="mono" placeholder="Search, or /regex/" aria-label="Search the output" value={text} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={keys} />
      </label>
      {found.value && (
        <>
          <span class="small number faint" role="status">
            {at >= 0 ? `${step(at + 1)} of ` : ""}
            {count(found.value.matches ?? numbers.length, "match").replace(/hs$/, "hes")}
          </span>
          <button class="quiet icon" aria-label="Previous match" disabled={!numbers.length} onClick={() => jump(-1)}>
            <Glyph name="up" />
          </button>
          <button class="quiet icon" aria-label="Next match" disabled={!numbers.length} onClick={() => jump(1)}>
            <Glyph name="down" />
          </button>
        </>
      )}
      {found.problem && <ProblemNote problem={found.problem} />}
    </div>
  );
}
