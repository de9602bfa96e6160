/** Flags above a chart: one for each event, or for several that begin at nearly the same place; a click leads to the event. */

import type { RunEvent } from "../api";
import { Menu } from "../parts/menu";
import { Sign } from "../parts/sign";
import { isSure, severityOf } from "../state/events";
import { href } from "../state/place";
import { eventPlace } from "../state/url";
import { count, eventWord } from "../words";
import { flags, type Flag, type Mark } from "./marks";
import type { Range } from "./ticks";

/** An event in one line. */
export function EventLine({ event }: { event: RunEvent }) {
  return (
    <li class="event-line">
      <Sign severity={severityOf(event)} sure={isSure(event)} />
      <span>
        <b>{eventWord(event.type)}</b> {event.title}
        {!isSure(event) && <i class="faint"> suspected</i>}
      </span>
    </li>
  );
}

interface Props {
  marks: readonly Mark[];
  range: Range;
  whole: boolean;
  frame: { left: number; width: number };
}

export function Flags({ marks, range, whole, frame }: Props) {
  if (!frame.width) return null;
  return (
    <ul class="flags" aria-label="Events">
      {flags(marks, { range, whole, width: frame.width }).map((flag) => (
        <li key={flag.events[0]!.id} style={{ left: `${frame.left + flag.at * frame.width}px` }}>
          {flag.events.length === 1 ? <Single event={flag.events[0]!} /> : <Several flag={flag} />}
        </li>
      ))}
    </ul>
  );
}

const linkOf = (event: RunEvent): string => href(eventPlace(event.run ?? "", event.id));

/** Flags are left out of the order of focus, which they would fill: the tab of events holds the same links. */
function Single({ event }: { event: RunEvent }) {
  return (
    <a class="flag" data-event={event.type} href={linkOf(event)} title={said(event)} aria-label={said(event)} tabIndex={-1}>
      <Sign severity={severityOf(event)} sure={isSure(event)} />
    </a>
  );
}

function Several({ flag }: { flag: Flag }) {
  const title = `${count(flag.events.length, "event")}: ${[...new Set(flag.events.map(({ type }) => eventWord(type)))].join(", ")}`;
  const button = (
    <>
      <Sign severity={flag.severity} sure={flag.sure} />
      <span class="flag-count">{flag.events.length}</span>
    </>
  );
  return (
    <Menu label={title} class="flag quiet" button={button}>
      {(close) =>
        flag.events.map((event) => (
          <a key={event.id} class="button quiet" href={linkOf(event)} onClick={close}>
            <Sign severity={severityOf(event)} sure={isSure(event)} />
            <span class="clip">{said(event)}</span>
          </a>
        ))
      }
    </Menu>
  );
}

const said = (event: RunEvent): string => `${eventWord(event.type)}${isSure(event) ? "" : " (suspected)"}${event.title ? `: ${event.title}` : ""}`;
