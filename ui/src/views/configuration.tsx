/** What the run is and runs on: three trees, searched and copied. */

import { useMemo, useRef, useState } from "preact/hooks";
import { get, type Run, type RunConfig, runPath } from "../api";
import { useKeys } from "../keys";
import { copy } from "../parts/copy";
import { Glyph } from "../parts/glyph";
import { Marked, searchPattern } from "../parts/marked";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { rowsInView, useView } from "../parts/windowed";
import { type Json, pathKey, rows, search, shown, type TreeRow } from "../state/leaves";
import { useLoad } from "../state/load";
import { adjust } from "../state/place";
import { type RunPlace, type Tree, TREES } from "../state/url";
import { count } from "../words";
import "./configuration.css";

const NAMES: Record<Tree, string> = { user: "User", software: "Software", system: "System" };
const ROW = 25;

export function Configuration({ run, place }: { run: Run; place: RunPlace }) {
  const { value, problem, reload } = useLoad(`${run.id}/${run.attempts.length}`, (signal) => get<RunConfig>(runPath(run.id, "/config"), { signal }));
  const input = useRef<HTMLInputElement>(null);
  useKeys({ "/": () => input.current?.focus() });
  if (!value) return problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={12} />;
  const found = Object.fromEntries(TREES.map((tree) => [tree, search(value[tree] as Json, place.leaf).length]));
  return (
    <section class="configuration" aria-label="Configuration">
      <div class="tool-bar" role="toolbar" aria-label="Configuration">
        <div class="segments" role="group" aria-label="Tree">
          {TREES.map((tree) => (
            <button key={tree} aria-pressed={place.tree === tree} onClick={() => adjust({ tree })}>
              {NAMES[tree]} <span class="faint number">{found[tree]}</span>
            </button>
          ))}
        </div>
        <label class="search">
          <Glyph name="search" />
          <input ref={input} type="search" placeholder="Key or value" aria-label="Search the configuration" value={place.leaf} onInput={(event) => adjust({ leaf: event.currentTarget.value })} />
        </label>
        <span class="grow" />
        <button onClick={() => void copy(JSON.stringify(value[place.tree], null, 2), "JSON copied")}>
          <Glyph name="copy" /> JSON
        </button>
      </div>
      <TreeRows tree={value[place.tree] as Json} find={place.leaf} name={NAMES[place.tree]} />
    </section>
  );
}

function TreeRows({ tree, find, name }: { tree: Json; find: string; name: string }) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const list = useMemo(() => (find ? search(tree, find) : rows(tree, (path) => closed.has(path))), [tree, find, closed]);
  const [first, end] = rowsInView(view, ROW, list.length);
  const toggle = (key: string) => setClosed((old) => (old.has(key) ? new Set([...old].filter((one) => one !== key)) : new Set([...old, key])));
  const pattern = searchPattern(find);
  return (
    <div ref={box} class="tree" tabIndex={0} role="region" aria-label={`${name} configuration`}>
      <ul style={{ height: `${list.length * ROW}px` }}>
        {list.slice(first, end).map((row, i) => (
          <Row key={pathKey(row.path)} {...{ row, pattern }} whole={find !== ""} top={(first + i) * ROW} closed={closed.has(pathKey(row.path))} toggle={toggle} />
        ))}
      </ul>
      {!list.length && <Empty title={find ? "Nothing matches" : "Nothing was recorded"} />}
    </div>
  );
}

interface RowProps {
  row: TreeRow;
  pattern: RegExp | null;
  whole: boolean;
  top: number;
  closed: boolean;
  toggle(key: string): void;
}

function Row({ row, pattern, whole, top, closed, toggle }: RowProps) {
  const { path, depth, children, value } = row;
  const style = { transform: `translateY(${top}px)`, paddingLeft: `${10 + (whole ? 0 : depth * 18)}px` };
  const name = whole ? path.join(".") : path.at(-1)!;
  if (children !== null) {
    return (
      <li style={style}>
        <button class="quiet branch" aria-expanded={!closed} onClick={() => toggle(pathKey(path))}>
          <Glyph name={closed ? "right" : "down"} /> {name} <span class="faint small">{count(children, "entry").replace("entrys", "entries")}</span>
        </button>
      </li>
    );
  }
  const text = shown(value);
  return (
    <li style={style} class="leaf">
      <span class="key">
        <Marked text={name} pattern={pattern} />
      </span>
      <span class={`value mono clip ${typeof value}`} title={text}>
        <Marked text={text} pattern={pattern} />
      </span>
      <button class="quiet icon" aria-label={`Copy ${name}`} onClick={() => void copy(text, `${name} copied`)}>
        <Glyph name="copy" />
      </button>
    </li>
  );
}
