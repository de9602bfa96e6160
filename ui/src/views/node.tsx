/** One node: is it heard, what Slurm and its own checks say, what it measured, its jobs, the last words of its kernel. */

import { useEffect } from "preact/hooks";
import { clusterPath, get, type Node } from "../api";
import { useKeys } from "../keys";
import { ToneChip } from "../parts/chip";
import { lazy } from "../parts/lazy";
import { Empty, ProblemNote, Skeleton, Warnings } from "../parts/notice";
import { type Fact, PageHead } from "../parts/page-head";
import { PlainTable } from "../parts/plain-table";
import { byConcern, CHECK_TONES, HEARTBEAT_TONES, nodeTone, plainState } from "../state/clusters";
import { watch } from "../state/live";
import { now } from "../state/now";
import { go, href } from "../state/place";
import { usePolled } from "../state/polled";
import { type NodePlace, runPlace } from "../state/url";
import { ago, brief, bytes, count, moment } from "../words";
import { Audit } from "./audit";
import { NodeActions } from "./node-actions";
import { KernelLog } from "./node-kernel";
import { NodeJobs } from "./node-jobs";
import "./clusters.css";
import "./run.css";

const NodeCharts = lazy(async () => (await import("./node-charts")).NodeCharts);
const POLL_MS = 3000;

export function NodeView({ place }: { place: NodePlace }) {
  const { cluster, node: named } = place;
  const { value: node, problem, reload } = usePolled(`${cluster} ${named}`, POLL_MS, (signal) => get<Node>(clusterPath(cluster, "nodes", named), { signal }));
  const run = node?.run ?? null;
  useEffect(() => {
    if (run) watch(run);
    return () => watch(null);
  }, [run]);
  useKeys({ u: () => go({ view: "cluster", cluster }) });
  if (!node) return <main class="clusters">{problem ? <NoNode {...{ problem, reload, place }} /> : <Skeleton lines={12} />}</main>;
  return (
    <main class="clusters">
      <Head {...{ node, cluster, reload }} />
      {problem && <ProblemNote problem={problem} retry={reload} />}
      <OutOfService node={node} />
      <div class="side-by-side">
        <Checks node={node} />
        <NodeJobs node={node} cluster={cluster} />
      </div>
      <Audit cluster={cluster} node={node.name} />
      {run && <KernelLog run={run} />}
      {run && <NodeCharts run={run} place={place} jobs={node.jobs} />}
    </main>
  );
}

function NoNode({ problem, reload, place }: { problem: NonNullable<ReturnType<typeof usePolled>["problem"]>; reload(): void; place: NodePlace }) {
  if (problem.status !== 404) return <ProblemNote problem={problem} retry={reload} />;
  return (
    <Empty title={`No node ${place.node}`}>
      <p>{problem.message}</p>
      <a class="button" href={href({ view: "cluster", cluster: place.cluster })}>
        {place.cluster}
      </a>
    </Empty>
  );
}

const HEARTBEAT = { live: "heard", lost: "not heard", stopped: "agent stopped", unknown: "never heard" };

function Head({ node, cluster, reload }: { node: Node; cluster: string; reload(): void }) {
  const { name, state, slurm, since, last_heard_at, load, cpu, cpus, memory_used, memory_total, devices } = node;
  const facts: Fact[] = [
    ["Heartbeat", last_heard_at ? ago(last_heard_at, now.value) : "never", `${HEARTBEAT[state]} since ${moment(since)}`],
    ["Load", load === null ? "–" : `${brief(load)}${cpus ? ` on ${count(cpus, "CPU")}` : ""}`],
    ["CPU", cpu === null ? "–" : `${Math.round(cpu)} %`],
    ["Memory", memory_used === null || memory_total === null ? "–" : `${bytes(memory_used)} of ${bytes(memory_total)}`],
  ];
  if (devices.length) facts.push(["Devices", count(devices.length, "device"), devices.map((device) => String(device.name ?? "")).join("\n")]);
  const signs = (
    <>
      <ToneChip tone={HEARTBEAT_TONES[state]} word={HEARTBEAT[state]} title="the heartbeat of its agent" />
      {slurm && <ToneChip tone={nodeTone(slurm.state)} word={plainState(slurm.state)} title="as Slurm has it" />}
    </>
  );
  const tools = (
    <>
      {node.run && (
        <a class="button" href={href(runPlace(node.run, { tab: "system" }))}>
          All readings
        </a>
      )}
      <NodeActions node={node} cluster={cluster} reload={reload} />
    </>
  );
  return <PageHead back={href({ view: "cluster", cluster })} from={cluster} {...{ name, signs, tools, facts }} />;
}

/** What Slurm says of a node that takes no jobs. */
function OutOfService({ node: { slurm, state } }: { node: Node }) {
  const lines = [
    slurm?.reason && `${plainState(slurm.state)}: ${slurm.reason_words ?? slurm.reason}${slurm.reason_by ? ` (set by ${slurm.reason_by})` : ""}`,
    slurm && !slurm.responding && "its slurmd does not respond to the controller",
    state === "lost" && "its agent has fallen silent: the node, its network, or the agent itself is gone",
  ];
  return <Warnings lines={lines.filter((line) => typeof line === "string" && line !== "") as string[]} />;
}

function Checks({ node }: { node: Node }) {
  if (!node.checks.length) {
    return (
      <section>
        <h2>Checks</h2>
        <p class="soft">{node.run ? "Its agent has not said yet." : "No agent of this node has been heard: stepward agent runs the checks."}</p>
      </section>
    );
  }
  return (
    <section>
      <h2>Checks</h2>
      <PlainTable label="Checks" heads={["Check", "Result", "Why", "Severity", "Asked"]}>
        {byConcern(node.checks).map((check) => (
          <tr key={check.name} data-check={check.name}>
            <th scope="row">{plainState(check.name)}</th>
            <td>
              <ToneChip tone={CHECK_TONES[check.result]} word={check.result} />
            </td>
            <td class="words-cell">{check.reason}</td>
            <td class="soft">{check.severity}</td>
            <td class="number" title={moment(check.at)}>
              {ago(check.at, now.value)}
            </td>
          </tr>
        ))}
      </PlainTable>
    </section>
  );
}
