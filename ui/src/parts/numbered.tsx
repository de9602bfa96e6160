/** A text with the numbers of its lines; grows with it, so that both scroll together. */

import { useEffect, useRef } from "preact/hooks";
import "./numbered.css";

interface Props {
  label: string;
  text: string;
  /** The line that the server refused. */
  wrong: number | null;
  readOnly?: boolean;
  onText(text: string): void;
}

export function Numbered({ label, text, wrong, readOnly = false, onText }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const lines = text.split("\n");
  useEffect(() => {
    if (wrong === null) return;
    const from = lines.slice(0, wrong - 1).reduce((sum, line) => sum + line.length + 1, 0);
    area.current?.focus();
    area.current?.setSelectionRange(from, from + (lines[wrong - 1]?.length ?? 0));
  }, [wrong]);
  return (
    <div class="numbered">
      <ol aria-hidden="true">
        {lines.map((_, i) => (
          <li key={i} class={i + 1 === wrong ? "wrong" : ""}>
            {i + 1}
          </li>
        ))}
      </ol>
      <textarea
        ref={area}
        aria-label={label}
        aria-invalid={wrong !== null}
        spellcheck={false}
        wrap="off"
        readOnly={readOnly}
        rows={Math.max(6, lines.length)}
        value={text}
        onInput={(event) => onText(event.currentTarget.value)}
      />
    </div>
  );
}
