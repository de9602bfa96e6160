/**
 * The one codec between a place in the app and its URL. The permalink *is* the view's state: what a colleague should see
 * after opening a link is a field here, and nothing else writes the address bar. Defaults are left out of the URL.
 */

export const TABS = ["charts", "system", "logs", "configuration", "ranks", "goodput", "events"] as const;
export type Tab = (typeof TABS)[number];
export const AXES = ["step", "time", "relative"] as const;
export type Axis = (typeof AXES)[number];
export const SPLITS = ["none", "rank", "device"] as const;
export type Split = (typeof SPLITS)[number];
export const TREES = ["user", "software", "system"] as const;
export type Tree = (typeof TREES)[number];

interface Field<T> {
  fallback: T;
  read(raw: string[]): T | undefined;
  write(value: T): string[];
}

const text = (fallback = ""): Field<string> => ({ fallback, read: (raw) => raw[0], write: (value) => [value] });

const texts = (): Field<string[]> => ({ fallback: [], read: (raw) => raw, write: (values) => values });

const flag = (fallback: boolean): Field<boolean> => ({
  fallback,
  read: (raw) => (raw[0] === "1" ? true : raw[0] === "0" ? false : undefined),
  write: (value) => [value ? "1" : "0"],
});

const oneOf = <T extends string>(options: readonly T[], fallback: T): Field<T> => ({
  fallback,
  read: (raw) => options.find((option) => option === raw[0]),
  write: (value) => [value],
});

const numeric = <T extends number | null>(fallback: T, min = -Infinity, max = Infinity): Field<number | T> => ({
  fallback,
  read(raw) {
    const value = raw[0]?.trim() ? Number(raw[0]) : NaN;
    return Number.isFinite(value) && value >= min && value <= max ? value : undefined;
  },
  write: (value) => (value === null ? [] : [String(value)]),
});

const RUNS = {
  project: text(),
  filter: text(),
  sort: text("-started_at"),
  columns: texts(),
};

export const GROUPS = ["run", "project", "user", "partition", "node"] as const;
export type Group = (typeof GROUPS)[number];
export const SPANS = ["24h", "7d", "30d"] as const;
export const SPAN_WORDS = { "24h": "24 h", "7d": "7 days", "30d": "30 days" } as const satisfies Record<(typeof SPANS)[number], string>;

const FLEET = {
  project: text(),
  since: oneOf(SPANS, "7d"),
  group: oneOf(GROUPS, "run"),
};

export const CERTAINTIES = ["", "suspected", "confirmed"] as const;
export const SEVERITIES = ["", "info", "warning", "critical"] as const;

/** Which events are shown. */
const CHOICE = {
  type: text(),
  certainty: oneOf(CERTAINTIES, ""),
  severity: oneOf(SEVERITIES, ""),
};

const EVENTS = {
  project: text(),
  since: oneOf(SPANS, "7d"),
  ...CHOICE,
};

/** What a board of charts needs of the place that it is in. */
const LOOK = {
  x: oneOf(["auto", ...AXES], "auto"),
  from: numeric(null),
  to: numeric(null),
  smooth: numeric(0, 0, 0.999),
  log: flag(false),
  band: flag(true),
  marks: flag(true),
  by: oneOf(SPLITS, "none"),
  pin: texts(),
};

const RUN = {
  ...LOOK,
  ...CHOICE,
  match: text(),
  card: text(),
  stream: text(),
  line: numeric(null, 1),
  find: text(),
  follow: flag(true),
  clock: flag(true),
  tree: oneOf(TREES, "user"),
  leaf: text(),
  past: flag(false),
  window: oneOf(["all", "24h", "1h"], "all"),
};

const COMPARE = {
  ...LOOK,
  run: texts(),
  match: text(),
  card: text(),
  /** Path of a leaf of the configuration: runs that have the same there are one line. */
  group: text(),
  same: flag(false),
};

