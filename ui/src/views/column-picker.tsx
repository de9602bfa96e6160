/** Which columns the runs table shows: the run's own, metrics, leaves of the configuration. */

import { useState } from "preact/hooks";
import { get, type Run, type RunConfig, runPath, type Series } from "../api";
import { Glyph } from "../parts/glyph";
import { Menu } from "../parts/menu";
import { type Json, quoted, rows } from "../state/leaves";
import { useLoad } from "../state/load";
import { adjust } from "../state/place";
import type { RunsPlace } from "../state/url";
import { count, middle } from "../words";
import { BUILT_IN, type Column, metricsOf } from "./columns";

const MOST = 60;

interface Props {
  place: RunsPlace;
  columns: Column[];
  runs: Run[];
}

export function ColumnPicker({ place, columns, runs }: Props) {
  return (
    <Menu
      label="Columns"
      class=""
      button={
        <>
          <Glyph name="columns" /> Columns
        </>
      }
    >
      {() => <Choices {...{ place, columns, runs }} />}
    </Menu>
  );
}

function Choices({ place, columns, runs }: Props) {
  const [search, setSearch] = useState("");
  const newest = runs[0];
  const { value: config } = useLoad(newest?.id ?? null, (signal) => get<RunConfig>(runPath(newest!.id, "/config"), { signal }));
  const { value: series } = useLoad(newest?.id ?? null, (signal) => get<Series[]>(runPath(newest!.id, "/series"), { signal }));
  const metrics = [...new Set([...metricsOf(runs), ...(series ?? []).map(({ metric }) => metric)])].sort();
  const ids = columns.map((column) => column.id);
  const toggle = (id: string) => adjust({ columns: ids.includes(id) ? ids.filter((one) => one !== id) : [...ids, id] });
  const leaves = rows((config?.user ?? {}) as Json).filter((row) => row.children === null);
  const sections: [string, { id: string; title: string }[]][] = [
    ["Run", [...BUILT_IN]],
    ["Latest metrics", metrics.map((title) => ({ id: `metric:${title}`, title }))],
    ["Configuration of the newest run", leaves.map(({ path }) => ({ id: `config:${path.map(dotless).join(".")}`, title: path.join(".") }))],
  ];
  return (
    <>
      <input type="search" placeholder="Find a column" aria-label="Find a column" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      {sections.map(([title, options]) => (
        <Section key={title} title={title} options={options.filter((option) => option.title.toLowerCase().includes(search.toLowerCase()))} {...{ ids, toggle }} />
      ))}
      {place.columns.length > 0 && (
        <>
          <hr />
          <button onClick={() => adjust({ columns: [] })}>Default columns</button>
        </>
      )}
    </>
  );
}

/** A key with a dot in it is quoted, so that the path says one thing only. */
const dotless = (part: string): string => (part.includes(".") ? quoted(part) : part);

interface SectionProps {
  title: string;
  options: { id: string; title: string }[];
  ids: string[];
  toggle(id: string): void;
}

function Section({ title, options, ids, toggle }: SectionProps) {
  if (!options.length) return null;
  return (
    <>
      <h3>{title}</h3>
      {options.slice(0, MOST).map((option) => (
        <label key={option.id} class="choice" title={option.title}>
          <input type="checkbox" checked={ids.includes(option.id)} onChange={() => toggle(option.id)} />
          <span class="clip">{middle(option.title, 60)}</span>
        </label>
      ))}
      {options.length > MOST && <p class="faint small choice">{count(options.length - MOST, "more column")}: search</p>}
    </>
  );
}
