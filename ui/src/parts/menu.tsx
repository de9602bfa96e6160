/** A menu or panel that opens at its button, on the native `popover`: above everything, closed by Escape or a click outside. */

import type { ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import "./menu.css";

interface Props {
  label: string;
  button: ComponentChildren;
  class?: string;
  children(close: () => void): ComponentChildren;
}

export function Menu({ label, button, class: kind = "quiet icon", children }: Props) {
  const id = useId();
  const panel = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const [open, setOpen] = useState(false);
  const toggled = (event: { newState?: string }) => {
    const now = event.newState === "open";
    setOpen(now);
    if (now) queueMicrotask(() => place(opener.current!, panel.current!));
  };
  return (
    <>
      <button ref={opener} class={kind} popovertarget={id} aria-label={label} title={label} aria-expanded={open}>
        {button}
      </button>
      <div id={id} ref={panel} popover="auto" class="menu" onToggle={toggled as never} aria-label={label} role="group">
        {open && children(() => panel.current?.hidePopover())}
      </div>
    </>
  );
}

/** Below the button, right edges aligned where there is no room to the right; above it where there is none below. */
function place(opener: HTMLElement, panel: HTMLElement): void {
  const at = opener.getBoundingClientRect();
  requestAnimationFrame(() => {
    const { offsetWidth: width, offsetHeight: height } = panel;
    const left = at.left + width > innerWidth - 8 ? Math.max(8, at.right - width) : at.left;
    const below = at.bottom + 4 + height <= innerHeight - 8 || at.top < height;
    panel.style.left = `${left}px`;
    panel.style.top = `${below ? at.bottom + 4 : at.top - height - 4}px`;
    panel.style.visibility = "visible";
    panel.querySelector<HTMLElement>("input, button, a")?.focus();
  });
}
