/** The projects, and how long each keeps the runs that have ended; an admin may change it, and is told first what goes. */

import { useState } from "preact/hooks";
import { call, get, type Project, type ProjectChange } from "../api";
import { Dialog } from "../parts/dialog";
import { ProblemNote, say, Skeleton } from "../parts/notice";
import { PlainTable } from "../parts/plain-table";
import { asProblem, useLoad } from "../state/load";
import { now } from "../state/now";
import { session } from "../state/session";
import { ago, count, duration, moment } from "../words";

const DAY_S = 86400;
const KEPT: [string, number | null][] = [
  ["for ever", null],
  ["7 days", 7 * DAY_S],
  ["30 days", 30 * DAY_S],
  ["90 days", 90 * DAY_S],
  ["a year", 365 * DAY_S],
];

const path = (name: string) => `projects/${encodeURIComponent(name)}`;
const patch = (name: string, change: ProjectChange, dry: boolean) => call<Project>("PATCH", `${path(name)}${dry ? "?dry_run=1" : ""}`, { body: change });

export function Projects() {
  const { value: projects, problem, reload } = useLoad("projects", (signal) => get<Project[]>("projects", { signal }));
  const [asked, ask] = useState<Project | null>(null);
  const look = (name: string, retention_s: number | null) => {
    patch(name, { retention_s }, true).then(ask, (error: unknown) => say(asProblem(error).message, true));
  };
  const change = async ({ name, retention_s }: Project) => {
    ask(null);
    await patch(name, { retention_s: retention_s ?? null }, false).catch((error: unknown) => say(asProblem(error).message, true));
    reload();
  };
  return (
    <section>
      <h2>Projects</h2>
      <p class="soft">A project keeps the runs that have ended for ever, or deletes them some time after their end, with all that they wrote.</p>
      {problem && <ProblemNote problem={problem} retry={reload} />}
      {!projects && !problem && <Skeleton lines={2} />}
      {projects && <ProjectTable projects={projects} look={look} />}
      {asked && (
        <Dialog title={`Keep ended runs of ${asked.name} ${kept(asked)}?`} onClose={() => ask(null)}>
          <p>{asked.expired ? `This deletes ${count(asked.expired, "run")} within minutes. It cannot be undone.` : "This deletes nothing now."}</p>
          <div class="row">
            <button class={asked.expired ? "danger" : "primary"} onClick={() => void change(asked)}>
              {asked.expired ? `Delete ${count(asked.expired, "run")}` : "Set"}
            </button>
            <button onClick={() => ask(null)}>Leave it</button>
          </div>
        </Dialog>
      )}
    </section>
  );
}

function ProjectTable({ projects, look }: { projects: Project[]; look(name: string, retention_s: number | null): void }) {
  return (
    <PlainTable label="Projects" heads={["Name", "Runs", "Live", "Created", "Keeps ended runs"]}>
      {projects.map((project) => (
        <tr key={project.name} data-project={project.name}>
          <th scope="row">{project.name}</th>
          <td>{project.runs}</td>
          <td>{project.live}</td>
          <td title={moment(project.created_at)}>{ago(project.created_at, now.value)}</td>
          <td>{session.value?.kind === "admin" ? <Choice project={project} look={look} /> : kept(project)}</td>
        </tr>
      ))}
    </PlainTable>
  );
}

function Choice({ project, look }: { project: Project; look(name: string, retention_s: number | null): void }) {
  const current = project.retention_s ?? null;
  const choices = KEPT.some(([, seconds]) => seconds === current) ? KEPT : [...KEPT, [kept(project), current] as const];
  const chosen = (select: HTMLSelectElement) => {
    look(project.name, select.value ? Number(select.value) : null);
    // What is shown is what holds, until the server says otherwise.
    select.value = String(current ?? "");
  };
  return (
    <select aria-label={`How long ${project.name} keeps ended runs`} value={String(current ?? "")} onChange={(event) => chosen(event.currentTarget)}>
      {choices.map(([words, seconds]) => (
        <option key={words} value={seconds ?? ""}>
          {words}
        </option>
      ))}
    </select>
  );
}

function kept({ retention_s }: Project): string {
  const named = KEPT.find(([, seconds]) => seconds === (retention_s ?? null));
  return named ? named[0] : duration(retention_s ?? 0);
}
