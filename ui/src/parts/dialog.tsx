/** A modal on the native `<dialog>`: focus stays inside, Escape and a click outside close it. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Glyph } from "./glyph";
import "./dialog.css";

interface Props {
  title: string;
  wide?: boolean;
  onClose(): void;
  children: ComponentChildren;
  tools?: ComponentChildren;
}

export function Dialog({ title, wide, onClose, children, tools }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const mounted = useRef(true);
  useEffect(() => {
    const element = dialog.current!;
    element.showModal();
    // A dialog that its owner takes away does not report that it was closed.
    return () => {
      mounted.current = false;
      element.close();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={wide ? "wide" : ""}
      aria-label={title}
      onClose={() => mounted.current && onClose()}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <div class="dialog-body">
        <header class="row">
          <h2 class="grow clip" title={title}>
            {title}
          </h2>
          {tools}
          <button class="quiet icon" aria-label="Close" onClick={() => dialog.current?.close()}>
            <Glyph name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
