/** Changing a cluster: its specification as text, then what the change would do, then the change. */

import { useState } from "preact/hooks";
import { call, type Cluster, type ClusterPlan, clusterPath, type Problem } from "../api";
import { Confirm } from "../parts/confirm";
import { Dialog } from "../parts/dialog";
import { ProblemNote, say } from "../parts/notice";
import { Numbered } from "../parts/numbered";
import { asProblem } from "../state/load";
import { specText } from "../state/specification";

interface Props {
  cluster: Cluster;
  reload(): void;
  onClose(): void;
}

export function ClusterEdit({ cluster: { name, spec }, reload, onClose }: Props) {
  // As it was when the editing began: what others change meanwhile does not change under one's hands.
  const [draft, write] = useState(() => specText(spec ?? {}));
  const [plan, setPlan] = useState<ClusterPlan | null>(null);
  const [refused, refuse] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const ask = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      setPlan(await call<ClusterPlan>("POST", clusterPath(name, "plan"), { body: { spec: draft } }));
      refuse(null);
    } catch (error) {
      refuse(asProblem(error));
    }
    setBusy(false);
  };
  const act = async (reason: string) => {
    await call("PUT", clusterPath(name), { body: { spec: draft, reason } });
    say(`${name} is being updated`);
    reload();
    onClose();
  };
  if (plan) {
    return (
      <Confirm title={`Update ${name}?`} verb="Update the cluster" reason="asked" act={act} onClose={() => setPlan(null)}>
        {plan.changes?.length ? (
          <div>
            <h3>What changes</h3>
            <ul class="plan">{items(plan.changes)}</ul>
          </div>
        ) : (
          <p>Nothing changes; what does not run is started.</p>
        )}
        <div>
          <h3>Steps</h3>
          <ol class="plan">{items(plan.steps?.map(({ title }) => title) ?? [])}</ol>
        </div>
        <p class="soft">Running jobs go on. Whoever asks for jobs waits for slurmctld for about 2 s where its configuration changes.</p>
      </Confirm>
    );
  }
  return (
    <Dialog title={`Specification of ${name}`} wide onClose={onClose}>
      <form class="spec-form" onSubmit={(event) => void ask(event)}>
        <Numbered label="Specification as YAML" text={draft} wrong={refused?.line ?? null} onText={write} />
        {refused && <ProblemNote problem={refused} />}
        <div class="row confirm-buttons">
          <button type="button" onClick={onClose}>
            Leave it
          </button>
          <button class="primary" disabled={busy}>
            {busy ? "Asking…" : "Show the plan"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const items = (lines: readonly string[]) => lines.map((line) => <li key={line}>{line}</li>);
