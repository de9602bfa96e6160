/** Above a run's tabs: what is wrong with it, how sure that is, where, and what to do first. */

import type { Cause, Run } from "../api";
import { Glyph } from "../parts/glyph";
import { confidence, headline, useDiagnosis } from "../state/diagnosis";
import { href } from "../state/place";
import { eventPlace } from "../state/url";
import "./diagnosis-banner.css";

export function DiagnosisBanner({ run }: { run: Run }) {
  const diagnosis = useDiagnosis(run, null).value?.diagnosis;
  const said = diagnosis && headline(diagnosis, run.attempts);
  if (!said) return null;
  const { cause, outcome } = said;
  const newest = run.attempts.at(-1)?.number;
  // An attempt that another has followed is no alarm any more.
  const past = diagnosis.attempt !== null && diagnosis.attempt !== newest;
  return (
    <section class={`diagnosis-banner ${past ? "past" : outcome}`} aria-label="Diagnosis">
      <Glyph name="warn" />
      <div class="grow">
        <p>
          <b>
            {past && cause && `Attempt ${diagnosis.attempt}: `}
            {cause ? cause.summary : `${past ? `Attempt ${diagnosis.attempt}` : "It"} ended badly, and nothing that is kept proves why.`}
          </b>
          {cause && (
            <span class="soft">
              {" · "}
              {[cause.layer?.replace("_", " "), `confidence ${confidence(cause.confidence)}`, where(cause)].filter(Boolean).join(" · ")}
            </span>
          )}
        </p>
        {cause?.remediation?.[0] && <p class="soft">{cause.remediation[0]}</p>}
      </div>
      <a class="button" href={href(eventPlace(run.id, null))}>
        Diagnosis
      </a>
    </section>
  );
}

/** Nodes and ranks that a cause points at, where its summary does not name them already. */
function where({ suspects, summary }: Cause): string {
  const { nodes = [], ranks = [] } = suspects;
  const ofRanks = ranks.length > 4 ? `${ranks.length} ranks` : ranks.length ? `rank ${ranks.join(", ")}` : "";
  const ofNodes = nodes.length > 3 ? `${nodes.length} nodes` : nodes.join(", ");
  return [ofRanks, ofNodes].filter((words) => words && !summary.includes(words)).join(", ");
}