export const JOB_STATES = ["", "queued", "running", "finished", "failed"] as const;
export const JOB_SPANS = ["1h", "24h", "7d", "30d"] as const;

const JOBS = {
  state: oneOf(JOB_STATES, ""),
  user: text(),
  partition: text(),
  name: text(),
  since: oneOf(JOB_SPANS, "24h"),
};

// A table of fields of different types; `Values` gives each its own again.
type Fields = Record<string, Field<any>>;
type Values<F> = { [K in keyof F]: F[K] extends Field<infer T> ? T : never };

export type RunsPlace = { view: "runs" } & Values<typeof RUNS>;
export type RunPlace = { view: "run"; run: string; tab: Tab } & Values<typeof RUN>;
export type ComparePlace = { view: "compare" } & Values<typeof COMPARE>;
export type FleetPlace = { view: "goodput" } & Values<typeof FLEET>;
export type EventChoice = Values<typeof CHOICE>;
export type EventsPlace = { view: "events" } & Values<typeof EVENTS>;
/** One event of a run with its diagnosis; of the run's newest diagnosis where `event` is null. */
export type EventPlace = { view: "event"; run: string; event: string | null };
export type JobsPlace = { view: "jobs"; cluster: string } & Values<typeof JOBS>;
export type Look = Values<typeof LOOK>;
export type NodePlace = { view: "node"; cluster: string; node: string } & Look;
type OfClusters = { view: "clusters" } | { view: "cluster"; cluster: string } | JobsPlace | { view: "job"; cluster: string; job: string } | NodePlace;
export type Place = RunsPlace | RunPlace | ComparePlace | FleetPlace | EventsPlace | EventPlace | OfClusters | { view: "settings" } | { view: "missing"; path: string };

/** The place that `path` (below the base, no leading slash) and `query` name; unreadable fields take their default. */
export function decode(path: string, query: string): Place {
  const params = new URLSearchParams(query);
  const parts = path.split("/").filter((part) => part !== "");
  const [view, run, tab] = parts.map(unescaped);
  if (view === undefined || (view === "runs" && run === undefined)) return { view: "runs", ...readAll(RUNS, params) };
  if (view === "goodput" && run === undefined) return { view: "goodput", ...readAll(FLEET, params) };
  if (view === "compare" && run === undefined) return { view: "compare", ...readAll(COMPARE, params) };
  if (view === "events" && run === undefined) return { view: "events", ...readAll(EVENTS, params) };
  if (view === "clusters") return ofClusters(parts.slice(1).map(unescaped), params) ?? { view: "missing", path };
  if (view === "settings" && run === undefined) return { view: "settings" };
  if (view === "runs" && run !== undefined && ((tab === "events" && parts.length === 4) || (tab === "diagnosis" && parts.length === 3))) {
    return { view: "event", run, event: parts[3] === undefined ? null : unescaped(parts[3]) };
  }
  const known = TABS.find((name) => name === (tab ?? "charts"));
  if (view !== "runs" || run === undefined || known === undefined || parts.length > 3) return { view: "missing", path };
  return { view: "run", run, tab: known, ...readAll(RUN, params) };
}

function ofClusters(parts: string[], params: URLSearchParams): OfClusters | null {
  const [cluster, kind, one, ...more] = parts;
  if (cluster === undefined) return { view: "clusters" };
  if (kind === undefined) return { view: "cluster", cluster };
  if (more.length) return null;
  if (kind === "jobs" && one === undefined) return { view: "jobs", cluster, ...readAll(JOBS, params) };
  if (kind === "jobs") return { view: "job", cluster, job: one! };
  if (kind === "nodes" && one !== undefined) return { view: "node", cluster, node: one, ...readAll(LOOK, params) };
  return null;
}

