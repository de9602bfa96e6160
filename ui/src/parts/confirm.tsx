/** A question before something is done that cannot be undone: what will happen, why (for the audit), and two buttons. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Problem } from "../api";
import { asProblem } from "../state/load";
import { Dialog } from "./dialog";
import { ProblemNote } from "./notice";

interface Props {
  title: string;
  /** What the button that does it says. */
  verb: string;
  danger?: boolean;
  /** Asks for a reason, which `act` is given. */
  reason?: "asked" | "needed";
  /** Must be typed before it can be done. */
  typed?: string;
  act(reason: string): Promise<unknown>;
  onClose(): void;
  children: ComponentChildren;
}

export function Confirm({ title, verb, danger, reason, typed, act, onClose, children }: Props) {
  const [why, setWhy] = useState("");
  const [word, setWord] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await act(why.trim());
      onClose();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="confirm" onSubmit={(event) => void submit(event)}>
        {children}
        {reason && (
          <label class="wide-label">
            <span class="soft small">Reason, kept in the audit{reason === "asked" && " (may be empty)"}</span>
            <input type="text" required={reason === "needed"} value={why} maxLength={500} onInput={(event) => setWhy(event.currentTarget.value)} />
          </label>
        )}
        {typed !== undefined && (
          <label class="wide-label">
            <span class="soft small">
              Type <b>{typed}</b> to go on
            </span>
            <input type="text" value={word} autocomplete="off" onInput={(event) => setWord(event.currentTarget.value)} />
          </label>
        )}
        {problem && <ProblemNote problem={problem} />}
        <div class="row confirm-buttons">
          <button type="button" onClick={onClose}>
            Leave it
          </button>
          <button class={danger ? "danger" : "primary"} disabled={busy || (typed !== undefined && word !== typed)}>
            {busy ? "Asking…" : verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
