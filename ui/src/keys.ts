/**
 * The one table of keyboard shortcuts: what is pressed, where it counts, what it does. The help dialog is drawn from it.
 * Views bring the actions for their keys with `useKeys`; a key is never taken from an input or while a modal is open.
 */

import { useLayoutEffect, useRef } from "preact/hooks";

export const SHORTCUTS = [
  { keys: "?", does: "Show this help", where: "Everywhere" },
  { keys: "g r", does: "Go to the runs", where: "Everywhere" },
  { keys: "g g", does: "Go to the goodput of all runs", where: "Everywhere" },
  { keys: "g c", does: "Go to the clusters", where: "Everywhere" },
  { keys: "g e", does: "Go to the events of all runs", where: "Everywhere" },
  { keys: "g s", does: "Go to the settings", where: "Everywhere" },
  { keys: "t", does: "Light or dark", where: "Everywhere" },
  { keys: "/", does: "Filter or search", where: "Everywhere" },
  { keys: "j", does: "Next run, job or event", where: "Tables" },
  { keys: "k", does: "Previous run, job or event", where: "Tables" },
  { keys: "Enter", does: "Open the run, job or event", where: "Tables" },
  { keys: "x", does: "Select or deselect the run", where: "Tables" },
  { keys: "c", does: "Compare the selected runs", where: "Tables" },
  { keys: "Escape", does: "Clear the selection", where: "Tables" },
  { keys: "1", does: "Charts", where: "Run" },
  { keys: "2", does: "System", where: "Run" },
  { keys: "3", does: "Logs", where: "Run" },
  { keys: "4", does: "Configuration", where: "Run" },
  { keys: "5", does: "Ranks", where: "Run" },
  { keys: "6", does: "Goodput", where: "Run" },
  { keys: "7", does: "Events", where: "Run" },
  { keys: "u", does: "Up to the runs, or from a job, node or cluster to what it is in", where: "Run" },
  { keys: "l", does: "Log scale on or off", where: "Charts" },
  { keys: "b", does: "Band or line", where: "Charts" },
  { keys: "e", does: "Mark events or not", where: "Charts" },
  { keys: "0", does: "Whole range", where: "Charts" },
  { keys: "f", does: "Follow the newest lines", where: "Logs" },
  { keys: "n", does: "Next match", where: "Logs" },
  { keys: "p", does: "Previous match", where: "Logs" },
] as const;

type Keys = (typeof SHORTCUTS)[number]["keys"];
export type Actions = Partial<Record<Keys, () => void>>;

const CHORD_MS = 1200;
const layers: { current: Actions }[] = [];
let chord = "";
let chordAt = 0;

/** While the component is mounted, run these actions; the layer mounted last wins. */
export function useKeys(actions: Actions): void {
  const layer = useRef(actions);
  layer.current = actions;
  // With what is shown, not a frame later: a key belongs to the page that one sees.
  useLayoutEffect(() => {
    layers.push(layer);
    return () => void layers.splice(layers.indexOf(layer), 1);
  }, []);
}

/** What was pressed, as written in the table; null for keys that are not ours to take. */
export function pressed(event: KeyboardEvent, before: string): string | null {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return null;
  return before ? `${before} ${event.key}` : event.key;
}

/** Inputs that no letter is typed into: who has just ticked a row goes on by keys. */
const UNTYPED = new Set(["checkbox", "radio", "range"]);

/** Whether keys typed there belong to what has the focus. */
function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement && UNTYPED.has(target.type)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

/** Listen to the keyboard for the whole page. */
export function listen(): void {
  document.addEventListener("keydown", (event) => {
    if (typing(event.target) || document.querySelector("dialog[open]")) return;
    const fresh = Date.now() - chordAt < CHORD_MS ? chord : "";
    const keys = pressed(event, fresh);
    chord = "";
    if (keys === null || act(keys, event)) return;
    if (SHORTCUTS.some((shortcut) => shortcut.keys.startsWith(`${keys} `))) {
      chord = keys;
      chordAt = Date.now();
    }
  });
}

function act(keys: string, event: KeyboardEvent): boolean {
  // Enter and Escape on a control are that control's own.
  if (keys === "Enter" && event.target instanceof Element && event.target.closest("button, a, summary")) return false;
  const action = layers.findLast((layer) => keys in layer.current)?.current[keys as Keys];
  if (!action) return false;
  event.preventDefault();
  action();
  return true;
}
