/** The list of runs: filter, sort, columns, selection, tags and notes in place, live. */

import { useRef, useState } from "preact/hooks";
import type { Run } from "../api";
import { useKeys } from "../keys";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { adjust, go } from "../state/place";
import { type RunList, useRuns } from "../state/runs";
import { comparePlace, runPlace, type RunsPlace } from "../state/url";
import { count } from "../words";
import { ColumnPicker } from "./column-picker";
import { columnsOf, metricsShown } from "./columns";
import { FilterBox } from "./filter";
import { NoRuns } from "./no-runs";
import { RunTable } from "./run-table";
import { SelectionBar } from "./selection";
import "./runs.css";

export function RunsView({ place }: { place: RunsPlace }) {
  const list = useRuns(place, metricsShown(place.columns));
  const { items, total, problem } = list.loaded.value;
  const [selected, select] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState(-1);
  const filter = useRef<HTMLInputElement>(null);
  const columns = columnsOf(place.columns, items);
  const toggle = (run: Run) => select((old) => (old.has(run.id) ? new Set([...old].filter((id) => id !== run.id)) : new Set([...old, run.id])));
  const current = items[cursor];
  const chosen = items.filter((run) => selected.has(run.id));
  const move = (by: number) => setCursor(Math.max(0, Math.min(items.length - 1, cursor + by)));
  useKeys({
    "/": () => filter.current?.focus(),
    j: () => move(1),
    k: () => move(cursor < 0 ? 1 : -1),
    x: () => current && toggle(current),
    Enter: () => current && go(runPlace(current.id)),
    c: () => selected.size > 1 && go(comparePlace(chosen.map(({ id }) => id))),
    Escape: () => select(new Set()),
  });
  return (
    <main class="runs">
      <div class="runs-bar">
        <h1 class="out-of-sight">Runs</h1>
        <FilterBox input={filter} place={place} problem={problem?.code === "bad_filter" ? problem : null} />
        <span class="faint small number grow" role="status">
          {total === null ? "" : count(total, "run")}
        </span>
        <ColumnPicker place={place} columns={columns} runs={items} />
      </div>
      {chosen.length > 0 && <SelectionBar chosen={chosen} list={list} clear={() => select(new Set())} />}
      <Content {...{ place, list, columns, selected, toggle, cursor }} />
    </main>
  );
}

type ContentProps = { place: RunsPlace; list: RunList } & Omit<Parameters<typeof RunTable>[0], "list" | "place">;

function Content({ place, list, ...table }: ContentProps) {
  const { items, total, problem } = list.loaded.value;
  if (problem && !items.length) {
    // A filter's error stands at the filter, where it can be mended.
    if (problem.code === "bad_filter") return <Empty title="The filter is not understood" />;
    // A project comes to be with its first run.
    if (problem.code === "no_such_project") return <NoRuns project={place.project} />;
    return <ProblemNote problem={problem} retry={() => void list.head()} />;
  }
  if (total === null) return <Skeleton lines={14} />;
  if (!total) return place.filter ? <NoMatch /> : <NoRuns project={place.project} />;
  return <RunTable {...table} place={place} list={list} />;
}

function NoMatch() {
  return (
    <Empty title="No run matches the filter">
      <button onClick={() => adjust({ filter: "" })}>Show all runs</button>
    </Empty>
  );
}
