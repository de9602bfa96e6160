/** What the nodes of a run measured while the run had them. */

import { useMemo, useState } from "preact/hooks";
import { get, type Run, type RunNode, runPath } from "../api";
import { href } from "../state/place";
import { usePolled } from "../state/polled";
import { nodePlace, type RunPlace } from "../state/url";
import { clockMillis, LIVE, moment } from "../words";
import { axisOf, Cards } from "./board";
import { ALL, nodeGroups } from "./node-groups";
import "./clusters.css";

const POLL_MS = 15_000;

/** The nodes of each attempt, the newest first. */
export function useRunNodes(run: Run): RunNode[] | undefined {
  const key = run.attempts.some(({ nodes }) => nodes.length) ? run.id : null;
  const { value } = usePolled(key, LIVE.has(run.state) ? POLL_MS : POLL_MS * 20, (signal) => get<RunNode[]>(runPath(run.id, "/nodes"), { signal }));
  return useMemo(() => value?.filter(({ known }) => known).sort((a, b) => b.attempt - a.attempt || a.node.localeCompare(b.node)), [value]);
}

const named = ({ attempt, node }: RunNode): string => `${attempt} ${node}`;

export function RunNodes({ run, place, nodes }: { run: Run; place: RunPlace; nodes: RunNode[] }) {
  const [chosen, choose] = useState("");
  const one = nodes.find((node) => named(node) === chosen) ?? nodes[0]!;
  const found = useMemo(() => nodeGroups(one.series, ALL, []), [one]);
  const until = one.ended_at ? moment(one.ended_at) : "now";
  return (
    <section class="run-nodes" aria-label="Nodes of the run">
      <div class="tool-bar">
        <h2>Node</h2>
        <select aria-label="Node and attempt" value={named(one)} onChange={(event) => choose(event.currentTarget.value)}>
          {nodes.map((node) => (
            <option key={named(node)} value={named(node)}>
              {node.node}, attempt {node.attempt}
            </option>
          ))}
        </select>
        <span class="soft small number">
          {moment(one.started_at)} – {one.ended_at && one.ended_at.slice(0, 10) === one.started_at.slice(0, 10) ? clockMillis(one.ended_at).slice(0, 8) : until}: as long as the attempt had it
        </span>
        <span class="grow" />
        {one.cluster && (
          <a class="button" href={href(nodePlace(one.cluster, one.node))}>
            Page of {one.node}
          </a>
        )}
      </div>
      {found.length ? (
        <Cards key={named(one)} run={run.id} of={runPath(run.id, `/nodes/${encodeURIComponent(one.node)}/points?attempt=${one.attempt}`)} place={place} axis={axisOf(place, true)} groups={found} />
      ) : (
        <p class="soft">Its agent has measured nothing.</p>
      )}
    </section>
  );
}
