/** Who is signed in. */

import { signal } from "@preact/signals";
import { call, get, Problem, type Session, signedOut } from "../api";
import { hush } from "./live";

export const session = signal<Session | null>(null);

/** Ask the server who we are, first redeeming the one-time link that opened the page (`#login=…`). */
export async function enter(): Promise<void> {
  const secret = new URLSearchParams(location.hash.slice(1)).get("login");
  if (secret !== null) {
    // The secret leaves the address bar before anything else may copy it.
    history.replaceState(null, "", location.pathname + location.search);
    await login(secret).catch((error: unknown) => {
      if (!(error instanceof Problem) || error.status === 0) throw error;
    });
  }
  if (session.value === null) await refresh();
}

/** Sign in with a token or with the secret of a one-time link. */
export async function login(secret: string): Promise<void> {
  session.value = await call<Session>("POST", "login", { body: { secret } });
  signedOut.value = false;
}

export async function logout(): Promise<void> {
  await call("POST", "logout");
  hush();
  session.value = null;
  signedOut.value = true;
}

async function refresh(): Promise<void> {
  try {
    session.value = await get<Session>("session");
    signedOut.value = false;
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 401) throw error;
  }
}

/** Whether the session may change jobs and clusters. */
export const mayAdminister = (): boolean => session.value?.kind === "admin" && session.value.projects === null;

/** Whether the session may change runs. */
export const mayEdit = (): boolean => session.value?.kind === "admin" || session.value?.kind === "editor";
