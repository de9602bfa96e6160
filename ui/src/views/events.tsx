/** What happened to a run, newest first. */

import { useMemo } from "preact/hooks";
import { type Diagnosis, get, type Run, type RunEvent, runPath } from "../api";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { byAttempt, confidence } from "../state/diagnosis";
import { chosen } from "../state/events";
import { type Loaded, useLoad } from "../state/load";
import { adjust, href } from "../state/place";
import { eventPlace, type RunPlace } from "../state/url";
import { count } from "../words";
import { EventBar } from "./event-bar";
import { EventTable } from "./event-table";
import "./events.css";

export function Events({ run, place, events }: { run: Run; place: RunPlace; events: Loaded<RunEvent[]> }) {
  const { value: all, problem, reload } = events;
  const { type, certainty, severity } = place;
  const shown = useMemo(() => (all ?? []).filter((event) => chosen(event, { type, certainty, severity })).reverse(), [all, type, certainty, severity]);
  if (!all) return problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={8} />;
  if (!all.length) return <NoEvents />;
  return (
    <section class="events" aria-label="What happened">
      <div class="tool-bar" role="toolbar" aria-label="Events">
        <EventBar choice={place} types={[...new Set(all.map((event) => event.type))]} />
        <span class="grow" />
        <span class="faint small number">{shown.length === all.length ? count(all.length, "event") : `${shown.length} of ${all.length}`}</span>
      </div>
      {run.attempts.length > 1 && <Diagnoses run={run} />}
      {shown.length ? (
        <EventTable events={shown} fleet={false} attempts={run.attempts} />
      ) : (
        <Empty title="No event is like that">
          <button onClick={() => adjust({ type: "", certainty: "", severity: "" })}>Show all {all.length}</button>
        </Empty>
      )}
    </section>
  );
}

/** Why each attempt ended as it did: the head of the run tells of the newest alone. */
function Diagnoses({ run }: { run: Run }) {
  const { value: all } = useLoad(`${run.id}/${run.attempts.length}`, (signal) => get<Diagnosis[]>(runPath(run.id, "/diagnoses"), { signal }));
  const found = byAttempt(all ?? []);
  if (!found.length) return null;
  return (
    <ul class="diagnoses" aria-label="Diagnoses of attempts">
      {found.map(({ attempt, event, document: { causes } }) => (
        <li key={attempt} class="row">
          <span class="soft">Why attempt {attempt} ended:</span>
          <a href={href(eventPlace(run.id, event))}>{causes![0]!.summary}</a>
          <span class="faint number">{confidence(causes![0]!.confidence)}</span>
        </li>
      ))}
    </ul>
  );
}

function NoEvents() {
  return (
    <Empty title="Nothing happened">
      <p>No detector has seen anything in what this run has sent: no hang, no crash, no straggler, no loss that jumps.</p>
    </Empty>
  );
}
