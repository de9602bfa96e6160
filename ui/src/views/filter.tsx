/** The filter box: the language of `docs/api.md`, checked by the server, its error marked where it is. */

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Problem } from "../api";
import { Glyph } from "../parts/glyph";
import { Menu } from "../parts/menu";
import { adjust } from "../state/place";
import type { RunsPlace } from "../state/url";

const EXAMPLES = [
  ['state = "running"', "by state"],
  ["metric.loss < 2", "by the latest value of a metric"],
  ['metric."val/loss" < 2', "names with other characters are quoted"],
  ["config.optim.lr >= 1e-4", "by a leaf of the configuration"],
  ["tag:ablation", "has the tag"],
  ['name:"base" AND NOT state = "failed"', "contains; AND, OR, NOT"],
] as const;

const WAIT_MS = 350;

interface Props {
  input: RefObject<HTMLInputElement | null>;
  place: RunsPlace;
  problem: Problem | null;
}

export function FilterBox({ input, place, problem }: Props) {
  const [text, setText] = useState(place.filter);
  useEffect(() => setText(place.filter), [place.filter]);
  useEffect(() => {
    if (text === place.filter) return;
    const timer = setTimeout(() => adjust({ filter: text }), WAIT_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter") adjust({ filter: text });
    if (event.key === "Escape") input.current?.blur();
  };
  return (
    <div class="filter">
      <label class="search">
        <Glyph name="search" />
        <input
          ref={input}
          type="search"
          class="mono"
          spellcheck={false}
          autocomplete="off"
          placeholder={'Filter: state = "running" AND metric.loss < 2'}
          aria-label="Filter runs"
          aria-invalid={problem !== null}
          aria-describedby={problem ? "filter-problem" : undefined}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={keys}
        />
      </label>
      <Menu label="How to filter" class="quiet icon" button={<Glyph name="help" />}>
        {(close) => (
          <>
            <h3>Filter by</h3>
            {EXAMPLES.map(([filter, means]) => (
              <button key={filter} class="example" onClick={() => (close(), adjust({ filter }))}>
                <code>{filter}</code> <span class="faint small">{means}</span>
              </button>
            ))}
          </>
        )}
      </Menu>
      {problem && <FilterProblem filter={place.filter} problem={problem} />}
    </div>
  );
}

function FilterProblem({ filter, problem }: { filter: string; problem: Problem }) {
  const at = problem.position;
  // Positions count characters, as Python does; strings here count UTF-16 units.
  const letters = [...filter];
  return (
    <div id="filter-problem" class="filter-problem" role="alert">
      {at !== null && (
        <pre>
          {letters.slice(Math.max(0, at - 40), at).join("")}
          <mark>{letters[at] ?? "⏎"}</mark>
          {letters.slice(at + 1, at + 40).join("")}
        </pre>
      )}
      <p>{problem.message}</p>
      {problem.hint && <p class="small">{problem.hint}</p>}
    </div>
  );
}
