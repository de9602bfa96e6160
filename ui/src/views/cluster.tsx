/** One cluster: what is wrong, the operation that changes it, pools, partitions, nodes and daemons. */

import { useState } from "preact/hooks";
import { call, type Cluster, type ClusterPlan, clusterPath, get, type JobPage, type Operation } from "../api";
import { useKeys } from "../keys";
import { ToneChip } from "../parts/chip";
import { Confirm } from "../parts/confirm";
import { copy } from "../parts/copy";
import { Glyph } from "../parts/glyph";
import { Menu } from "../parts/menu";
import { Empty, ProblemNote, say, Skeleton, Warnings } from "../parts/notice";
import { type Fact, PageHead } from "../parts/page-head";
import { PlainTable } from "../parts/plain-table";
import { CLUSTER_TONES, shapeWords } from "../state/clusters";
import { useLoad } from "../state/load";
import { now } from "../state/now";
import { go, href } from "../state/place";
import { usePolled } from "../state/polled";
import { mayAdminister } from "../state/session";
import { jobsPlace } from "../state/url";
import { ago, bytes, count, moment } from "../words";
import { Audit } from "./audit";
import { NodeGrid } from "./cluster-nodes";
import { ClusterEdit } from "./cluster-edit";
import { Nodes, OperationLine } from "./clusters";
import "./clusters.css";
import "./run.css";

const POLL_MS = 3000;

export function ClusterView({ cluster: named }: { cluster: string }) {
  const { value: cluster, problem, reload } = usePolled(named, POLL_MS, (signal) => get<Cluster>(clusterPath(named), { signal }));
  useKeys({ u: () => go({ view: "clusters" }) });
  if (problem?.status === 404) return <NoCluster named={named} />;
  if (!cluster) return <main class="clusters">{problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={12} />}</main>;
  return (
    <main class="clusters">
      <Head cluster={cluster} reload={reload} />
      {problem && <ProblemNote problem={problem} retry={reload} />}
      <Warnings lines={cluster.problems} />
      {cluster.operation && cluster.operation.state !== "done" && <OperationSteps operation={cluster.operation} />}
      <Queue cluster={cluster.name} />
      <section>
        <h2>Nodes</h2>
        <NodeGrid cluster={cluster.name} nodes={cluster.nodes} />
      </section>
      <div class="side-by-side">
        <Pools cluster={cluster} />
        <Partitions cluster={cluster} />
        <Services cluster={cluster} />
      </div>
      <Audit cluster={cluster.name} />
    </main>
  );
}

function NoCluster({ named }: { named: string }) {
  return (
    <main class="clusters">
      <Empty title="No such cluster">
        <p>
          This server has not made a cluster <code>{named}</code>, or it was deleted. Of a Slurm that was not made here only jobs and nodes are
          known.
        </p>
        <a class="button" href={href(jobsPlace(named))}>
          Jobs of {named}
        </a>
        <a class="button" href={href({ view: "clusters" })}>
          All clusters
        </a>
      </Empty>
    </main>
  );
}

function Head({ cluster, reload }: { cluster: Cluster; reload(): void }) {
  const [asked, ask] = useState<"edit" | "end" | null>(null);
  const { name, display_name, slurm_name, provider, state, slurm_conf, created_at, nodes, operation, spec } = cluster;
  const busy = operation?.state === "running" || operation?.state === "interrupted";
  const facts: Fact[] = [
    ["Nodes", <Nodes nodes={nodes} />],
    ["Provider", provider],
    ["Slurm's name", slurm_name],
    ["Made", ago(created_at, now.value), moment(created_at)],
  ];
  if (typeof spec?.project === "string") facts.push(["Project of its jobs", spec.project]);
  if (operation?.state === "done") facts.push(["Last operation", <OperationLine operation={operation} />]);
  const signs = (
    <>
      <ToneChip tone={CLUSTER_TONES[state]} word={state} />
      {display_name !== name && <span class="soft">{display_name}</span>}
    </>
  );
  const tools = (
    <>
      <a class="button" href={href(jobsPlace(name))}>
        Jobs
      </a>
      <Menu label="Actions for this cluster" button={<Glyph name="menu" />}>
        {(close) => (
          <>
            <button onClick={() => (close(), void copy(`export SLURM_CONF=${slurm_conf}`, "Command copied"))}>
              <Glyph name="copy" /> Copy export SLURM_CONF=…
            </button>
            <button onClick={() => (close(), void copy(`stepward cluster get ${name}`, "Command copied"))}>
              <Glyph name="copy" /> Copy as command
            </button>
            {mayAdminister() && (
              <>
                <button disabled={busy} onClick={() => (close(), ask("edit"))}>
                  <Glyph name="pencil" /> Edit the specification…
                </button>
                <button class="danger" disabled={busy} onClick={() => (close(), ask("end"))}>
                  <Glyph name="trash" /> Delete the cluster…
                </button>
              </>
            )}
          </>
        )}
      </Menu>
    </>
  );
  const close = () => ask(null);
  return (
    <PageHead back={href({ view: "clusters" })} from="clusters" {...{ name, signs, tools, facts }}>
      {asked === "edit" && <ClusterEdit cluster={cluster} reload={reload} onClose={close} />}
      {asked === "end" && <Delete cluster={cluster} onClose={close} />}
    </PageHead>
  );
}

