/** The state of a run or attempt: a word, a shape and a colour, so that it never hangs on colour alone. */

import type { State } from "../api";
import "./chip.css";

interface Sign {
  tone: "good" | "live" | "warn" | "bad" | "mute";
  /** Drawn in a box of 12 x 12; stroked unless `solid`. */
  path: string;
  solid?: boolean;
}

const SIGNS: Record<State, Sign> = {
  queued: { tone: "mute", path: "M6 1.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9z" },
  starting: { tone: "live", path: "M6 1.5a4.5 4.5 0 0 1 0 9zM6 1.5a4.5 4.5 0 0 0 0 9" },
  running: { tone: "live", path: "M3 1.8l7 4.2-7 4.2z", solid: true },
  hung: { tone: "warn", path: "M3 2h2v8H3zM7 2h2v8H7z", solid: true },
  waiting: { tone: "warn", path: "M6 1.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM6 3.5V6l1.8 1.2" },
  finished: { tone: "good", path: "M2 6.4l2.6 2.6L10 3.4" },
  failed: { tone: "bad", path: "M2.5 2.5l7 7M9.5 2.5l-7 7" },
  crashed: { tone: "bad", path: "M7 1L2.5 7h3L5 11l4.5-6h-3z", solid: true },
  oom: { tone: "bad", path: "M2 2h8v8H2zM4.4 4.4h3.2v3.2H4.4z" },
  timeout: { tone: "warn", path: "M3 1.5h6M3 10.5h6M3.5 1.5c0 2.5 5 6.5 5 9M8.5 1.5c0 2.5-5 6.5-5 9" },
  preempted: { tone: "warn", path: "M6 2L2.5 6.5h7zM2.5 9.5h7" },
  cancelled: { tone: "mute", path: "M6 1.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM2.9 2.9l6.2 6.2" },
  lost: { tone: "bad", path: "M4 4.2a2 2 0 1 1 2.7 1.8c-.5.2-.7.6-.7 1.3M6 9.8h.01" },
};

export function Shape({ state }: { state: State }) {
  const { path, solid } = SIGNS[state];
  return (
    <svg class="shape" viewBox="0 0 12 12" fill={solid ? "currentColor" : "none"} stroke={solid ? "none" : "currentColor"} stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

export function Chip({ state, title }: { state: State; title?: string | null }) {
  return (
    <span class={`chip ${SIGNS[state].tone}`} data-state={state} title={title ?? undefined}>
      <Shape state={state} />
      {state}
    </span>
  );
}

export type Tone = Sign["tone"];
const SHAPES: Record<Tone, State> = { good: "finished", live: "running", warn: "hung", bad: "failed", mute: "queued" };

/** A word that is no state of a run; its shape is that of its tone. */
export function ToneChip({ tone, word, title }: { tone: Tone; word: string; title?: string | null }) {
  return (
    <span class={`chip ${tone}`} data-word={word} title={title ?? undefined}>
      <Shape state={SHAPES[tone]} />
      {word}
    </span>
  );
}

export const toneOf = (state: State): string => SIGNS[state].tone;
