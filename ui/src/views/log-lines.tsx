/** The lines themselves: a virtual list of rows of one height; the line that is linked to is shown whole below it. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { LogLine } from "../api";
import { copy } from "../parts/copy";
import { Glyph } from "../parts/glyph";
import { Marked } from "../parts/marked";
import { Skeleton } from "../parts/notice";
import { rowsInView, useView } from "../parts/windowed";
import { indexOf, lastOf } from "../state/lines";
import type { Lines, LogWindow } from "../state/log-window";
import { adjust, href, place as here } from "../state/place";
import type { RunPlace } from "../state/url";
import { clockMillis, count, moment, step } from "../words";

const ROW = 19;
const NEAR = 40 * ROW;
const LONGEST = 2000;

interface Props {
  window: LogWindow;
  place: RunPlace;
  pattern: RegExp | null;
  following: boolean;
}

export function LogLines({ window, place, pattern, following }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const lines = window.lines.value;
  const { entries } = lines;
  const [first, end] = rowsInView(view, ROW, entries.length, 20);
  useStaying(box, lines, place.line, following);
  useEffect(() => {
    if (!entries.length || lines.loading) return;
    if (view.top < NEAR && !lines.atStart) void window.older();
    else if (view.top + view.height > entries.length * ROW - NEAR && !lines.atEnd && !following) void window.newer();
  }, [view.top, entries, lines.loading]);
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current!;
    const away = scrollHeight - scrollTop - clientHeight;
    // Scrolling up stops following; coming back to the end takes it up again.
    if (following && away > 3 * ROW) adjust({ follow: false });
    else if (!place.follow && place.line === null && away < ROW && lines.atEnd) adjust({ follow: true });
  };
  const linked = place.line === null ? undefined : entries[indexOf(entries, place.line)];
  return (
    <>
      <div ref={box} class="log-lines mono" tabIndex={0} role="log" aria-live="off" aria-label="Lines" onWheel={() => queueMicrotask(scrolled)} onScroll={userScroll(box, scrolled)}>
        {!entries.length && (lines.loading ? <Skeleton lines={16} /> : <p class="log-empty soft">This stream has no lines yet.</p>)}
        <ol style={{ height: `${entries.length * ROW}px` }}>
          {entries.slice(first, end).map((line, i) => (
            <Line key={line.n} line={line} top={(first + i) * ROW} clock={place.clock} pattern={pattern} linked={line === linked} open={() => void window.open(line)} />
          ))}
        </ol>
      </div>
      {linked && <Whole line={linked} pattern={pattern} />}
    </>
  );
}

const moves = new WeakMap<HTMLElement, number>();

/** Scroll events that our own moves cause are not the reader's. */
const userScroll = (box: { current: HTMLElement | null }, work: () => void) => () => {
  if (moves.get(box.current!) !== box.current!.scrollTop) work();
};

function move(box: HTMLElement, top: number): void {
  box.scrollTop = top;
  moves.set(box, box.scrollTop);
}

/** Keep the view where it belongs: at the end while following, at a line that is linked to, in place when lines come in front. */
function useStaying(box: { current: HTMLDivElement | null }, { entries, jumps, added }: Lines, line: number | null, following: boolean): void {
  const sent = useRef("");
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !entries.length) return;
    const target = `${jumps}/${line}`;
    if (following) move(element, element.scrollHeight);
    else if (target !== sent.current && line !== null) move(element, Math.max(0, indexOf(entries, line) * ROW - element.clientHeight / 3));
    else if (added) move(element, element.scrollTop + added * ROW);
    sent.current = target;
  }, [entries, jumps, following, line]);
}

interface LineProps {
  line: LogLine;
  top: number;
  clock: boolean;
  pattern: RegExp | null;
  linked: boolean;
  open(): void;
}

function Line({ line, top, clock, pattern, linked, open }: LineProps) {
  const { text } = line;
  const link = () => adjust(linked ? { line: null } : { line: line.n, follow: false });
  return (
    <li class={linked ? "linked" : ""} data-n={line.n} style={{ transform: `translateY(${top}px)` }}>
      <button class="line-number" tabIndex={-1} title="Link to this line" aria-label={`Line ${line.n}`} onClick={link}>
        {line.n}
      </button>
      {clock && <time class="faint">{clockMillis(line.at)}</time>}
      {line.repeats > 1 && (
        <button class="fold" title={`${line.repeats} lines alike, ${line.n} to ${lastOf(line)}: show them`} onClick={open}>
          ×{step(line.repeats)}
        </button>
      )}
      <span class="line-text">
        <Marked text={text.slice(0, LONGEST)} pattern={pattern} />
        {text.length + line.truncated > LONGEST && <i class="faint"> … {step(text.length + line.truncated - LONGEST)} more characters</i>}
      </span>
    </li>
  );
}

/** The linked line whole, wrapped, with what is known of it. */
function Whole({ line, pattern }: { line: LogLine; pattern: RegExp | null }) {
  const { text } = line;
  return (
    <div class="whole-line" role="region" aria-label={`Line ${line.n}`}>
      <div class="row small soft">
        <b class="number">
          Line {step(line.n)}
          {lastOf(line) !== line.n && ` – ${step(lastOf(line))}`}
        </b>
        <span class="grow number clip">
          {moment(line.at)}
          {line.truncated > 0 && ` · ${count(line.truncated, "character")} only in the raw file`}
        </span>
        <button class="quiet" onClick={() => void copy(href(here.peek()), "Link copied")}>
          <Glyph name="link" /> Link
        </button>
        <button class="quiet" onClick={() => void copy(text, "Line copied")}>
          <Glyph name="copy" /> Text
        </button>
        <button class="quiet icon" aria-label="Close" onClick={() => adjust({ line: null })}>
          <Glyph name="close" />
        </button>
      </div>
      <pre tabIndex={0}>
        <Marked text={text} pattern={pattern} />
      </pre>
    </div>
  );
}
