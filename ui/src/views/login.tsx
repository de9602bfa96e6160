/** Signing in, with a token or with a one-time link (which `session.ts` redeems before this page is seen). */

import { useState } from "preact/hooks";
import type { Problem } from "../api";
import { ProblemNote } from "../parts/notice";
import { asProblem } from "../state/load";
import { login } from "../state/session";
import "./login.css";

export function LoginView({ onDone }: { onDone(): void }) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const enter = async (event: SubmitEvent) => {
    event.preventDefault();
    const secret = String(new FormData(event.currentTarget as HTMLFormElement).get("secret") ?? "").trim();
    if (!secret) return;
    setBusy(true);
    try {
      await login(secretOf(secret));
      onDone();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form class="login-card" onSubmit={(event) => void enter(event)}>
        <img src="icon.svg" alt="" width="36" height="36" />
        <h1>Sign in to stepward</h1>
        <p class="soft">
          Paste a token or a one-time link. <code>stepward up</code> prints a link when it starts; <code>stepward login</code> makes a new one.
        </p>
        <input type="password" name="secret" class="mono" autocomplete="current-password" aria-label="Token or one-time link" placeholder="Token or link" autofocus required />
        <button class="primary" disabled={busy}>
          Sign in
        </button>
        {problem && <ProblemNote problem={problem} />}
      </form>
    </main>
  );
}

/** The secret in what was pasted: a whole link carries it behind `#login=`. */
function secretOf(pasted: string): string {
  const at = pasted.indexOf("#login=");
  return at < 0 ? pasted : (new URLSearchParams(pasted.slice(at + 1)).get("login") ?? pasted);
}