/** Ending a cluster cannot be undone: the server says what it would do, and the name must be typed. */
function Delete({ cluster: { name }, onClose }: { cluster: Cluster; onClose(): void }) {
  const { value: plan, problem } = useLoad(name, () => call<ClusterPlan>("POST", clusterPath(name, "plan"), { body: {} }));
  const act = async () => {
    await call("DELETE", clusterPath(name));
    say(`${name} is being deleted`);
  };
  return (
    <Confirm title={`Delete ${name}?`} verb="Delete the cluster" danger typed={name} act={act} onClose={onClose}>
      <p>Its jobs end, and its daemons, accounting and files go. Runs and what was measured stay.</p>
      {problem && <ProblemNote problem={problem} />}
      {plan && (
        <ol class="plan">
          {plan.steps.map(({ key, title }) => (
            <li key={key}>{title}</li>
          ))}
        </ol>
      )}
    </Confirm>
  );
}

const MARKS = { done: "✓", running: "…", failed: "✕", pending: "·" };

function OperationSteps({ operation }: { operation: Operation }) {
  const { steps, error } = operation;
  return (
    <section class="operation" aria-label="Operation">
      <OperationLine operation={operation} />
      {error && (
        <div class="note bad-note">
          <Glyph name="warn" />
          <div>
            <p>{error.detail}</p>
            <p class="small soft">
              {error.hint && `${error.hint} · `}
              <code>{error.code}</code>
            </p>
          </div>
        </div>
      )}
      <ol class="steps">
        {steps.map((step) => (
          <li key={step.key} data-state={step.state}>
            <span aria-hidden="true">{MARKS[step.state]}</span> {step.title}
            <span class="out-of-sight"> {step.state}</span>
            {step.seconds !== null && <span class="faint number"> {step.seconds.toFixed(1)} s</span>}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** How many wait and run. */
function Queue({ cluster }: { cluster: string }) {
  const ask = (state: string, signal: AbortSignal) => get<JobPage>(clusterPath(cluster, "jobs"), { query: { state, since: "1h", limit: 1 }, signal });
  const { value, problem } = usePolled(`${cluster} queue`, POLL_MS, (signal) => Promise.all([ask("running", signal), ask("queued", signal)]));
  const [running, queued] = value ?? [];
  return (
    <p class="row wrap" aria-label="Queue" role="group">
      <b>Queue</b>
      {problem ? (
        <span class="warn-ink">{problem.message}</span>
      ) : running && queued ? (
        <>
          <a class="link" href={href(jobsPlace(cluster, { state: "running" }))}>{count(running.total, "job")} running</a>
          <span class="faint">·</span>
          <a class="link" href={href(jobsPlace(cluster, { state: "queued" }))}>{queued.total} waiting</a>
        </>
      ) : (
        <span class="faint">asking Slurm…</span>
      )}
    </p>
  );
}

function Pools({ cluster }: { cluster: Cluster }) {
  return (
    <section>
      <h2>Pools</h2>
      <PlainTable label="Pools" heads={["Pool", "On", "Always", "Spares", "A node has"]}>
        {cluster.pools.map((pool) => (
          <tr key={pool.id}>
            <th scope="row">{pool.id}</th>
            <td class="number">
              {pool.up} of {pool.max_nodes}
            </td>
            <td class="number">{pool.min_nodes}</td>
            <td class="number">{pool.max_nodes - pool.min_nodes}</td>
            <td>{shapeWords(pool.shape, bytes)}</td>
          </tr>
        ))}
      </PlainTable>
    </section>
  );
}

function Partitions({ cluster }: { cluster: Cluster }) {
  return (
    <section>
      <h2>Partitions</h2>
      <PlainTable label="Partitions" heads={["Partition", "State", "Longest job", "Pools"]}>
        {cluster.partitions.map((partition) => (
          <tr key={partition.id} data-partition={partition.id}>
            <th scope="row">
              <a href={href(jobsPlace(cluster.name, { partition: partition.id }))}>{partition.id}</a>
              {partition.default && <span class="faint"> default</span>}
            </th>
            <td>
              <ToneChip tone={partition.state === "up" ? "good" : partition.state === "unknown" ? "mute" : "warn"} word={partition.state} />
            </td>
            <td class="number">{partition.max_time}</td>
            <td>{partition.node_pools.join(", ")}</td>
          </tr>
        ))}
      </PlainTable>
    </section>
  );
}

function Services({ cluster }: { cluster: Cluster }) {
  if (!cluster.services.length) return null;
  return (
    <section>
      <h2>Daemons</h2>
      <ul class="row wrap">
        {cluster.services.map(({ role, running }) => (
          <li key={role}>
            <ToneChip tone={running ? "good" : "bad"} word={running ? role : `${role} does not run`} />
          </li>
        ))}
      </ul>
    </section>
  );
}
