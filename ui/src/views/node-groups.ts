/** Which readings of a node are shown, in groups in the order in which one looks. Pure. */

import type { Series } from "../api";
import { type Group, groups, PINNED } from "../charts/board";

/** What tells how a node is. */
export const VITAL = /^system\/(host\/(cpu|load|memory_used|pressure_io)|disk\/(read|written|[^/]+\/used)|device\/(utilization|memory|memory_used|power|temperature)|job\/[^/]+\/(cpu|memory|device_memory))$/;
/** All but what the agent itself takes. */
export const ALL = /^system\/(?!agent\/)/;
const ORDER = [PINNED, "host", "device", "job", "disk", "network", "scrape"];

export function nodeGroups(series: readonly Series[], pattern: RegExp, pins: readonly string[]): Group[] {
  return groups(series, pattern, pins, "system/").sort((a, b) => place(a) - place(b));
}

const place = ({ name }: Group): number => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);

/** Without what was measured of jobs other than these: a node that lives long has had many. */
export function ofJobs(series: readonly Series[], jobs: readonly string[]): Series[] {
  return series.filter(({ metric }) => !metric.startsWith("system/job/") || jobs.some((job) => metric.startsWith(`system/job/${job}/`)));
}
