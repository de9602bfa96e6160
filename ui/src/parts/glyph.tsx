/** Small drawings, 16 x 16, one stroke: icons of buttons and the shapes of states. */

const PATHS = {
  menu: "M3 8h.01M8 8h.01M13 8h.01",
  close: "M4 4l8 8M12 4l-8 8",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM11 11l3.5 3.5",
  pin: "M6 2h4l.6 5 2.4 2.5H3L5.4 7zM8 9.5V14",
  full: "M9.5 2.5h4v4M6.5 13.5h-4v-4M13.5 2.5l-4.5 4.5M2.5 13.5L7 9",
  down: "M4 6.5l4 4 4-4",
  right: "M6.5 4l4 4-4 4",
  up: "M4 9.5l4-4 4 4",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  help: "M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 11.8h.01M8 14.5A6.5 6.5 0 1 0 8 1.5a6.5 6.5 0 0 0 0 13z",
  sliders: "M2 5h5.6M11.4 5H14M9.5 6.9a1.9 1.9 0 1 0 0-3.8 1.9 1.9 0 0 0 0 3.8zM2 11h2.6M8.4 11H14M6.5 12.9a1.9 1.9 0 1 0 0-3.8 1.9 1.9 0 0 0 0 3.8z",
  download: "M8 2v8M4.8 7L8 10.2 11.2 7M3 13.5h10",
  link: "M6.5 9.5l3-3M7 4.5l1-1a3 3 0 0 1 4.3 4.3l-1.1 1M9 11.5l-1 1a3 3 0 0 1-4.3-4.3l1.1-1",
  trash: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9",
  table: "M2.5 3h11v10h-11zM2.5 6.5h11M6.5 6.5V13",
  plus: "M8 3.5v9M3.5 8h9",
  check: "M3 8.5l3.2 3.2L13 5",
  follow: "M8 2.5v8M4.5 7.5L8 11l3.5-3.5M3.5 13.5h9",
  warn: "M8 2.5l6 11H2zM8 6.8v3M8 11.6h.01",
  pencil: "M3 13l.7-3L11 2.7l2.3 2.3L6 12.3z",
} as const;

export type GlyphName = keyof typeof PATHS;

export function Glyph({ name }: { name: GlyphName }) {
  return (
    <svg class="glyph" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width={name === "menu" ? 2.4 : 1.5} stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
