/** Tags of a run, edited in place: a click opens a line of words, Enter or leaving keeps it, Escape does not. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Glyph } from "./glyph";
import "./tags.css";

interface Props {
  tags: string[];
  onChange?: ((tags: string[]) => void) | undefined;
}

/** Words of a line: split at commas and blanks, each once. */
export const words = (line: string): string[] => [...new Set(line.split(/[\s,]+/).filter(Boolean))];

export function Tags({ tags, onChange }: Props) {
  const [editing, edit] = useState(false);
  if (editing && onChange) {
    const keep = (line: string) => {
      edit(false);
      const next = words(line);
      if (next.join(" ") !== tags.join(" ")) onChange(next);
    };
    return <LineEdit label="Tags" value={tags.join(" ")} placeholder="ablation baseline" onKeep={keep} onDrop={() => edit(false)} />;
  }
  const list = tags.map((tag) => (
    <span key={tag} class="tag">
      {tag}
    </span>
  ));
  if (!onChange) return <span class="tags" title={tags.join(" ")}>{list}</span>;
  return (
    <button class="quiet tags" title={tags.join(" ")} aria-label={tags.length ? undefined : "Add tags"} onClick={(event) => (event.stopPropagation(), edit(true))}>
      {list.length ? [<Hint key="hint" of="tags" />, ...list] : <span class="add faint"><Glyph name="plus" /> tags</span>}
    </button>
  );
}

/** What a screen reader says before the text that a click edits. */
const Hint = ({ of }: { of: string }) => <span class="out-of-sight">Edit {of} </span>;

interface NotesProps {
  notes: string;
  onChange?: ((notes: string) => void) | undefined;
}

/** Notes of a run on one line in the table, edited in place. */
export function Notes({ notes, onChange }: NotesProps) {
  const [editing, edit] = useState(false);
  if (editing && onChange) {
    const keep = (text: string) => {
      edit(false);
      if (text !== notes) onChange(text);
    };
    return <LineEdit long label="Notes" value={notes} placeholder="What is this run for?" onKeep={keep} onDrop={() => edit(false)} />;
  }
  if (!onChange) return <span class="notes-text">{notes}</span>;
  return (
    <button class="quiet notes-text" aria-label={notes ? undefined : "Add notes"} onClick={(event) => (event.stopPropagation(), edit(true))}>
      {notes ? [<Hint key="hint" of="notes" />, notes] : <span class="add faint"><Glyph name="plus" /> notes</span>}
    </button>
  );
}

interface EditProps {
  label: string;
  value: string;
  placeholder: string;
  long?: boolean;
  onKeep(text: string): void;
  onDrop(): void;
}

function LineEdit({ label, value, placeholder, long, onKeep, onDrop }: EditProps) {
  const input = useRef<HTMLInputElement & HTMLTextAreaElement>(null);
  const done = useRef(false);
  useLayoutEffect(() => {
    input.current!.focus();
    input.current!.select();
  }, []);
  const finish = (work: () => void) => {
    if (done.current) return;
    done.current = true;
    work();
  };
  const keys = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === "Escape") finish(onDrop);
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      finish(() => onKeep(input.current!.value));
    }
  };
  const shared = {
    ref: input,
    class: "line-edit",
    "aria-label": label,
    placeholder,
    defaultValue: value,
    onKeyDown: keys,
    onClick: (event: Event) => event.stopPropagation(),
    onBlur: () => finish(() => onKeep(input.current!.value)),
  };
  return long ? <textarea rows={Math.min(6, value.split("\n").length)} {...shared} /> : <input {...shared} />;
}
