/** A clock for what grows while one looks at it: ages and durations. It rests while the page is hidden. */

import { signal } from "@preact/signals";

export const now = signal(Date.now());

setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);
document.addEventListener("visibilitychange", () => (now.value = Date.now()));
