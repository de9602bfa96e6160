/** A small table that is whole on the page: it scrolls sideways in a box of its own. A head that is empty is that of buttons. */

import type { ComponentChildren } from "preact";
import "./plain-table.css";

export function PlainTable({ label, heads, children }: { label: string; heads: readonly string[]; children: ComponentChildren }) {
  return (
    <div class="plain-box" tabIndex={0} role="region" aria-label={label}>
      <table class="plain-table">
        <thead>
          <tr>
            {heads.map((head) =>
              head ? (
                <th key={head} scope="col">
                  {head}
                </th>
              ) : (
                <td key={head} />
              ),
            )}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
