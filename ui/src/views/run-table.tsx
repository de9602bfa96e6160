/** The virtual table of runs: only the rows in view are in the page, however many runs there are. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Run } from "../api";
import { ProblemNote } from "../parts/notice";
import { reveal, rowsInView, useView } from "../parts/windowed";
import { useConfigs } from "../state/configs";
import { now } from "../state/now";
import { adjust, go, href } from "../state/place";
import type { RunList } from "../state/runs";
import { runPlace, type RunsPlace } from "../state/url";
import { type CellContext, type Column, turned } from "./columns";

const ROW = 33;
const NAME: Pick<Column, "title" | "sort" | "width"> = { title: "Name", sort: "name", width: 240 };

interface Props {
  place: RunsPlace;
  list: RunList;
  columns: Column[];
  selected: ReadonlySet<string>;
  cursor: number;
  toggle(run: Run): void;
}

export function RunTable({ place, list, columns, selected, cursor, toggle }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const { items, total: matching, problem } = list.loaded.value;
  const total = Math.max(matching ?? 0, items.length);
  const [first, end] = rowsInView(view, ROW, total);
  const shown = items.slice(first, end);
  const configs = useConfigs(columns.some((column) => column.id.startsWith("config:")) ? shown : []);
  useEffect(() => list.reach(end), [list, end]);
  useLayoutEffect(() => reveal(box.current!, cursor, ROW), [cursor]);
  const context = (run: Run): CellContext => ({ now: now.value, config: configs.get(run.id), change: (run, change) => void list.change(run, change) });
  const width = 34 + NAME.width + columns.reduce((sum, column) => sum + column.width, 0);
  return (
    <div ref={box} class="table-box" tabIndex={0} role="region" aria-label="Runs">
      <table class="run-table" style={{ width: `max(100%, ${width}px)` }} aria-rowcount={total + 1}>
        <colgroup>
          <col style={{ width: "34px" }} />
          <col style={{ width: `${NAME.width}px` }} />
          {columns.map((column) => (
            <col key={column.id} style={{ width: `${column.width}px` }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col">
              <span class="out-of-sight">Selected</span>
            </th>
            <Head column={NAME} sort={place.sort} />
            {columns.map((column) => (
              <Head key={column.id} column={column} sort={place.sort} />
            ))}
          </tr>
        </thead>
        <tbody>
          <tr aria-hidden="true" style={{ height: `${first * ROW}px` }} />
          {shown.map((run, i) => (
            <Row key={run.id} index={first + i} {...{ run, columns, toggle }} at={context(run)} selected={selected.has(run.id)} current={first + i === cursor} />
          ))}
          {Array.from({ length: Math.max(0, end - first - shown.length) }, (_, i) => (
            <tr key={`wait${i}`} class="waiting" aria-hidden="true">
              <td colSpan={columns.length + 2}>
                <i />
              </td>
            </tr>
          ))}
          <tr aria-hidden="true" style={{ height: `${Math.max(0, total - end) * ROW}px` }} />
        </tbody>
      </table>
      {problem && <ProblemNote problem={problem} retry={() => void list.head()} />}
    </div>
  );
}

function Head({ column, sort }: { column: Pick<Column, "title" | "sort" | "right">; sort: string }) {
  const key = column.sort;
  const down = key !== null && sort === `-${key}`;
  const up = key !== null && sort === key;
  return (
    <th scope="col" class={column.right ? "right" : ""} aria-sort={down ? "descending" : up ? "ascending" : undefined} title={column.title}>
      {key === null ? (
        <span class="clip">{column.title}</span>
      ) : (
        <button class="quiet clip" onClick={() => adjust({ sort: turned(sort, key) })}>
          <span class="clip">{column.title}</span>
          {(down || up) && <span aria-hidden="true">{down ? "↓" : "↑"}</span>}
        </button>
      )}
    </th>
  );
}

interface RowProps {
  run: Run;
  index: number;
  columns: Column[];
  at: CellContext;
  selected: boolean;
  current: boolean;
  toggle(run: Run): void;
}

function Row({ run, index, columns, at, selected, current, toggle }: RowProps) {
  const open = (event: MouseEvent) => {
    const control = (event.target as Element).closest("a, button, input, textarea, label");
    if (!control && !getSelection()?.toString()) go(runPlace(run.id));
  };
  return (
    <tr aria-rowindex={index + 2} aria-selected={selected} class={current ? "current" : ""} data-run={run.id} onClick={open}>
      <td>
        <input type="checkbox" aria-label={`Select ${run.name}`} checked={selected} onChange={() => toggle(run)} />
      </td>
      <th scope="row">
        <a class="clip" href={href(runPlace(run.id))} title={run.name}>
          <bdi>{run.name}</bdi>
        </a>
      </th>
      {columns.map((column) => (
        <td key={column.id} class={column.right ? "right" : ""}>
          {column.cell(run, at)}
        </td>
      ))}
    </tr>
  );
}

