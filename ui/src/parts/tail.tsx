/** The end of some output: it stays at its last line while lines come, unless the reader has scrolled up. */

import { useLayoutEffect, useRef } from "preact/hooks";
import "./tail.css";

const NEAR = 8;

export function Tail({ label, text }: { label: string; text: string }) {
  const box = useRef<HTMLPreElement>(null);
  const following = useRef(true);
  useLayoutEffect(() => {
    if (following.current) box.current!.scrollTop = box.current!.scrollHeight;
  }, [text]);
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current!;
    following.current = scrollHeight - scrollTop - clientHeight < NEAR;
  };
  return (
    <pre ref={box} class="tail-lines" tabIndex={0} role="region" aria-label={label} onScroll={scrolled}>
      {text}
    </pre>
  );
}
