/** Light or dark: the system's choice until the reader makes one, which this browser keeps. */

import { computed, effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const system = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system.matches);
system.addEventListener("change", () => (systemDark.value = system.matches));

export const theme = signal<Theme>(saved());
/** What is drawn now: canvases can't read `light-dark()`. */
export const dark = computed(() => (theme.value === "system" ? systemDark.value : theme.value === "dark"));

/** From what is seen now to its opposite; back to the system's choice where they agree. */
export function toggleTheme(): void {
  const wanted: Theme = dark.peek() ? "light" : "dark";
  theme.value = (wanted === "dark") === systemDark.peek() ? "system" : wanted;
}

function saved(): Theme {
  const kept = localStorage.getItem("theme");
  return kept === "light" || kept === "dark" ? kept : "system";
}

effect(() => {
  if (theme.value === "system") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("theme");
  } else {
    document.documentElement.dataset.theme = theme.value;
    localStorage.setItem("theme", theme.value);
  }
});
