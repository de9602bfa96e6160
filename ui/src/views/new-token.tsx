/** The form that makes a token. */

import { useState } from "preact/hooks";
import type { NewToken, Problem, Project } from "../api";
import { ProblemNote } from "../parts/notice";
import { asProblem } from "../state/load";

const KINDS = ["ingest", "viewer", "editor", "admin"] as const;
const DAY_S = 86400;
const LIVES: [string, number | null][] = [
  ["never expires", null],
  ["for a day", DAY_S],
  ["for 30 days", 30 * DAY_S],
  ["for a year", 365 * DAY_S],
];

interface Props {
  projects: Project[];
  create(token: NewToken): Promise<void>;
}

export function NewTokenForm({ projects, create }: Props) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    try {
      await create(tokenOf(new FormData(form)));
      form.reset();
      setProblem(null);
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <form class="row wrap new-token" onSubmit={(event) => void submit(event)}>
      <input name="name" placeholder="Name of a new token" aria-label="Name" required />
      <select name="kind" aria-label="Kind">
        {KINDS.map((kind) => (
          <option key={kind}>{kind}</option>
        ))}
      </select>
      <select name="project" aria-label="Project">
        <option value="">all projects</option>
        {projects.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <select name="life" aria-label="Expiry">
        {LIVES.map(([name, seconds]) => (
          <option key={name} value={seconds ?? ""}>
            {name}
          </option>
        ))}
      </select>
      <button class="primary">Create</button>
      {problem && <ProblemNote problem={problem} />}
    </form>
  );
}

function tokenOf(form: FormData): NewToken {
  const text = (name: string) => String(form.get(name) ?? "");
  return {
    name: text("name"),
    kind: KINDS.find((kind) => kind === text("kind")) ?? "viewer",
    projects: text("project") ? [text("project")] : null,
    expires_in_s: text("life") ? Number(text("life")) : null,
  };
}
