/** Events in a table, of which only the rows in view are mounted; j, k and Enter move and open. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Run, RunEvent } from "../api";
import { useKeys } from "../keys";
import { Sign } from "../parts/sign";
import { reveal, rowsInView, useView } from "../parts/windowed";
import { isSure, lastedOf, severityOf, whereOf } from "../state/events";
import { now } from "../state/now";
import { go, href } from "../state/place";
import { eventPlace, runPlace } from "../state/url";
import { ago, eventWord, moment, step } from "../words";

const ROW = 33;
const WIDTHS: Record<string, number> = { Event: 180, Run: 150, "What was seen": 360, Where: 160, Certainty: 100, Attempt: 80, Step: 90, Began: 110, Lasted: 110 };
const RIGHT: ReadonlySet<string> = new Set(["Attempt", "Step"]);

interface Props {
  events: readonly RunEvent[];
  /** Whether they are of several runs. */
  fleet: boolean;
  /** Of the run, where they are of one. */
  attempts?: Run["attempts"];
  /** Called when the last rows come into view. */
  more?: (() => void) | null;
}

export function EventTable({ events, fleet, attempts, more }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const [current, choose] = useState<string | null>(null);
  const [first, end] = rowsInView(view, ROW, events.length);
  const heads = Object.keys(WIDTHS).filter((head) => fleet || head !== "Run");
  const at = events.findIndex(({ id }) => id === current);
  const move = (by: number) => choose(events[Math.min(events.length - 1, Math.max(0, at + by))]?.id ?? null);
  useKeys({ j: () => move(1), k: () => move(-1), Enter: () => at >= 0 && go(placeOf(events[at]!)) });
  useLayoutEffect(() => reveal(box.current!, at, ROW), [at]);
  useLayoutEffect(() => {
    if (end >= events.length) more?.();
  }, [end, events.length, !more]);
  return (
    <div ref={box} class="table-box boxed" tabIndex={0} role="region" aria-label="Events">
      <table class="run-table event-table" style={{ minWidth: `${heads.reduce((sum, head) => sum + WIDTHS[head]!, 0)}px` }} aria-rowcount={events.length + 1}>
        <colgroup>
          {heads.map((head) => (
            <col key={head} style={{ width: `${WIDTHS[head]}px` }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {heads.map((head) => (
              <th key={head} scope="col" class={RIGHT.has(head) ? "right" : ""}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr aria-hidden="true" style={{ height: `${first * ROW}px` }} />
          {events.slice(first, end).map((event, i) => (
            <Row key={event.id} event={event} fleet={fleet} lasted={lastedOf(event, attempts)} index={first + i} current={event.id === current} />
          ))}
          <tr aria-hidden="true" style={{ height: `${(events.length - end) * ROW}px` }} />
        </tbody>
      </table>
    </div>
  );
}

const placeOf = (event: RunEvent) => eventPlace(event.run ?? "", event.id);

function Row({ event, fleet, lasted, index, current }: { event: RunEvent; fleet: boolean; lasted: string; index: number; current: boolean }) {
  const open = (click: MouseEvent) => {
    if (!(click.target as Element).closest("a, button") && !getSelection()?.toString()) go(placeOf(event));
  };
  const who = whereOf(event);
  return (
    <tr aria-rowindex={index + 2} data-event={event.type} class={`${current ? "current" : ""} ${isSure(event) ? "" : "unsure"}`} onClick={open}>
      <th scope="row">
        <a class="row" href={href(placeOf(event))}>
          <Sign severity={severityOf(event)} sure={isSure(event)} />
          <span class="clip">{eventWord(event.type)}</span>
          <span class="out-of-sight">{event.severity}</span>
        </a>
      </th>
      {fleet && (
        <td>
          <a href={href(runPlace(event.run ?? ""))}>{event.run_name ?? event.run}</a>
        </td>
      )}
      <td title={event.title}>{event.title}</td>
      <td title={who}>{who}</td>
      <td>{event.certainty ?? ""}</td>
      <td class="right">{event.attempt ?? ""}</td>
      <td class="right">{event.step === null ? "" : step(event.step)}</td>
      <td title={moment(event.started_at)}>{ago(event.started_at, now.value)}</td>
      <td>{lasted}</td>
    </tr>
  );
}
