/** The head of a page about one thing: whence one came, its name, how it is, what may be done, and what is known of it. */

import type { ComponentChildren } from "preact";
import "./facts.css";

/** Term, value, and what a pointer that rests on it sees. */
export type Fact = [string, ComponentChildren, string?];

interface Props {
  back: string;
  from: string;
  name: ComponentChildren;
  title?: string;
  /** Beside the name. */
  signs: ComponentChildren;
  /** At the other end. */
  tools: ComponentChildren;
  facts: readonly Fact[];
  /** Dialogs. */
  children?: ComponentChildren;
}

export function PageHead({ back, from, name, title, signs, tools, facts, children }: Props) {
  return (
    <header class="run-head">
      <div class="row wrap">
        <a class="faint" href={back}>
          {from}
        </a>
        <span class="faint" aria-hidden="true">
          /
        </span>
        <h1 class="clip" title={title}>
          {name}
        </h1>
        {signs}
        <span class="grow" />
        {tools}
      </div>
      <dl class="facts">
        {facts.map(([term, value, more]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd class="number clip" title={more ?? (typeof value === "string" ? value : undefined)}>
              {value || "–"}
            </dd>
          </div>
        ))}
      </dl>
      {children}
    </header>
  );
}
