/** What a node measured: host, disks, network, devices and its jobs. */

import { useMemo } from "preact/hooks";
import { groups } from "../charts/board";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { useSeries } from "../state/run";
import type { NodePlace } from "../state/url";
import { Cards } from "./board";

/** The agent's own cost and scraped exporters are with all readings. */
const SHOWN = /^system\/(host|disk|device|network|job)\//;

export function NodeCharts({ run, place }: { run: string; place: NodePlace }) {
  const { value: series, problem, reload } = useSeries(run);
  const found = useMemo(() => groups(series ?? [], SHOWN, place.pin, "system/"), [series, place.pin]);
  return (
    <section>
      <h2>Readings</h2>
      {problem?.status === 404 ? (
        <p class="soft">The readings of nodes belong to the project _nodes, which this token may not see.</p>
      ) : problem ? (
        <ProblemNote problem={problem} retry={reload} />
      ) : !series ? (
        <Skeleton lines={6} />
      ) : found.length ? (
        <Cards run={run} place={place} axis="time" groups={found} />
      ) : (
        <Empty title="No readings yet" />
      )}
    </section>
  );
}
