/** What the run in view is called, for the browser's tab: the address knows its id alone. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Run } from "../api";

/** `of` is how the address names the run. */
export const called = signal<{ of: string; name: string } | null>(null);

/** Say what the run that the address names is called, and in which state it is, once it is loaded. */
export function useCalled(of: string, run: Run | undefined): void {
  const name = run && `${run.name} (${run.state})`;
  useEffect(() => {
    if (name) called.value = { of, name };
  }, [of, name]);
}
