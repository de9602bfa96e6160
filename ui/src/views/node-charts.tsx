/** What tells how a node is: its load, memory, disks and devices, and what its present jobs take of them. */

import { useMemo } from "preact/hooks";
import type { Node, Series } from "../api";
import { type Group, groups, PINNED } from "../charts/board";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { useSeries } from "../state/run";
import type { NodePlace } from "../state/url";
import { Cards } from "./board";

const SHOWN = /^system\/(host\/(cpu|load|memory_used|pressure_io)|disk\/(read|written|[^/]+\/used)|device\/(utilization|memory|memory_used|power|temperature)|job\/[^/]+\/(cpu|memory|device_memory))$/;
const ORDER = [PINNED, "host", "device", "disk", "job"];

/** The groups of a node's page in the order in which one looks. */
export function chosen(series: readonly Series[], jobs: readonly string[], pins: readonly string[]): Group[] {
  const present = series.filter(({ metric }) => !metric.startsWith("system/job/") || jobs.some((job) => metric.startsWith(`system/job/${job}/`)));
  return groups(present, SHOWN, pins, "system/").sort((a, b) => ORDER.indexOf(a.name) - ORDER.indexOf(b.name));
}

interface Props {
  run: string;
  place: NodePlace;
  jobs: Node["jobs"];
}

export function NodeCharts({ run, place, jobs }: Props) {
  const { value: series, problem, reload } = useSeries(run);
  const names = jobs.map(({ name }) => name).join(" ");
  const found = useMemo(() => chosen(series ?? [], names.split(" "), place.pin), [series, names, place.pin]);
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
