/** What tells how a node is: its load, memory, disks and devices, and what its present jobs take of them. */

import { useMemo } from "preact/hooks";
import type { Node } from "../api";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { useSeries } from "../state/run";
import type { NodePlace } from "../state/url";
import { Cards } from "./board";
import { nodeGroups, ofJobs, VITAL } from "./node-groups";

interface Props {
  run: string;
  place: NodePlace;
  jobs: Node["jobs"];
}

export function NodeCharts({ run, place, jobs }: Props) {
  const { value: series, problem, reload } = useSeries(run);
  const names = jobs.map(({ name }) => name).join(" ");
  const found = useMemo(() => nodeGroups(ofJobs(series ?? [], names.split(" ")), VITAL, place.pin), [series, names, place.pin]);
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
