/** Draining a node and giving it back, each after a question; the server keeps who did it and why. */

import { useState } from "preact/hooks";
import { call, clusterPath, type Node, type NodeChanged, Problem } from "../api";
import { Confirm } from "../parts/confirm";
import { say } from "../parts/notice";
import { nodeVerb, plainState } from "../state/clusters";
import { mayAdminister } from "../state/session";
import { count } from "../words";

export function NodeActions({ node, cluster, reload }: { node: Node; cluster: string; reload(): void }) {
  const [asked, ask] = useState(false);
  const { name, slurm, jobs } = node;
  if (!mayAdminister() || !slurm) return null;
  const verb = nodeVerb(slurm.state);
  const props = { node, cluster, reload, onClose: () => ask(false) };
  return (
    <>
      <button onClick={() => ask(true)}>{verb === "drain" ? "Drain…" : "Give back…"}</button>
      {asked && verb === "drain" && <Drain {...props} />}
      {asked && verb === "resume" && (
        <Confirm title={`Give ${name} back?`} verb="Give it back" reason="asked" act={(reason) => change(props, "resume", { reason })} onClose={props.onClose}>
          <p>
            It is <b>{plainState(slurm.state)}</b>: {slurm.reason_words ?? slurm.reason ?? "nobody said why"}
            {slurm.reason_by && ` (set by ${slurm.reason_by})`}. Jobs may start on it again{jobs.length ? "" : " at once"}.
          </p>
        </Confirm>
      )}
    </>
  );
}

interface Props {
  node: Node;
  cluster: string;
  reload(): void;
  onClose(): void;
}

function Drain(props: Props) {
  const { name, jobs } = props.node;
  const [force, setForce] = useState(false);
  const act = async (reason: string) => {
    try {
      await change(props, "drain", { reason, force });
    } catch (error) {
      // The server has said what it would mean: the next press means it.
      if (error instanceof Problem && error.code === "last_node") setForce(true);
      throw error;
    }
  };
  return (
    <Confirm title={`Drain ${name}?`} verb={force ? "Drain it all the same" : "Drain the node"} danger={force} reason="needed" act={act} onClose={props.onClose}>
      <p>
        No new job starts on it until it is given back. {jobs.length ? `${count(jobs.length, "job")} (${jobs.map((job) => job.name).join(", ")}) on it ${jobs.length > 1 ? "go" : "goes"} on to the end.` : "No job runs on it."}
      </p>
    </Confirm>
  );
}

async function change({ node, cluster, reload }: Props, verb: NodeChanged["kind"], body: { reason: string; force?: boolean }): Promise<void> {
  await call<NodeChanged>("POST", clusterPath(cluster, "nodes", node.name, verb), { body });
  say(`${node.name} is ${verb === "drain" ? "drained" : "given back"}`);
  reload();
}
