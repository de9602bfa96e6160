/** The readings of a run: its own, and those of its nodes. */

import type { Run, RunEvent, Series } from "../api";
import type { Loaded } from "../state/load";
import type { RunPlace } from "../state/url";
import { Board } from "./board";
import { RunNodes, useRunNodes } from "./run-nodes";

interface Props {
  run: Run;
  place: RunPlace;
  series: Loaded<Series[]>;
  events: RunEvent[];
}

export function System({ run, place, series, events }: Props) {
  const nodes = useRunNodes(run);
  const own = series.value?.some((one) => one.system) ?? true;
  return (
    <>
      {(own || !nodes?.length) && <Board run={run} place={place} series={series} events={events} system />}
      {nodes && nodes.length > 0 && <RunNodes {...{ run, place, nodes }} />}
    </>
  );
}
