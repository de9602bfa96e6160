/** One run: its head with state and attempts, and a tab for each way to look into it. */

import { useEffect, useRef } from "preact/hooks";
import { useKeys } from "../keys";
import type { Run, RunEvent } from "../api";
import { lazy } from "../parts/lazy";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import type { Loaded } from "../state/load";
import { go, href } from "../state/place";
import { useRunEvents } from "../state/events";
import { useCalled } from "../state/called";
import { useRun, useSeries } from "../state/run";
import { type RunPlace, runPlace, runsPlace, type Tab, TABS } from "../state/url";
import { Configuration } from "./configuration";
import { DiagnosisBanner } from "./diagnosis-banner";
import { Goodput } from "./goodput";
import { Logs } from "./logs";
import { Ranks } from "./ranks";
import { RunHead } from "./run-head";
import "./run.css";

const System = lazy(async () => (await import("./run-system")).System);
const Events = lazy(async () => (await import("./events")).Events);
const Board = lazy(async () => (await import("./board")).Board);
/** Tabs whose content scrolls by itself and takes the height that is left. */
const FILLING: ReadonlySet<Tab> = new Set<Tab>(["logs", "configuration"]);

const NAMES: Record<Tab, string> = { charts: "Charts", system: "System", logs: "Logs", configuration: "Configuration", ranks: "Ranks", goodput: "Goodput", events: "Events" };

const NONE: RunEvent[] = [];

export function RunView({ place }: { place: RunPlace }) {
  const open = useRun(place.run);
  const run = open.value;
  const events = useRunEvents(run?.id);
  const tabs = useRef<HTMLElement>(null);
  useCalled(place.run, run);
  useEffect(() => {
    // On a narrow page the tabs scroll; the one that is open is never out of sight.
    const open = tabs.current?.querySelector<HTMLElement>("[aria-current]");
    if (open) tabs.current!.scrollLeft = open.offsetLeft + open.offsetWidth / 2 - tabs.current!.clientWidth / 2;
  }, [place.tab, run?.id]);
  useKeys({
    u: () => go(runsPlace()),
    ...Object.fromEntries(TABS.map((tab, i) => [String(i + 1), () => go(onTab(place, tab))])),
  });
  if (open.removed) return <Gone />;
  if (!run) return <main class="run">{open.problem ? <Failed open={open} named={place.run} /> : <Skeleton lines={12} />}</main>;
  return (
    <main class={FILLING.has(place.tab) ? "run filled" : "run"}>
      <RunHead run={run} put={open.put} />
      <DiagnosisBanner run={run} />
      <nav ref={tabs} class="tabs" aria-label="Views of the run">
        {TABS.map((tab) => (
          <a key={tab} href={href(onTab(place, tab))} aria-current={tab === place.tab ? "page" : undefined}>
            {NAMES[tab]}
            {tab === "events" && !!events.value?.length && <span class="faint number"> {events.value.length}</span>}
          </a>
        ))}
      </nav>
      <div class="tab">
        <TabContent run={run} place={place} events={events} />
      </div>
    </main>
  );
}

/** The same view on another tab; what only makes sense on the old one (a zoom, a line) stays behind. */
const onTab = (place: RunPlace, tab: Tab): RunPlace => {
  const { x, smooth, log, band, by, pin, stream } = place;
  return runPlace(place.run, { tab, x, smooth, log, band, by, pin, stream });
};

function TabContent({ run, place, events }: { run: Run; place: RunPlace; events: Loaded<RunEvent[]> }) {
  const series = useSeries(run.id);
  switch (place.tab) {
    case "charts":
      return <Board key={place.tab} run={run} place={place} series={series} events={events.value ?? NONE} system={false} />;
    case "system":
      return <System run={run} place={place} series={series} events={events.value ?? NONE} />;
    case "events":
      return <Events run={run} place={place} events={events} />;
    case "logs":
      return <Logs run={run} place={place} />;
    case "configuration":
      return <Configuration run={run} place={place} />;
    case "goodput":
      return <Goodput run={run} place={place} />;
    case "ranks":
      return <Ranks run={run} place={place} />;
  }
}

function Failed({ open, named }: { open: ReturnType<typeof useRun>; named: string }) {
  if (open.problem?.status !== 404) return <ProblemNote problem={open.problem!} retry={open.reload} />;
  return (
    <Empty title="No such run">
      <p>
        <code>{named}</code> is not here, or is in a project that you may not see.
      </p>
      <a class="button" href={href(runsPlace())}>
        All runs
      </a>
    </Empty>
  );
}

function Gone() {
  return (
    <main class="run">
      <Empty title="This run was deleted">
        <a class="button" href={href(runsPlace())}>
          All runs
        </a>
      </Empty>
    </main>
  );
}