/** The address of `place`, relative to the base. */
export function encode(place: Place): string {
  switch (place.view) {
    case "runs":
      return `runs${writeAll(RUNS, place)}`;
    case "run": {
      const tab = place.tab === "charts" ? "" : `/${place.tab}`;
      return `runs/${encodeURIComponent(place.run)}${tab}${writeAll(RUN, place)}`;
    }
    case "goodput":
      return `goodput${writeAll(FLEET, place)}`;
    case "compare":
      return `compare${writeAll(COMPARE, place)}`;
    case "events":
      return `events${writeAll(EVENTS, place)}`;
    case "event":
      return `runs/${encodeURIComponent(place.run)}/${place.event === null ? "diagnosis" : `events/${encodeURIComponent(place.event)}`}`;
    case "clusters":
      return "clusters";
    case "cluster":
      return inCluster(place.cluster);
    case "jobs":
      return `${inCluster(place.cluster, "jobs")}${writeAll(JOBS, place)}`;
    case "job":
      return inCluster(place.cluster, "jobs", place.job);
    case "node":
      return `${inCluster(place.cluster, "nodes", place.node)}${writeAll(LOOK, place)}`;
    case "settings":
      return "settings";
    case "missing":
      // A path such as "a:" would be read as a scheme.
      return `./${place.path}`;
  }
}

const inCluster = (...parts: string[]): string => ["clusters", ...parts.map(encodeURIComponent)].join("/");

/** The jobs of a cluster with nothing chosen, but for what `change` says. */
export function jobsPlace(cluster: string, change: Partial<JobsPlace> = {}): JobsPlace {
  return { view: "jobs", cluster, ...readAll(JOBS, new URLSearchParams()), ...change };
}

/** The page of a node with nothing chosen. */
export function nodePlace(cluster: string, node: string): NodePlace {
  return { view: "node", cluster, node, ...readAll(LOOK, new URLSearchParams()) };
}

/** The list of runs with nothing chosen, but for what `change` says. */
export function runsPlace(change: Partial<RunsPlace> = {}): RunsPlace {
  return { ...(decode("runs", "") as RunsPlace), ...change };
}

/** Some runs side by side, with nothing chosen. */
export function comparePlace(run: string[]): ComparePlace {
  return { view: "compare", ...readAll(COMPARE, new URLSearchParams()), run };
}

/** The goodput of many runs with nothing chosen, but for what `change` says. */
export function fleetPlace(change: Partial<FleetPlace> = {}): FleetPlace {
  return { ...(decode("goodput", "") as FleetPlace), ...change };
}

/** The events of all runs with nothing chosen, but for what `change` says. */
export function eventsPlace(change: Partial<EventsPlace> = {}): EventsPlace {
  return { view: "events", ...readAll(EVENTS, new URLSearchParams()), ...change };
}

/** The page of an event, or of a run's newest diagnosis. */
export const eventPlace = (run: string, event: string | null): EventPlace => ({ view: "event", run, event });

/** The page of a run with nothing chosen, but for what `change` says. */
export function runPlace(run: string, change: Partial<RunPlace> = {}): RunPlace {
  return { view: "run", run, tab: "charts", ...readAll(RUN, new URLSearchParams()), ...change };
}

function readAll<F extends Fields>(fields: F, params: URLSearchParams): Values<F> {
  const read = ([name, field]: [string, Field<unknown>]) => {
    const raw = params.getAll(name);
    return [name, (raw.length ? field.read(raw) : undefined) ?? field.fallback];
  };
  return Object.fromEntries(Object.entries(fields).map(read)) as Values<F>;
}

function writeAll<F extends Fields>(fields: F, values: Values<F>): string {
  const params = new URLSearchParams();
  for (const [name, field] of Object.entries(fields) as [keyof F & string, Field<unknown>][]) {
    const value: unknown = values[name];
    if (value === field.fallback) continue;
    for (const raw of field.write(value)) params.append(name, raw);
  }
  const query = params.toString();
  return query && `?${query}`;
}

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
