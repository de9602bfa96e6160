/** What a view says when it has nothing else to show: waiting, a refusal with its code and hint, or emptiness with a reason. */

import type { ComponentChildren } from "preact";
import { signal } from "@preact/signals";
import type { Problem } from "../api";
import { Glyph } from "./glyph";
import "./notice.css";

export function Skeleton({ lines = 6 }: { lines?: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, i) => (
        <i key={i} style={{ width: `${88 - ((i * 29) % 45)}%` }} />
      ))}
    </div>
  );
}

export function ProblemNote({ problem, retry }: { problem: Problem; retry?: () => void }) {
  return (
    <div class="note bad-note" role="alert">
      <Glyph name="warn" />
      <div class="grow">
        <p>{problem.message}</p>
        <p class="small soft">
          {problem.hint && `${problem.hint} · `}
          <code>{problem.code}</code>
        </p>
      </div>
      {retry && <button onClick={retry}>Try again</button>}
    </div>
  );
}

/** What is not well, a line each; nothing where all is. */
export function Warnings({ lines }: { lines: readonly string[] }) {
  if (!lines.length) return null;
  return (
    <div class="note warn-note" role="status">
      <Glyph name="warn" />
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

const said = signal<{ text: string; bad: boolean } | null>(null);
let timer: ReturnType<typeof setTimeout> | undefined;

/** Say something for a few seconds at the foot of the page. */
export function say(text: string, bad = false): void {
  clearTimeout(timer);
  said.value = { text, bad };
  timer = setTimeout(() => (said.value = null), bad ? 8000 : 3000);
}

export function Toast() {
  return (
    <div class="toast-place" role="status" aria-live="polite">
      {said.value && <p class={said.value.bad ? "toast toast-bad" : "toast"}>{said.value.text}</p>}
    </div>
  );
}
