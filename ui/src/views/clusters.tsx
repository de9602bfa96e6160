/** The clusters of this server: how each is, its nodes, and how far an operation on it is. */

import { type Cluster, clusterPath, get, type JobPage, type Operation } from "../api";
import { ToneChip } from "../parts/chip";
import { CopyBlock } from "../parts/copy";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { PlainTable } from "../parts/plain-table";
import { CLUSTER_TONES, OPERATION_TONES, plainState, progress, tally } from "../state/clusters";
import { useLoad } from "../state/load";
import { now } from "../state/now";
import { href } from "../state/place";
import { usePolled } from "../state/polled";
import { jobsPlace } from "../state/url";
import { ago, between, duration, moment } from "../words";
import "./clusters.css";

const POLL_MS = 5000;

export function ClustersView() {
  const { value: clusters, problem, reload } = usePolled("clusters", POLL_MS, (signal) => get<Cluster[]>("clusters", { signal }));
  const host = useLoad("host", (signal) => get<JobPage>(clusterPath("host", "jobs"), { query: { limit: 1 }, signal }));
  return (
    <main class="clusters">
      <h1>Clusters</h1>
      {problem && <ProblemNote problem={problem} retry={reload} />}
      {clusters ? <List clusters={clusters} host={host.value} /> : !problem && <Skeleton lines={6} />}
    </main>
  );
}

function List({ clusters, host }: { clusters: Cluster[]; host: JobPage | undefined }) {
  if (!clusters.length && !host) return <NoClusters />;
  return (
    <PlainTable label="Clusters" heads={["Cluster", "State", "Nodes", "Operation", "Queue", "Made"]}>
      {clusters.map((cluster) => (
        <Row key={cluster.name} cluster={cluster} />
      ))}
      {host && (
        <tr data-cluster="host">
          <th scope="row">
            <a href={href(jobsPlace("host"))}>host</a> <span class="faint">the Slurm of the server's own host</span>
          </th>
          <td colSpan={3} class="faint">
            not managed here
          </td>
          <td>
            <a href={href(jobsPlace("host"))}>Jobs</a>
          </td>
          <td />
        </tr>
      )}
    </PlainTable>
  );
}

function Row({ cluster }: { cluster: Cluster }) {
  const { name, display_name, state, nodes, problems, operation, created_at } = cluster;
  return (
    <tr data-cluster={name}>
      <th scope="row">
        <a href={href({ view: "cluster", cluster: name })}>{name}</a>
        {display_name !== name && <span class="faint"> {display_name}</span>}
      </th>
      <td>
        <ToneChip tone={CLUSTER_TONES[state]} word={state} title={problems.join("\n")} />
        {problems.length > 0 && <span class="soft small clip cluster-problem">{problems[0]}</span>}
      </td>
      <td>
        <Nodes nodes={nodes} />
      </td>
      <td>{operation ? <OperationLine operation={operation} /> : <span class="faint">–</span>}</td>
      <td>
        <a href={href(jobsPlace(name))}>Jobs</a>
      </td>
      <td class="number" title={moment(created_at)}>
        {ago(created_at, now.value)}
      </td>
    </tr>
  );
}

/** `3 up · 1 out of service · 2 off`. */
export function Nodes({ nodes }: { nodes: Cluster["nodes"] }) {
  const { up, out, away } = tally(nodes);
  return (
    <span class="number">
      {up} up{out > 0 && <b class="bad-ink"> · {out} out of service</b>}
      {away > 0 && <span class="faint"> · {away} off or silent</span>}
    </span>
  );
}

/** What an operation does, how far it is, and since when or how long. */
export function OperationLine({ operation }: { operation: Operation }) {
  const { done, total, at } = progress(operation);
  const { kind, state, started_at, ended_at } = operation;
  return (
    <span class="row operation-line">
      <ToneChip tone={OPERATION_TONES[state]} word={`${kind} ${state === "running" ? "" : plainState(state)}`.trim()} title={`begun ${moment(started_at)}`} />
      {state !== "done" && <progress max={total} value={done} aria-label={`${done} of ${total} steps`} />}
      <span class="soft small clip number">
        {state === "done" ? `took ${duration(between(started_at, ended_at, now.value))}` : `${done} of ${total}${at ? `: ${at}` : ""}`}
      </span>
    </span>
  );
}

function NoClusters() {
  return (
    <Empty title="No clusters yet">
      <p>A whole Slurm on the server's own host, for trying things out, from a specification:</p>
      <CopyBlock text="stepward cluster create -f lab.yaml" label="command" />
    </Empty>
  );
}
