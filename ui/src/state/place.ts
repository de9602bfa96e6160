/** Where the user is: one signal, kept equal to the address bar through the codec of `url.ts`. */

import { signal } from "@preact/signals";
import { type ComparePlace, type EventsPlace, type FleetPlace, decode, encode, type JobsPlace, type NodePlace, type Place, type RunPlace, type RunsPlace } from "./url";

const base = new URL(document.baseURI);

export const place = signal<Place>(read());

/** Go to another place: a new entry in the browser's history. */
export function go(next: Place): void {
  history.pushState(null, "", href(next));
  place.value = next;
  window.scrollTo(0, 0);
}

/** Change a field of the place that is open, without a new entry in the history. */
export function adjust(change: Partial<RunPlace> | Partial<RunsPlace> | Partial<ComparePlace> | Partial<FleetPlace> | Partial<EventsPlace> | Partial<JobsPlace> | Partial<NodePlace>): void {
  const next = { ...place.peek(), ...change } as Place;
  history.replaceState(null, "", href(next));
  place.value = next;
}

/** The address of a place, for links and for copying. */
export function href(target: Place): string {
  return new URL(encode(target), base).href;
}

/** Follow plain clicks on our own links without loading the page again; every other click stays the browser's. */
export function followLinks(): void {
  window.addEventListener("popstate", () => (place.value = read()));
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[href]") : null;
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
    const url = new URL(link.href);
    if (!ours(url)) return;
    event.preventDefault();
    go(decode(below(url), url.search));
  });
}

function read(): Place {
  return decode(below(new URL(location.href)), location.search);
}

function below(url: URL): string {
  return url.pathname.startsWith(base.pathname) ? url.pathname.slice(base.pathname.length) : "";
}

function ours(url: URL): boolean {
  return url.origin === base.origin && url.pathname.startsWith(base.pathname) && !below(url).startsWith("api/");
}
