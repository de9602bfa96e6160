/** Columns of the runs table: the run's own, the latest value of any metric, any leaf of the configuration. */

import type { ComponentChildren } from "preact";
import type { Run, RunChange } from "../api";
import { Chip } from "../parts/chip";
import { Notes, Tags } from "../parts/tags";
import { quoted } from "../state/leaves";
import { mayEdit } from "../state/session";
import { ago, between, brief, duration, LIVE, middle, moment, step } from "../words";

export interface Column {
  id: string;
  title: string;
  width: number;
  /** Key of the server's `sort`; null where the server can't sort by it. */
  sort: string | null;
  right?: boolean;
  cell(run: Run, at: CellContext): ComponentChildren;
}

export interface CellContext {
  now: number;
  config: ReadonlyMap<string, unknown> | undefined;
  change(run: Run, change: RunChange): void;
}

const editor = <T,>(change: (value: T) => void) => (mayEdit() ? change : undefined);

export const BUILT_IN: readonly Column[] = [
  { id: "state", title: "State", width: 126, sort: "state", cell: (run) => <Chip state={run.state} title={run.state_reason} /> },
  { id: "step", title: "Step", width: 90, sort: "step", right: true, cell: (run) => step(run.step) },
  { id: "duration", title: "Duration", width: 104, sort: null, right: true, cell: (run, { now }) => sayDuration(run, now) },
  { id: "started_at", title: "Started", width: 104, sort: "started_at", right: true, cell: (run, { now }) => sayWhen(run.started_at, now) },
  { id: "last_seen_at", title: "Last seen", width: 104, sort: null, right: true, cell: (run, { now }) => sayWhen(run.last_seen_at, now) },
  { id: "attempts", title: "Attempts", width: 84, sort: null, right: true, cell: (run) => run.attempts.length || "–" },
  { id: "ranks", title: "Ranks", width: 70, sort: null, right: true, cell: (run) => run.attempts.at(-1)?.ranks || "–" },
  { id: "nodes", title: "Nodes", width: 130, sort: null, cell: (run) => <span class="clip">{run.attempts.at(-1)?.nodes.join(" ")}</span> },
  { id: "tags", title: "Tags", width: 170, sort: null, cell: (run, { change }) => <Tags tags={run.tags} onChange={editor((tags) => change(run, { tags }))} /> },
  { id: "notes", title: "Notes", width: 230, sort: null, cell: (run, { change }) => <Notes notes={run.notes} onChange={editor((notes) => change(run, { notes }))} /> },
  { id: "kind", title: "Kind", width: 90, sort: "kind", cell: (run) => run.kind },
  { id: "project", title: "Project", width: 110, sort: "project", cell: (run) => <span class="clip" title={run.project}>{run.project}</span> },
  { id: "created_at", title: "Created", width: 104, sort: "created_at", right: true, cell: (run, { now }) => sayWhen(run.created_at, now) },
  { id: "id", title: "Id", width: 250, sort: "id", cell: (run) => <code>{run.id}</code> },
];

const METRIC = "metric:";
const DEFAULT = ["state", "step", "duration", "started_at", "last_seen_at", "tags", "notes"];

/** How long a run has gone on, or went on. */
export function sayDuration(run: Run, now: number): string {
  const end = run.ended_at ?? (LIVE.has(run.state) ? null : run.last_seen_at);
  return duration(Math.max(0, Math.floor(between(run.started_at, end, now))));
}

const sayWhen = (instant: string | null, now: number) => <time title={moment(instant)}>{ago(instant, now)}</time>;

/** The columns that `chosen` names; with nothing chosen the default ones, the project where there are several, and the first metrics of `runs`. */
export function columnsOf(chosen: readonly string[], runs: readonly Run[]): Column[] {
  const several = runs.some(({ project }) => project !== runs[0]!.project);
  const ids = chosen.length ? chosen : withMetrics([...DEFAULT.slice(0, 1), ...(several ? ["project"] : []), ...DEFAULT.slice(1)], runs);
  return ids.flatMap((id) => columnOf(id) ?? []);
}

/** Metrics of the columns that `chosen` names; null where nothing is chosen, since any may be shown then. */
export function metricsShown(chosen: readonly string[]): string[] | null {
  return chosen.length ? chosen.filter((id) => id.startsWith(METRIC)).map((id) => id.slice(METRIC.length)) : null;
}

function withMetrics(ids: readonly string[], runs: readonly Run[]): string[] {
  const metrics = telling(runs).map((name) => `metric:${name}`);
  const at = ids.indexOf("step") + 1;
  return [...ids.slice(0, at), ...metrics, ...ids.slice(at)];
}

/** At most two metrics that say most at first sight: losses first, then by name. */
function telling(runs: readonly Run[]): string[] {
  const rank = (name: string) => (name === "loss" ? 0 : /(^|[/_.-])loss$/i.test(name) ? 1 : /loss|acc|reward|score/i.test(name) ? 2 : 3);
  return metricsOf(runs.slice(0, 20))
    .filter((name) => !name.startsWith("system/") && name.length <= 40)
    .sort((a, b) => rank(a) - rank(b))
    .slice(0, 2);
}

/** The metrics whose latest values came with the runs, by name. */
export function metricsOf(runs: readonly Run[]): string[] {
  return [...new Set(runs.flatMap((run) => Object.keys(run.latest)))].sort();
}

function columnOf(id: string): Column | undefined {
  const own = BUILT_IN.find((column) => column.id === id);
  if (own) return own;
  const [kind, name] = [id.slice(0, id.indexOf(":")), id.slice(id.indexOf(":") + 1)];
  if (kind === "metric") return { id, title: name, width: 124, sort: `metric.${quoted(name)}`, right: true, cell: (run) => latest(run, name) };
  if (kind === "config") return { id, title: name, width: 120, sort: `config.${name.split(".").map(quoted).join(".")}`, cell: (_, { config }) => leaf(config?.get(name)) };
  return undefined;
}

function latest(run: Run, metric: string): ComponentChildren {
  const found = run.latest[metric];
  return found ? <span class={typeof found.value === "string" ? "bad-ink" : ""} title={`${found.value} at step ${step(found.step)}`}>{brief(found.value)}</span> : "–";
}

function leaf(value: unknown): ComponentChildren {
  return value === undefined ? "–" : <span class="clip">{typeof value === "string" ? middle(value, 60) : JSON.stringify(value)}</span>;
}

/** The `sort` that a click on a column's head asks for: descending numbers and dates first, then the other way. */
export function turned(sort: string, key: string): string {
  if (sort === `-${key}`) return key;
  if (sort === key) return `-${key}`;
  return key === "name" || key === "state" ? key : `-${key}`;
}
