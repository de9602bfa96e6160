/**
 * Calls to the server's API. Everything is relative to the page's `<base href>`, so that the app works under any root
 * path. A refusal becomes a `Problem` with the server's code and hint; no answer at all becomes `Unreachable`.
 */

import { signal } from "@preact/signals";
import type { components } from "./api.gen";

type Schemas = components["schemas"];
export type Attempt = Schemas["Attempt"];
export type Chart = Schemas["Chart"];
export type ActionPage = Schemas["ActionPage"];
export type Cluster = Schemas["Cluster"];
export type ClusterNode = Schemas["ClusterNode"];
export type ClusterPlan = Schemas["ClusterPlan"];
export type Cause = Schemas["Cause"];
export type Comparison = Schemas["Comparison"];
export type Diagnosis = Schemas["StoredDiagnosis"];
export type EventPage = Schemas["EventPage"];
export type Evidence = Schemas["Evidence"];
export type FleetGoodput = Schemas["FleetGoodput"];
export type Job = Schemas["Job"];
export type JobAttempt = Schemas["JobAttempt"];
export type JobChanged = Schemas["JobChanged"];
export type JobLogs = Schemas["JobLogs"];
export type JobPage = Schemas["JobPage"];
export type Line = Schemas["Line"];
export type LogLine = Schemas["LogLine"];
export type LogPage = Schemas["LogPage"];
export type LogStream = Schemas["LogStream"];
export type KnownRoute = Schemas["KnownRoute"];
export type LoginLink = Schemas["LoginLink"];
export type NewSilence = Schemas["NewSilence"];
export type NewToken = Schemas["NewToken"];
export type Node = Schemas["Node"];
export type NodeCheck = Schemas["NodeCheck"];
export type NodeChanged = Schemas["NodeChanged"];
export type Notice = Schemas["Notice"];
export type Operation = Schemas["Operation"];
export type Project = Schemas["Project"];
export type ProjectRules = Schemas["ProjectRules"];
export type ProjectChange = Schemas["ProjectChange"];
export type Run = Schemas["Run"];
export type RunShare = Schemas["RunShare"];
export type RunChange = Schemas["RunChange"];
export type RunConfig = Schemas["RunConfig"];
export type RunEvent = Schemas["RunEvent"];
export type RunNode = Schemas["RunNode"];
export type RunGoodput = Schemas["RunGoodput"];
export type RunPage = Schemas["RunPage"];
export type Series = Schemas["Series"];
export type Session = Schemas["Session"];
export type Silence = Schemas["Silence"];
export type Source = Schemas["Source"];
export type State = Schemas["State"];
export type Token = Schemas["Token"];
export type Value = number | "NaN" | "Infinity" | "-Infinity";

/** Whether the last call was answered at all. */
export const reachable = signal(true);
/** Set when the server says that it does not know us (any more). */
export const signedOut = signal(false);

/** A refusal by the server, as its problem document says it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null = null,
    readonly position: number | null = null,
    /** Of a text that was refused, from 1. */
    readonly line: number | null = null,
  ) {
    super(message);
  }
}

/** No answer: the server is down, or the network is. */
class Unreachable extends Problem {
  constructor() {
    super(0, "unreachable", "The server does not answer.", "Is stepward up running? What is shown was loaded earlier.");
  }
}

type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

interface Options {
  query?: Query;
  body?: unknown;
  signal?: AbortSignal;
}

/** The address of an API resource, with the query fields that are set; a list repeats its field, an empty one asks for nothing. */
export function address(path: string, query: Query = {}): string {
  const url = new URL(`api/v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (typeof value === "object" && value !== null) for (const one of value.length ? value : [""]) url.searchParams.append(name, one);
    else if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url.href;
}

export const get = <T>(path: string, options: Options = {}): Promise<T> => call<T>("GET", path, options);

/** Call the API and read its JSON; throws `Problem`, or `DOMException` "AbortError" when `signal` aborts. */
export async function call<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const { query, body, signal } = options;
  const response = await answer(address(path, query), {
    method,
    headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    credentials: "same-origin",
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  });
  const content = await response.text();
  if (!response.ok) throw refusal(response.status, content);
  return (content ? parse(content) : undefined) as T;
}

async function answer(url: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(url, init);
    reachable.value = true;
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    reachable.value = false;
    throw new Unreachable();
  }
}

function refusal(status: number, content: string): Problem {
  let said: Record<string, unknown> = {};
  try {
    said = JSON.parse(content) as Record<string, unknown>;
  } catch {
    // A proxy's page: the status says all there is.
  }
  const words = (name: string) => (typeof said[name] === "string" ? (said[name] as string) : null);
  const code = words("code") ?? `http_${status}`;
  if (status === 401) signedOut.value = true;
  const figure = (name: string) => (typeof said[name] === "number" ? (said[name] as number) : null);
  return new Problem(status, code, words("detail") ?? words("title") ?? `HTTP ${status}`, words("hint"), figure("position"), figure("line"));
}

// In a JSON string quotes are escaped, so this matches keys alone.
const LONG_STEP = /("(?:step|first_step|last_step)":\s*)(-?\d{16,})(?=\s*[,}])/g;

/** JSON in which steps beyond 2^53 stay exact: they become `bigint`, which the formatters take as well. */
export function parse(content: string): unknown {
  const quoted = content.replace(LONG_STEP, '$1"$2"');
  if (quoted.length === content.length) return JSON.parse(content);
  const exact = (key: string, value: unknown) => (key.endsWith("step") && typeof value === "string" && /^-?\d{16,}$/.test(value) ? BigInt(value) : value);
  return JSON.parse(quoted, exact);
}


export const runPath = (run: string, rest = ""): string => `runs/${encodeURIComponent(run)}${rest}`;
export const clusterPath = (cluster: string, ...rest: string[]): string => ["clusters", cluster, ...rest].map(encodeURIComponent).join("/");
