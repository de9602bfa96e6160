/** Copying to the clipboard, and blocks of text that are made to be copied. */

import { Glyph } from "./glyph";
import { say } from "./notice";
import "./copy.css";

/** Copy `text` and say so; without a clipboard (plain http from afar) say what to copy. */
export async function copy(text: string, what = "Copied"): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(what);
  } catch {
    say("The browser does not let this page copy (it needs https or localhost).", true);
  }
}

export function CopyBlock({ text, label }: { text: string; label: string }) {
  return (
    <div class="copy-block">
      <pre tabIndex={0}>{text}</pre>
      <button class="quiet icon" aria-label={`Copy ${label}`} onClick={() => void copy(text)}>
        <Glyph name="copy" />
      </button>
    </div>
  );
}

/** Hand a file to the browser. */
export function save(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
