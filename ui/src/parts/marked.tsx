/** Text with the matches of a search marked. */

import type { ComponentChildren } from "preact";

const MOST = 200;

/** The pattern of a search box: `/regex/`, or a substring; null where it is empty or not (yet) a regex. */
export function searchPattern(search: string): RegExp | null {
  const regex = /^\/(.+)\/$/.exec(search)?.[1];
  try {
    return search === "" ? null : new RegExp(regex ?? search.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
  } catch {
    return null;
  }
}

export function Marked({ text, pattern }: { text: string; pattern: RegExp | null }) {
  if (!pattern) return <>{text}</>;
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (match[0] === "" || parts.length > MOST) continue;
    parts.push(text.slice(end, match.index), <mark key={match.index}>{match[0]}</mark>);
    end = match.index + match[0].length;
  }
  return (
    <>
      {parts}
      {text.slice(end)}
    </>
  );
}
