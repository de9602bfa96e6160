/** A cluster's specification as text that a person edits: YAML, as in docs/clusters.md. Pure. */

type Tree = { [key: string]: unknown };

/** Words that YAML would read as something else than text. */
const NOT_TEXT = /^(null|true|false|~)$/i;
const PLAIN = /^[A-Za-z_/][A-Za-z0-9_./-]*$/;

/** The text of a specification; what is null or empty stands for nothing and is left out. */
export function specText(spec: Tree): string {
  return entries(spec)
    .map(([key, value]) => (Array.isArray(value) ? `${key}:\n${value.map(item).join("")}` : `${key}: ${inline(value)}\n`))
    .join("");
}

/** An item of a list: its fields below each other, what is inside of them in one line. */
function item(value: unknown): string {
  if (!isTree(value)) return `  - ${inline(value)}\n`;
  return entries(value)
    .map(([key, inner], i) => `${i ? "    " : "  - "}${key}: ${inline(inner)}\n`)
    .join("");
}

function inline(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  if (isTree(value)) return `{${entries(value).map(([key, inner]) => `${key}: ${inline(inner)}`).join(", ")}}`;
  if (typeof value === "string" && PLAIN.test(value) && !NOT_TEXT.test(value)) return value;
  return JSON.stringify(value);
}

const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null && !Array.isArray(value);
const entries = (tree: Tree): [string, unknown][] => Object.entries(tree).filter(([, value]) => !isEmpty(value));
const isEmpty = (value: unknown): boolean => value === null || value === undefined || (Array.isArray(value) ? !value.length : isTree(value) && !entries(value).length);
