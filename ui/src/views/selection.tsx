/** What can be done with the selected runs. */

import { useState } from "preact/hooks";
import { call, type Run, runPath } from "../api";
import { copy } from "../parts/copy";
import { Dialog } from "../parts/dialog";
import { Glyph } from "../parts/glyph";
import { Menu } from "../parts/menu";
import { say } from "../parts/notice";
import { words } from "../parts/tags";
import { asProblem } from "../state/load";
import { href } from "../state/place";
import type { RunList } from "../state/runs";
import { mayEdit, session } from "../state/session";
import { comparePlace } from "../state/url";
import { count } from "../words";

interface Props {
  chosen: Run[];
  list: RunList;
  clear(): void;
}

export function SelectionBar({ chosen, list, clear }: Props) {
  const ids = chosen.map((run) => run.id);
  return (
    <div class="selection" role="toolbar" aria-label="Selected runs">
      <b class="number">{chosen.length} selected</b>
      {chosen.length > 1 && (
        <a class="button primary" href={href(comparePlace(ids))} title="Their charts and configuration side by side (c)">
          Compare
        </a>
      )}
      {chosen.length === 2 && (
        <button onClick={() => void copy(`stepward diff ${ids.join(" ")}`, "Command copied")}>
          <Glyph name="copy" /> stepward diff
        </button>
      )}
      <button onClick={() => void copy(ids.join("\n"), `${count(ids.length, "id")} copied`)}>
        <Glyph name="copy" /> Ids
      </button>
      {mayEdit() && <AddTags chosen={chosen} list={list} />}
      {session.value?.kind === "admin" && <Delete chosen={chosen} list={list} clear={clear} />}
      <button class="quiet" onClick={clear}>
        Clear
      </button>
    </div>
  );
}

function AddTags({ chosen, list }: Omit<Props, "clear">) {
  const add = (line: string) => {
    const tags = words(line);
    for (const run of chosen) {
      const next = [...new Set([...run.tags, ...tags])];
      if (next.length > run.tags.length) void list.change(run, { tags: next });
    }
  };
  return (
    <Menu label="Add tags" class="" button={<><Glyph name="plus" /> Tags</>}>
      {(close) => (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            add(new FormData(event.currentTarget).get("tags") as string);
            close();
          }}
        >
          <input name="tags" placeholder="Tags to add" aria-label="Tags to add" />
        </form>
      )}
    </Menu>
  );
}

function Delete({ chosen, list, clear }: Props) {
  const [asking, ask] = useState(false);
  const remove = async () => {
    ask(false);
    for (const run of chosen) {
      try {
        await call("DELETE", runPath(run.id));
        list.remove(run.id);
      } catch (error) {
        say(`${run.name}: ${asProblem(error).message}`, true);
      }
    }
    clear();
  };
  return (
    <>
      <button class="danger" onClick={() => ask(true)}>
        <Glyph name="trash" /> Delete
      </button>
      {asking && (
        <Dialog title={`Delete ${count(chosen.length, "run")}?`} onClose={() => ask(false)}>
          <p>Points, logs and configuration of these runs go for good:</p>
          <ul class="small soft">
            {chosen.slice(0, 8).map((run) => (
              <li key={run.id} class="clip">
                {run.name} <code>{run.id}</code>
              </li>
            ))}
            {chosen.length > 8 && <li>and {chosen.length - 8} more</li>}
          </ul>
          <div class="row">
            <button class="danger" onClick={() => void remove()}>
              Delete
            </button>
            <button onClick={() => ask(false)}>Keep</button>
          </div>
        </Dialog>
      )}
    </>
  );
}
