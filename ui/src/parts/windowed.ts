/** Which part of a long content is in view, for lists and boards that mount only that part. */

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

export interface View {
  /** First pixel of the content that is in view, and how many are. */
  top: number;
  height: number;
  width: number;
}

/** Follow the view of `element`: by its own scrolling, or by the page's where `page` is set. */
export function useView(element: RefObject<HTMLElement | null>, page = false): View {
  const [view, setView] = useState<View>({ top: 0, height: 900, width: 0 });
  useEffect(() => {
    const box = element.current!;
    const read = () => {
      const top = page ? Math.max(0, -box.getBoundingClientRect().top) : box.scrollTop;
      const next = { top, height: page ? innerHeight : box.clientHeight, width: box.clientWidth };
      setView((old) => (old.top === next.top && old.height === next.height && old.width === next.width ? old : next));
    };
    const scrolled: EventTarget = page ? window : box;
    const resized = new ResizeObserver(read);
    resized.observe(box);
    resized.observe(document.body);
    scrolled.addEventListener("scroll", read, { passive: true });
    read();
    return () => {
      resized.disconnect();
      scrolled.removeEventListener("scroll", read);
    };
  }, [page]);
  return view;
}

/** First and last index (exclusive) of rows of one height that are in view, with some more on both sides. */
export function rowsInView(view: View, rowHeight: number, count: number, more = 8): [number, number] {
  const first = Math.max(0, Math.floor(view.top / rowHeight) - more);
  return [Math.min(first, count), Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + more)];
}

/** Height of a table's head, which stays in view. */
const HEAD = 32;

/** Scroll so far that row `index` of a table is in view; a negative one is none. */
export function reveal(box: HTMLElement, index: number, row: number): void {
  if (index < 0) return;
  const top = index * row;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + row + HEAD > box.scrollTop + box.clientHeight) box.scrollTop = top + row + HEAD - box.clientHeight;
}
