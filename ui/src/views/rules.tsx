/** The rules of a project, as text: written here, read by the server, which refuses them whole at the first wrong line. */

import { useEffect, useState } from "preact/hooks";
import { call, get, type Problem, type Project, type ProjectRules } from "../api";
import { ProblemNote, say, Skeleton } from "../parts/notice";
import { Numbered } from "../parts/numbered";
import { asProblem, useLoad } from "../state/load";
import { now } from "../state/now";
import { mayEdit } from "../state/session";
import { ago, count } from "../words";

const EXAMPLE = `[[rule]]
name = "hot"
metric = "system/device/temperature"
when = "above"
threshold = 90.0
for_s = 120
severity = "critical"
`;

export function Rules() {
  const { value: projects } = useLoad("projects", (signal) => get<Project[]>("projects", { signal }));
  const [chosen, choose] = useState<string | null>(null);
  const project = chosen ?? projects?.[0]?.name;
  if (!projects?.length || project === undefined) return null;
  return (
    <section aria-label="Rules">
      <h2>Rules</h2>
      <p class="soft">A metric, what it must not do, and for how long: what breaks a rule becomes an event. Runs that are live are judged anew by a change.</p>
      <select aria-label="Project of the rules" value={project} onChange={(event) => choose(event.currentTarget.value)}>
        {projects.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <Of key={project} project={project} />
    </section>
  );
}

const path = (project: string) => `projects/${encodeURIComponent(project)}/rules`;

function Of({ project }: { project: string }) {
  const { value: kept, problem, reload } = useLoad(project, (signal) => get<ProjectRules>(path(project), { signal }));
  if (!kept) return problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={4} />;
  return <Editor project={project} kept={kept} onKept={reload} />;
}

function Editor({ project, kept, onKept }: { project: string; kept: ProjectRules; onKept(): void }) {
  const [draft, write] = useState(kept.text ?? "");
  const [refused, refuse] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => write(kept.text ?? ""), [kept.text]);
  const save = async () => {
    setBusy(true);
    try {
      const { names } = await call<ProjectRules>("PUT", path(project), { body: { text: draft } });
      refuse(null);
      say(`${count(names?.length ?? 0, "rule")} of ${project} in force`);
      onKept();
    } catch (error) {
      refuse(asProblem(error));
    }
    setBusy(false);
  };
  const changed = draft !== (kept.text ?? "");
  return (
    <>
      <Numbered label="Rules as TOML" text={draft} wrong={refused?.line ?? null} readOnly={!mayEdit()} onText={write} />
      {refused && <ProblemNote problem={refused} />}
      <div class="row wrap">
        {mayEdit() && (
          <>
            <button class="primary" disabled={!changed || busy} onClick={() => void save()}>
              Save rules
            </button>
            {changed && <button onClick={() => (write(kept.text ?? ""), refuse(null))}>Undo</button>}
            {draft === "" && <button onClick={() => write(EXAMPLE)}>Begin with an example</button>}
          </>
        )}
        <span class="faint small">
          {count(kept.names?.length ?? 0, "rule")} in force
          {kept.changed_at && `, changed ${ago(kept.changed_at, now.value)} by ${kept.changed_by}`}
        </span>
      </div>
    </>
  );
}
