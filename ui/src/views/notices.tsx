/** Who is told of events, what was told lately, and what is not told for a while. */

import { useState } from "preact/hooks";
import { call, get, type KnownRoute, type NewSilence, type Notice, type Problem, type Project, type Silence } from "../api";
import { type Tone, ToneChip } from "../parts/chip";
import { ProblemNote, say, Skeleton } from "../parts/notice";
import { PlainTable } from "../parts/plain-table";
import { asProblem, useLoad } from "../state/load";
import { now } from "../state/now";
import { mayAdminister, mayEdit } from "../state/session";
import { ago, duration, eventWord, moment } from "../words";
import { TYPES } from "./event-bar";

const STATES: Record<Notice["state"], Tone> = { waiting: "live", sent: "good", failed: "bad", silenced: "mute" };
const HOUR_S = 3600;
const LONG: [string, number][] = [
  ["for an hour", HOUR_S],
  ["for 8 hours", 8 * HOUR_S],
  ["for a day", 24 * HOUR_S],
  ["for a week", 168 * HOUR_S],
];

export function Notices() {
  return (
    <>
      {mayAdminister() && (
        <section aria-label="Notices">
          <h2>Notices</h2>
          <p class="soft">
            Confirmed events and bad ends are told by these routes. They are made in <code>notices.toml</code> in the data folder, or by <code>PUT /api/v1/notices/routes/NAME</code>.
          </p>
          <Routes />
          <Told />
        </section>
      )}
      <section aria-label="Silences">
        <h2>Silences</h2>
        <p class="soft">What is not told for a while. Events are seen and shown all the same.</p>
        <Silences />
      </section>
    </>
  );
}

function Routes() {
  const { value: routes, problem, reload } = useLoad("routes", (signal) => get<KnownRoute[]>("notices/routes", { signal }));
  const test = async (name: string) => {
    try {
      const { error } = await call<{ error: string | null }>("POST", `notices/routes/${encodeURIComponent(name)}/test`);
      say(error ? `${name}: ${error}` : `${name} has taken a test message`, error !== null);
    } catch (error) {
      say(asProblem(error).message, true);
    }
  };
  if (!routes) return problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={2} />;
  if (!routes.length) return <p>Nobody is told: there is no route.</p>;
  return (
    <PlainTable label="Routes" heads={["Route", "To", "Tells of", "From", ""]}>
      {routes.map(({ route, origin }) => (
        <tr key={route.name}>
          <th scope="row">{route.name}</th>
          <td>{route.kind === "webhook" ? route.url : (route.argv ?? []).join(" ")}</td>
          <td>{tellsOf(route)}</td>
          <td>{origin === "file" ? "notices.toml" : "the API"}</td>
          <td>
            <button class="quiet" onClick={() => void test(route.name)}>
              Test
            </button>
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}

/** What a route tells, in words. */
function tellsOf({ filter }: KnownRoute["route"]): string {
  const { projects, types, severity, states } = filter ?? { severity: "warning", states: [] };
  const events = `${types ? types.map(eventWord).join(", ") : "events"} from ${severity} on`;
  return [events, states?.length ? `ends: ${states.join(", ")}` : "", projects ? `of ${projects.join(", ")}` : ""].filter(Boolean).join("; ");
}

function Told() {
  const { value: notices, problem, reload } = useLoad("notices", (signal) => get<Notice[]>("notices", { query: { limit: 20 }, signal }));
  if (!notices) return problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={3} />;
  if (!notices.length) return null;
  return (
    <PlainTable label="Told lately" heads={["State", "Route", "Made", "What"]}>
      {notices.map(({ id, state, route, made_at, sent_at, tries, error, items = [] }) => (
        <tr key={id}>
          <td>
            <ToneChip tone={STATES[state]} word={state} title={error ?? (sent_at ? `sent ${moment(sent_at)}` : null)} />
            {error && <span class="small bad-ink"> {tries} tries</span>}
          </td>
          <td>{route}</td>
          <td title={moment(made_at)}>{ago(made_at, now.value)}</td>
          <td>
            {items.slice(0, 2).map((item) => item.title || eventWord(item.type)).join("; ")}
            {items.length > 2 && ` and ${items.length - 2} more`}
          </td>
        </tr>
      ))}
    </PlainTable>
  );
}

function Silences() {
  const { value: silences, problem, reload } = useLoad("silences", (signal) => get<Silence[]>("notices/silences", { signal }));
  const end = async ({ id }: Silence) => {
    await call("DELETE", `notices/silences/${encodeURIComponent(id)}`).catch((error: unknown) => say(asProblem(error).message, true));
    reload();
  };
  return (
    <>
      {problem && <ProblemNote problem={problem} retry={reload} />}
      {!silences && !problem && <Skeleton lines={2} />}
      {silences && silences.length > 0 && (
        <PlainTable label="Silences" heads={["Of", "For", "Reason", "By", ""]}>
          {silences.map((silence) => (
            <tr key={silence.id}>
              <th scope="row">{[silence.type && eventWord(silence.type), silence.run, silence.project && `project ${silence.project}`].filter(Boolean).join(" · ") || "everything"}</th>
              <td title={moment(silence.until)}>{duration(Math.max(0, Math.round((Date.parse(silence.until) - now.value) / 1000)))} more</td>
              <td>{silence.reason}</td>
              <td>{silence.made_by}</td>
              <td>
                {mayEdit() && (
                  <button class="quiet" onClick={() => void end(silence)}>
                    End
                  </button>
                )}
              </td>
            </tr>
          ))}
        </PlainTable>
      )}
      {silences?.length === 0 && <p>Nothing is silenced.</p>}
      {mayEdit() && <NewSilenceForm made={reload} />}
    </>
  );
}

function NewSilenceForm({ made }: { made(): void }) {
  const { value: projects } = useLoad("projects", (signal) => get<Project[]>("projects", { signal }));
  const [problem, setProblem] = useState<Problem | null>(null);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    try {
      await call<Silence>("POST", "notices/silences", { body: silenceOf(new FormData(form)) });
      form.reset();
      setProblem(null);
      made();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <form class="row wrap" aria-label="New silence" onSubmit={(event) => void submit(event)}>
      <select name="project" aria-label="Project">
        {mayAdminister() && <option value="">all projects</option>}
        {projects?.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <input name="run" placeholder="Run (all)" aria-label="Run" />
      <select name="type" aria-label="Type">
        <option value="">all types</option>
        {TYPES.map((type) => (
          <option key={type} value={type}>
            {eventWord(type)}
          </option>
        ))}
      </select>
      <select name="long" aria-label="How long">
        {LONG.map(([words, seconds]) => (
          <option key={words} value={seconds}>
            {words}
          </option>
        ))}
      </select>
      <input name="reason" placeholder="Reason" aria-label="Reason" maxLength={200} />
      <button>Silence</button>
      {problem && <ProblemNote problem={problem} />}
    </form>
  );
}

function silenceOf(form: FormData): NewSilence {
  const text = (name: string) => String(form.get(name) ?? "").trim();
  return { for_s: Number(text("long")), project: text("project") || null, run: text("run") || null, type: text("type") || null, reason: text("reason") };
}
