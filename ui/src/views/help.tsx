/** The help dialog: drawn from the one table of shortcuts, so that it can't be wrong. */

import { SHORTCUTS } from "../keys";
import { Dialog } from "../parts/dialog";
import "./help.css";

const NAMES: Record<string, string> = { Escape: "Esc", Enter: "↵" };

export function Help({ onClose }: { onClose(): void }) {
  const places = [...new Set(SHORTCUTS.map((shortcut) => shortcut.where))];
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <div class="help">
        {places.map((where) => (
          <section key={where}>
            <h3>{where}</h3>
            <dl>
              {SHORTCUTS.filter((shortcut) => shortcut.where === where).map(({ keys, does }) => (
                <div key={keys}>
                  <dt>
                    {keys.split(" ").map((key) => (
                      <kbd key={key}>{NAMES[key] ?? key}</kbd>
                    ))}
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p class="small soft">In charts: drag to zoom in, double click for the whole range. The address of the page always holds what you see.</p>
    </Dialog>
  );
}
