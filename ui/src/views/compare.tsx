/** Several runs side by side: what they are and where their configurations differ, and every metric of theirs on one chart. */

import { useMemo } from "preact/hooks";
import type { Run } from "../api";
import { CARD_HEIGHT, groups, matcher } from "../charts/board";
import { ComparedCard } from "../charts/card";
import type { Member } from "../charts/compare";
import { palette } from "../charts/palette";
import { Chip } from "../parts/chip";
import { copy } from "../parts/copy";
import { Glyph } from "../parts/glyph";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { type Compared, members, said, settings, useCompared } from "../state/compared";
import type { Leaves } from "../state/configs";
import { now } from "../state/now";
import { adjust, href } from "../state/place";
import { dark } from "../state/theme";
import { type ComparePlace, runPlace, runsPlace } from "../state/url";
import { count, step } from "../words";
import { axisOf, Full, Grid } from "./board";
import { BoardBar } from "./board-bar";
import { sayDuration } from "./columns";
import "./compare.css";

/** More columns than this nobody reads side by side. */
const MOST_SETTINGS = 60;
/** Dashes take over where the hues begin again. */
const HUES = 8;

export function CompareView({ place }: { place: ComparePlace }) {
  const ids = [...new Set(place.run)];
  const { value, problem, reload } = useCompared(ids);
  if (ids.length < 2) return <TooFew />;
  return (
    <main class="compare">
      <div class="row wrap">
        <h1 class="grow">{count(ids.length, "run")} compared</h1>
        <button onClick={() => void copy(location.href, "Link copied")}>
          <Glyph name="link" /> Copy link
        </button>
      </div>
      {value ? <Content place={place} found={value} /> : problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={12} />}
    </main>
  );
}

function TooFew() {
  return (
    <main class="compare">
      <Empty title="Two runs or more are compared">
        <p>Tick them in the table of runs, then press Compare.</p>
        <a class="button" href={href(runsPlace())}>
          Runs
        </a>
      </Empty>
    </main>
  );
}

function Content({ place, found }: { place: ComparePlace; found: Compared }) {
  const { runs, configs, missing } = found;
  const drawn = useMemo(() => members(runs, place.group, configs), [found, place.group]);
  const { differing, same } = useMemo(() => settings(runs, configs), [found]);
  const told = [...differing, ...(place.same ? same : [])];
  return (
    <>
      {missing.length > 0 && <p class="warn-ink">{`${count(missing.length, "run")} of the link not found: ${missing.join(" ")}`}</p>}
      <RunsTable {...{ place, runs, drawn, configs }} settings={told.slice(0, MOST_SETTINGS)} />
      <p class="row wrap small soft">
        {differing.length ? "Click a setting to draw the runs that share it as one line, with a band from their lowest to their highest." : "Their configurations are the same."}
        {told.length > MOST_SETTINGS && `The first ${MOST_SETTINGS} of ${count(told.length, "setting")} are shown.`}
        {same.length > 0 && (
          <button aria-pressed={place.same} onClick={() => adjust({ same: !place.same })}>
            {count(same.length, "setting")} alike
          </button>
        )}
      </p>
      <Charts {...{ place, found, drawn }} />
    </>
  );
}

function Charts({ place, found, drawn }: { place: ComparePlace; found: Compared; drawn: Member[] }) {
  const match = useMemo(() => matcher(place.match), [place.match]);
  const axis = axisOf(place, false);
  const wrong = typeof match === "string" ? match : null;
  const fitting = typeof match === "string" ? [] : groups(found.series, match, place.pin, "");
  const shown = new Set(fitting.flatMap(({ series }) => series)).size;
  const full = found.series.find(({ metric }) => metric === place.card);
  const shared = { run: "compare", axis, look: place, members: drawn, live: found.live };
  if (!found.series.length) return <Empty title="None of these runs has logged a metric yet" />;
  return (
    <>
      <BoardBar events={0} splits={false} system={false} {...{ place, axis, shown, wrong }} all={found.series} />
      {shown ? (
        <Grid groups={fitting}>
          {(series, width) => <ComparedCard key={series.metric} {...shared} series={series} width={width} height={CARD_HEIGHT} />}
        </Grid>
      ) : (
        <Empty title={wrong === null ? "No metric matches" : "The pattern is not complete"}>
          {wrong !== null && <p>{wrong}</p>}
          <button onClick={() => adjust({ match: "" })}>Show all</button>
        </Empty>
      )}
      {full && (
        <Full series={full} place={place}>
          {(width, height) => <ComparedCard full {...shared} series={full} width={width} height={height} />}
        </Full>
      )}
    </>
  );
}

interface TableProps {
  place: ComparePlace;
  runs: Run[];
  drawn: Member[];
  configs: ReadonlyMap<string, Leaves>;
  settings: string[];
}

function RunsTable({ place, runs, drawn, configs, settings }: TableProps) {
  const colours = palette(dark.value);
  return (
    <div class="compared" tabIndex={0} role="region" aria-label="Compared runs">
      <table>
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">State</th>
            <th scope="col" class="right">
              Step
            </th>
            <th scope="col" class="right">
              Duration
            </th>
            {settings.map((path) => (
              <th key={path} scope="col">
                <button class="quiet" title={path} aria-pressed={place.group === path} onClick={() => adjust({ group: place.group === path ? "" : path })}>
                  <span class="clip">{path}</span>
                </button>
              </th>
            ))}
            <th scope="col">
              <span class="out-of-sight">Remove</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run, i) => (
            <tr key={run.id} data-run={run.id}>
              <th scope="row">
                <i class={drawn[i]!.hue % (2 * HUES) >= HUES ? "swatch dashed" : "swatch"} style={{ color: colours.hues[drawn[i]!.hue % HUES]! }} />
                <a class="clip" href={href(runPlace(run.id))} title={run.name}>
                  <bdi>{run.name}</bdi>
                </a>
              </th>
              <td>
                <Chip state={run.state} title={run.state_reason} />
              </td>
              <td class="right number">{step(run.step)}</td>
              <td class="right number">{sayDuration(run, now.value)}</td>
              {settings.map((path) => (
                <td key={path} class="clip mono" title={said(configs.get(run.id), path)}>
                  {said(configs.get(run.id), path)}
                </td>
              ))}
              <td>
                <button class="quiet icon" aria-label={`Leave ${run.name} out`} title="Leave out" onClick={() => adjust({ run: place.run.filter((id) => id !== run.id) })}>
                  <Glyph name="close" />
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
