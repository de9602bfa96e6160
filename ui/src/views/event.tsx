/** One event of a run, with its diagnosis and what belongs to it; without an event, the run's newest diagnosis. */

import type { ComponentChildren } from "preact";
import { get, type Run, type RunEvent, runPath } from "../api";
import { useKeys } from "../keys";
import { Chip } from "../parts/chip";
import { Glyph } from "../parts/glyph";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { Sign } from "../parts/sign";
import { chartPlace, useDiagnosis, windowOf } from "../state/diagnosis";
import { isSure, lastedOf, severityOf, useRunEvents, whereOf } from "../state/events";
import { useLoad } from "../state/load";
import { now } from "../state/now";
import { go, href } from "../state/place";
import { useCalled } from "../state/called";
import { useRun } from "../state/run";
import { type EventPlace, eventPlace, runPlace, runsPlace } from "../state/url";
import { ago, brief, duration, eventWord, moment, step } from "../words";
import { DiagnosisView } from "./diagnosis";
import "../parts/facts.css";
import "./events.css";

export function EventView({ place }: { place: EventPlace }) {
  const { value: run, problem, reload } = useRun(place.run);
  useCalled(place.run, run);
  useKeys({ u: () => go(runPlace(place.run, { tab: "events" })) });
  if (!run) return <main class="event">{problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={12} />}</main>;
  return (
    <main class="event">
      <nav class="row wrap" aria-label="Where this belongs">
        <a class="faint" href={href(runsPlace({ project: run.project }))}>
          {run.project}
        </a>
        <span class="faint">/</span>
        <a href={href(runPlace(run.id))}>
          <bdi>{run.name}</bdi>
        </a>
        <Chip state={run.state} />
        <span class="faint">/</span>
        <a href={href(runPlace(run.id, { tab: "events" }))}>Events</a>
      </nav>
      {place.event === null ? (
        <>
          <h1>Diagnosis</h1>
          <Diagnosis run={run} event={null} />
        </>
      ) : (
        <One run={run} id={place.event} />
      )}
    </main>
  );
}

function One({ run, id }: { run: Run; id: string }) {
  const { value: all } = useRunEvents(run.id);
  const alone = useLoad(`${run.id}/${id}`, (signal) => get<RunEvent>(runPath(run.id, `/events/${encodeURIComponent(id)}`), { signal }));
  const event = all?.find((one) => one.id === id) ?? alone.value;
  if (!event) {
    if (!alone.problem) return <Skeleton lines={8} />;
    return alone.problem.status === 404 ? <Empty title="No such event">It may have been judged anew since.</Empty> : <ProblemNote problem={alone.problem} retry={alone.reload} />;
  }
  const related = (all ?? []).filter((one) => one.id === event.data.follows || one.data.follows === event.id);
  return (
    <>
      <Head event={event} />
      <Facts run={run} event={event} />
      {related.length > 0 && (
        <ul class="related" aria-label="Events that belong to it">
          {related.map((one) => (
            <li key={one.id} class="row">
              <span class="soft">{one.id === event.data.follows ? "Follows" : "Led to"}</span>
              <Sign severity={severityOf(one)} sure={isSure(one)} />
              <a href={href(eventPlace(run.id, one.id))}>
                <b>{eventWord(one.type)}</b> {one.title}
              </a>
            </li>
          ))}
        </ul>
      )}
      <Diagnosis run={run} event={id} />
    </>
  );
}

function Head({ event }: { event: RunEvent }) {
  const severity = severityOf(event);
  return (
    <header class="event-head">
      <h1 class="row">
        <Sign severity={severity} sure={isSure(event)} />
        {eventWord(event.type)}
        <span class={`chip ${{ critical: "bad", warning: "warn", info: "live" }[severity]}`}>{event.severity ?? "reported"}</span>
        {event.certainty && <span class={`chip ${event.certainty === "confirmed" ? "good" : "mute"}`}>{event.certainty}</span>}
      </h1>
      <p>{event.title}</p>
    </header>
  );
}

/** Figures that are shown elsewhere on the page. */
const SHOWN: ReadonlySet<string> = new Set(["follows", "certainty", "detector", "line", "number", "source"]);

function Facts({ run, event }: { run: Run; event: RunEvent }) {
  const [from, to] = windowOf(event, run.attempts, now.value);
  const delay = event.detected_at ? (Date.parse(event.detected_at) - Date.parse(event.started_at)) / 1000 : NaN;
  const facts: [string, ComponentChildren, string?][] = [
    ["Began", ago(event.started_at, now.value), moment(event.started_at)],
    ["Lasted", lastedOf(event, run.attempts), moment(event.ended_at)],
    ["Attempt", event.attempt ?? "–"],
    ["Step", step(event.step)],
    ["Where", whereOf(event) || "not localised"],
    ["Seen", Number.isFinite(delay) ? delay < 1 ? "at once" : `${duration(delay)} later` : "–", moment(event.detected_at)],
    ["By", event.detector ?? "the run itself"],
  ];
  const figures = Object.entries(event.data).filter(([name]) => !SHOWN.has(name));
  const { source, number } = event.data;
  const stream = typeof source === "string" && source.startsWith("log:") ? source.slice(4) : undefined;
  const line = typeof event.data.line === "string" ? event.data.line : null;
  const metric = typeof event.data.metric === "string" ? event.data.metric : null;
  return (
    <>
      <dl class="facts">
        {facts.map(([name, value, title]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="number clip" title={title}>
              {value}
            </dd>
          </div>
        ))}
      </dl>
      {line && line !== event.title && <pre class="event-words">{line}</pre>}
      <div class="row wrap">
        <a class="button" href={href(chartPlace(run.id, metric, from, to))}>
          <Glyph name="full" /> Charts around it
        </a>
        <a class="button" href={href({ ...chartPlace(run.id, null, from, to), tab: "system" })}>
          System around it
        </a>
        {stream !== undefined && typeof number === "number" && (
          <a class="button" href={href(runPlace(run.id, { tab: "logs", stream, line: number }))}>
            The line in the output
          </a>
        )}
      </div>
      {figures.length > 0 && (
        <details class="figures">
          <summary class="soft">Figures of the detector</summary>
          <dl class="pairs">
            {figures.map(([name, value]) => (
              <div key={name}>
                <dt>
                  <code>{name}</code>
                </dt>
                <dd class="number">{typeof value === "number" ? brief(value) : typeof value === "string" ? value : JSON.stringify(value)}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </>
  );
}

function Diagnosis({ run, event }: { run: Run; event: string | null }) {
  const { value: found, problem, reload } = useDiagnosis(run, event);
  if (!found) return problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={6} />;
  const { diagnosis } = found;
  if (!diagnosis) {
    return (
      <Empty title="No diagnosis yet">
        <p>One is made some seconds after an event is confirmed, and after an attempt has ended badly.</p>
      </Empty>
    );
  }
  return (
    <>
      {event !== null && diagnosis.event !== event && <p class="soft small">None was made for this event alone: this is the newest one of the run.</p>}
      <DiagnosisView run={run.id} found={{ ...found, diagnosis }} />
    </>
  );
}
