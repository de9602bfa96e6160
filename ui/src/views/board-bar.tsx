/** The bar above the charts: which metrics, over what, drawn how. It only writes the place. */

import { useRef } from "preact/hooks";
import type { Series } from "../api";
import { zoomOf } from "../charts/card";
import { sayX } from "../charts/tooltip";
import { useKeys } from "../keys";
import { Glyph } from "../parts/glyph";
import { adjust } from "../state/place";
import { type Axis, type Look, type RunPlace, type Split } from "../state/url";
import { count } from "../words";

interface Props {
  place: Look & Pick<RunPlace, "match">;
  axis: Axis;
  system: boolean;
  /** Whether a line a rank or device is offered. */
  splits?: boolean;
  all: Series[];
  shown: number;
  /** How many events there are to mark. */
  events: number;
  wrong: string | null;
}

const NAMES: Record<Axis, string> = { step: "Step", time: "Time", relative: "Relative" };

export function BoardBar({ place, axis, system, splits = true, all, shown, events, wrong }: Props) {
  const search = useRef<HTMLInputElement>(null);
  const zoom = zoomOf(place);
  useKeys({
    "/": () => search.current?.focus(),
    l: () => adjust({ log: !place.log }),
    b: () => adjust({ band: !place.band }),
    e: () => adjust({ marks: !place.marks }),
    "0": () => adjust({ from: null, to: null }),
  });
  return (
    <div class="board-bar" role="toolbar" aria-label="Charts">
      <label class="search">
        <Glyph name="search" />
        <input
          ref={search}
          type="search"
          placeholder="Metrics by regex"
          aria-label="Show metrics that match this regular expression"
          aria-invalid={wrong !== null}
          value={place.match}
          onInput={(event) => adjust({ match: event.currentTarget.value })}
        />
      </label>
      <span class="faint small number">{shown === all.length ? count(all.length, "metric") : `${shown} of ${all.length}`}</span>
      <Segments axis={axis} system={system} />
      <label class="small soft" title="Debiased exponential moving average: weight of the past">
        Smooth
        <input type="range" min="0" max="0.99" step="0.01" value={place.smooth} aria-label="Smoothing" onInput={(event) => adjust({ smooth: event.currentTarget.valueAsNumber })} />
        <output class="number">{place.smooth.toFixed(2)}</output>
      </label>
      <button aria-pressed={place.log} onClick={() => adjust({ log: !place.log })}>
        Log
      </button>
      <button aria-pressed={place.band} title="Lowest to highest value of each bucket; without it the line runs through both" onClick={() => adjust({ band: !place.band })}>
        Band
      </button>
      {events > 0 && (
        <button aria-pressed={place.marks} title="Mark what happened on the charts (e)" onClick={() => adjust({ marks: !place.marks })}>
          Events <span class="faint number">{events}</span>
        </button>
      )}
      {splits && <Splits place={place} all={all} />}
      {zoom && (
        <button class="zoomed" onClick={() => adjust({ from: null, to: null })} title="Back to the whole range (0, or double click)">
          <Glyph name="close" /> {sayX(axis, zoom[0])} – {sayX(axis, zoom[1])}
        </button>
      )}
    </div>
  );
}

function Segments({ axis, system }: { axis: Axis; system: boolean }) {
  const offered: Axis[] = system ? ["time", "relative"] : ["step", "time", "relative"];
  return (
    <div class="segments" role="group" aria-label="X axis">
      {offered.map((name) => (
        <button key={name} aria-pressed={axis === name} onClick={() => adjust({ x: name, from: null, to: null })}>
          {NAMES[name]}
        </button>
      ))}
    </div>
  );
}

/** One line over all, or one a rank or device: offered where there is more than one. */
function Splits({ place, all }: { place: Look; all: Series[] }) {
  const several = (pick: (series: Series) => number[]) => all.some((series) => pick(series).length > 1);
  const offered: [Split, string][] = [["none", "Together"]];
  if (several((series) => series.ranks) || place.by === "rank") offered.push(["rank", "By rank"]);
  if (several((series) => series.devices) || place.by === "device") offered.push(["device", "By device"]);
  if (offered.length === 1) return null;
  return (
    <div class="segments" role="group" aria-label="Lines">
      {offered.map(([by, name]) => (
        <button key={by} aria-pressed={place.by === by} onClick={() => adjust({ by })}>
          {name}
        </button>
      ))}
    </div>
  );
}
