/** The frame around every view: the bar on top, the banner of a lost server, help; and which view the place names. */

import { useEffect, useState } from "preact/hooks";
import { get, type Problem, type Project, reachable, signedOut } from "./api";
import { useKeys } from "./keys";
import { Glyph } from "./parts/glyph";
import { lazy } from "./parts/lazy";
import { Empty, ProblemNote, Skeleton, Toast } from "./parts/notice";
import { hush, on, resyncs, retry, retryAt, watch } from "./state/live";
import { asProblem, useLoad } from "./state/load";
import { now } from "./state/now";
import { adjust, go, href, place } from "./state/place";
import { enter, session } from "./state/session";
import { called } from "./state/called";
import { dark, toggleTheme } from "./state/theme";
import { eventsPlace, fleetPlace, type Place, runsPlace } from "./state/url";
import { LoginView } from "./views/login";
import { RunsView } from "./views/runs";
import "./app.css";

const Help = lazy(async () => (await import("./views/help")).Help);
const RunView = lazy(async () => (await import("./views/run")).RunView);
const CompareView = lazy(async () => (await import("./views/compare")).CompareView);
const ClustersView = lazy(async () => (await import("./views/clusters")).ClustersView);
const ClusterView = lazy(async () => (await import("./views/cluster")).ClusterView);
const JobsView = lazy(async () => (await import("./views/jobs")).JobsView);
const JobView = lazy(async () => (await import("./views/job")).JobView);
const NodeView = lazy(async () => (await import("./views/node")).NodeView);
const AllEventsView = lazy(async () => (await import("./views/events-all")).AllEventsView);
const EventView = lazy(async () => (await import("./views/event")).EventView);
const FleetView = lazy(async () => (await import("./views/fleet")).FleetView);
const SettingsView = lazy(async () => (await import("./views/settings")).SettingsView);

export function App() {
  const [entered, setEntered] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const begin = () => {
    setProblem(null);
    enter().then(() => setEntered(true), (error: unknown) => setProblem(asProblem(error)));
  };
  useEffect(begin, []);
  const inside = entered && session.value !== null && !signedOut.value;
  useEffect(() => (inside ? watch(null) : hush()), [inside]);
  if (problem) return <main class="alone"><ProblemNote problem={problem} retry={begin} /></main>;
  if (!entered) return <Skeleton />;
  return (
    <>
      {inside ? <Inside /> : <LoginView onDone={() => resyncs.value++} />}
      <Toast />
    </>
  );
}

function Inside() {
  const [helping, help] = useState(false);
  const here = place.value;
  useKeys({ "?": () => help(true), "g r": () => go(runsPlace()), "g g": () => go(fleetPlace()), "g e": () => go(eventsPlace()), "g c": () => go({ view: "clusters" }), "g s": () => go({ view: "settings" }), t: toggleTheme });
  const title = titleOf(here);
  useEffect(() => void (document.title = title), [title]);
  return (
    <>
      <Bar here={here} help={() => help(true)} />
      <Banner />
      <View here={here} />
      {helping && <Help onClose={() => help(false)} />}
    </>
  );
}

function View({ here }: { here: Place }) {
  switch (here.view) {
    case "runs":
      return <RunsView place={here} />;
    case "run":
      return <RunView key={here.run} place={here} />;
    case "compare":
      return <CompareView place={here} />;
    case "goodput":
      return <FleetView place={here} />;
    case "events":
      return <AllEventsView place={here} />;
    case "event":
      return <EventView key={`${here.run}/${here.event}`} place={here} />;
    case "clusters":
      return <ClustersView />;
    case "cluster":
      return <ClusterView key={here.cluster} cluster={here.cluster} />;
    case "jobs":
      return <JobsView key={here.cluster} place={here} />;
    case "job":
      return <JobView key={`${here.cluster}/${here.job}`} cluster={here.cluster} job={here.job} />;
    case "node":
      return <NodeView key={`${here.cluster}/${here.node}`} place={here} />;
    case "settings":
      return <SettingsView />;
    case "missing":
      return (
        <main>
          <Empty title="There is no such page">
            <a class="button" href={href(runsPlace())}>
              Runs
            </a>
          </Empty>
        </main>
      );
  }
}

