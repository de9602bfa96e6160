/** The severity of an event: a shape and a colour, so that it never hangs on colour alone; hollow while it is only suspected. */

import type { Severity } from "../state/events";
import "./sign.css";

const SHAPES: Record<Severity, string> = {
  info: "M6 2a4 4 0 1 0 0 8 4 4 0 0 0 0-8z",
  warning: "M6 .8L11.2 6 6 11.2.8 6z",
  critical: "M6 1l5.4 9.6H.6z",
};

export function Sign({ severity, sure }: { severity: Severity; sure: boolean }) {
  return (
    <svg class={`sign ${severity}`} viewBox="0 0 12 12" fill={sure ? "currentColor" : "none"} stroke="currentColor" stroke-width="1.4" stroke-linejoin="round" aria-hidden="true">
      <path d={SHAPES[severity]} />
    </svg>
  );
}
