/** A component that is loaded when it is first shown. */

import { type ComponentType, createElement } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "../api";
import { ProblemNote, Skeleton } from "./notice";

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const [, turn] = useState(0);
    const [failed, fail] = useState(false);
    useEffect(() => {
      if (loaded || failed) return;
      load().then(
        (component) => {
          loaded = component;
          turn((n) => n + 1);
        },
        () => fail(true),
      );
    }, [failed]);
    if (loaded) return createElement(loaded, props);
    if (!failed) return <Skeleton />;
    const problem = new Problem(0, "page_part_missing", "A part of the page could not be loaded.", "After an upgrade of the server, load the page again.");
    return <ProblemNote problem={problem} retry={() => location.reload()} />;
  };
}