/** Views below a cluster. */
const CLUSTERS: ReadonlySet<Place["view"]> = new Set<Place["view"]>(["clusters", "cluster", "jobs", "job", "node"]);

function titleOf(here: Place): string {
  const words: Partial<Record<Place["view"], string>> = { runs: "Runs", settings: "Settings", goodput: "Goodput", events: "Events", clusters: "Clusters", missing: "No such page" };
  const run = (id: string) => (called.value?.of === id ? called.value.name : id);
  if (here.view === "event") return `${here.event === null ? "Diagnosis" : "Event"} of ${run(here.run)} · stepward`;
  if (here.view === "run") return `${run(here.run)} · stepward`;
  if (here.view === "compare") return `${here.run.length} runs compared · stepward`;
  if (here.view === "cluster") return `${here.cluster} · stepward`;
  if (here.view === "jobs") return `Jobs of ${here.cluster} · stepward`;
  if (here.view === "job") return `Job ${here.job} · stepward`;
  if (here.view === "node") return `${here.node} · stepward`;
  return words[here.view] ? `${words[here.view]} · stepward` : "stepward";
}

function Bar({ here, help }: { here: Place; help(): void }) {
  return (
    <header class="bar">
      <a class="brand" href={href(runsPlace())}>
        <img src="icon.svg" alt="" width="20" height="20" />
        stepward
      </a>
      <nav class="row" aria-label="Main">
        <a href={href(runsPlace())} aria-current={here.view === "runs" ? "page" : here.view === "compare" ? "true" : undefined}>
          Runs
        </a>
        <a href={href(eventsPlace())} aria-current={here.view === "events" ? "page" : undefined}>
          Events
        </a>
        <a href={href(fleetPlace())} aria-current={here.view === "goodput" ? "page" : undefined}>
          Goodput
        </a>
        <a href={href({ view: "clusters" })} aria-current={CLUSTERS.has(here.view) ? "page" : undefined}>
          Clusters
        </a>
      </nav>
      {(here.view === "runs" || here.view === "goodput" || here.view === "events") && <ProjectSwitch project={here.project} />}
      <span class="grow" />
      <button class="quiet icon" aria-label={dark.value ? "Light theme" : "Dark theme"} title="Light or dark (t)" onClick={toggleTheme}>
        <Glyph name="moon" />
      </button>
      <button class="quiet icon" aria-label="Keyboard help" title="Keyboard help (?)" onClick={help}>
        <Glyph name="help" />
      </button>
      <a class="button quiet icon" aria-label="Settings" title="Settings (g s)" href={href({ view: "settings" })} aria-current={here.view === "settings" ? "page" : undefined}>
        <Glyph name="sliders" />
      </a>
    </header>
  );
}

function ProjectSwitch({ project }: { project: string }) {
  const { value: projects, reload } = useLoad("projects", (signal) => get<Project[]>("projects", { signal }));
  const names = projects?.map(({ name }) => name) ?? [];
  useEffect(() => on("run", ({ run }) => projects && !names.includes(run.project) && reload()), [projects]);
  if (project && !names.includes(project)) names.push(project);
  return (
    <select aria-label="Project" value={project} onChange={(event) => adjust({ project: event.currentTarget.value })}>
      <option value="">All projects</option>
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

/** Says that what is seen may be old, and when the next try is. */
function Banner() {
  const at = retryAt.value;
  if (at === null && reachable.value) return null;
  const wait = Math.max(0, Math.ceil(((at ?? now.value) - now.value) / 1000));
  return (
    <div class="banner" role="status">
      <Glyph name="warn" />
      <span class="grow">
        {reachable.value ? "Live updates are interrupted." : "The server does not answer."} What you see was loaded before; {wait ? `next try in ${wait} s` : "trying again"}.
      </span>
      <button onClick={retry}>Try now</button>
    </div>
  );
}
