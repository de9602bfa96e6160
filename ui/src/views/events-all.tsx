/** What happened to all runs, newest first, live. */

import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { useFleetEvents } from "../state/events";
import { adjust } from "../state/place";
import { type EventsPlace, SPAN_WORDS, SPANS } from "../state/url";
import { count } from "../words";
import { EventBar, TYPES } from "./event-bar";
import { EventTable } from "./event-table";
import "./events.css";

export function AllEventsView({ place }: { place: EventsPlace }) {
  const { project, since, type, certainty, severity } = place;
  const { items, problem, loading, more, reload } = useFleetEvents({ project, since, type, certainty, severity });
  return (
    <main class="all-events">
      <div class="row wrap">
        <h1>Events</h1>
        <span class="faint small number">{items.length > 0 && `${count(items.length, "event")}${more ? " and more" : ""}`}</span>
        <span class="grow" />
        <EventBar choice={place} types={TYPES} />
        <label class="row small soft">
          Last
          <select value={since} onChange={(event) => adjust({ since: event.currentTarget.value as EventsPlace["since"] })}>
            {SPANS.map((span) => (
              <option key={span} value={span}>
                {SPAN_WORDS[span]}
              </option>
            ))}
          </select>
        </label>
      </div>
      {problem && <ProblemNote problem={problem} retry={reload} />}
      {items.length ? <EventTable events={items} fleet more={loading || problem ? null : more} /> : loading ? <Skeleton lines={10} /> : !problem && <Nothing place={place} />}
    </main>
  );
}

function Nothing({ place: { type, certainty, severity, since } }: { place: EventsPlace }) {
  const some = type || certainty || severity;
  return (
    <Empty title={some ? "No event is like that" : "Nothing happened"}>
      <p>{some ? `Of the last ${SPAN_WORDS[since]}, that is.` : `No detector has seen anything in the runs of the last ${SPAN_WORDS[since]}.`}</p>
      {some && <button onClick={() => adjust({ type: "", certainty: "", severity: "" })}>Show all</button>}
    </Empty>
  );
}
