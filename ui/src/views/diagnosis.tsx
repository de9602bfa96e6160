/** A whole diagnosis: causes with what proves them, what was ruled out, what is not known, what to do. */

import { address, type Cause, type Diagnosis, type Evidence } from "../api";
import { copy } from "../parts/copy";
import { ToneChip } from "../parts/chip";
import { Glyph } from "../parts/glyph";
import { confidence, type Found, proofPlace } from "../state/diagnosis";
import { plain } from "../state/lines";
import { href } from "../state/place";
import { eventPlace, runPlace } from "../state/url";
import { count, moment } from "../words";
import "./diagnosis.css";

const OUTCOMES: Record<string, { tone: "good" | "warn" | "bad" | "mute"; words: string }> = {
  healthy: { tone: "good", words: "Nothing is wrong" },
  degraded: { tone: "warn", words: "It is held back" },
  failed: { tone: "bad", words: "It failed" },
  unknown: { tone: "mute", words: "There is not enough to say" },
};
const VERDICTS: Record<string, "good" | "bad" | "mute"> = { ok: "good", bad: "bad", unknown: "mute" };

export function DiagnosisView({ run, found }: { run: string; found: Found & { diagnosis: Diagnosis } }) {
  const { diagnosis } = found;
  const { outcome = "unknown", causes = [], candidates = [], ruled_out = [], unknown = [], findings = [] } = diagnosis.document;
  const { tone, words } = OUTCOMES[outcome] ?? OUTCOMES.unknown!;
  return (
    <section class="diagnosis" aria-label="Diagnosis">
      <header class="row wrap">
        <ToneChip tone={tone} word={outcome} />
        <h2>
          {words}
          {causes.length > 0 ? "" : outcome === "failed" || outcome === "degraded" ? ", and no cause is proven" : ""}
        </h2>
        <span class="soft small" title={`rules of version ${diagnosis.version}`}>
          {diagnosis.attempt !== null && `attempt ${diagnosis.attempt} · `}
          {moment(diagnosis.made_at)}
        </span>
        <span class="grow" />
        <Exports path={found.path} name={`${run}-${diagnosis.event ?? "diagnosis"}`} />
      </header>
      <ol class="causes">
        {causes.map((cause) => (
          <CauseCard key={`${cause.label} ${cause.summary}`} run={run} cause={cause} />
        ))}
      </ol>
      {candidates.length > 0 && (
        <details open={!causes.length}>
          <summary>{count(candidates.length, "candidate")} without proof enough</summary>
          <ol class="causes">
            {candidates.map((cause) => (
              <CauseCard key={`${cause.label} ${cause.summary}`} run={run} cause={cause} />
            ))}
          </ol>
        </details>
      )}
      <Layers findings={findings} />
      <div class="diagnosis-rest">
        <Listed title="Ruled out" rows={ruled_out.map(({ label, why }) => [label, why])} />
        <Listed title="Not known" rows={unknown.map(({ analyzer, why }) => [analyzer, why])} />
      </div>
      <Rest run={run} diagnosis={diagnosis} />
    </section>
  );
}

function Exports({ path, name }: { path: string; name: string }) {
  return (
    <>
      <a class="button" href={address(path, { format: "markdown" })} download={`${name}.md`}>
        <Glyph name="download" /> Markdown
      </a>
      <a class="button" href={address(path, { format: "html" })} download={`${name}.html`}>
        <Glyph name="download" /> HTML
      </a>
      <button onClick={() => void copy(location.href, "Link copied")}>
        <Glyph name="link" /> Copy link
      </button>
    </>
  );
}

function CauseCard({ run, cause }: { run: string; cause: Cause }) {
  const { suspects, evidence, secondary = [], remediation = [] } = cause;
  const who: [string, string][] = [
    ["node", (suspects.nodes ?? []).join(", ")],
    ["rank", (suspects.ranks ?? []).join(", ")],
    ["device", (suspects.devices ?? []).join(", ")],
  ];
  return (
    <li class="cause" data-label={cause.label ?? ""}>
      <div class="row wrap">
        <meter min="0" max="1" value={cause.confidence} aria-label={`Confidence ${confidence(cause.confidence)}`} />
        <b class="number">{confidence(cause.confidence)}</b>
        <h3>{cause.summary}</h3>
      </div>
      <p class="row wrap small">
        {cause.layer && <span class={`layer ${cause.layer}`}>{cause.layer.replace("_", " ")}</span>}
        {cause.label && <code>{cause.label}</code>}
        <span class="soft">decided by {cause.decided_by}</span>
        {who.map(([name, words]) => words && <span key={name} class="suspect" title={`Suspected: ${name} ${words}`}>{`${name} ${words}`}</span>)}
      </p>
      {remediation.length > 0 && (
        <div>
          <p class="part-name">What to do</p>
          <ul class="remedies">
            {remediation.map((words) => (
              <li key={words}>{words}</li>
            ))}
          </ul>
        </div>
      )}
      {evidence.length > 0 && (
        <div>
          <p class="part-name">Evidence</p>
          <ul class="proofs">
            {evidence.map((one, i) => (
              <Proof key={i} run={run} proof={one} />
            ))}
          </ul>
        </div>
      )}
      {secondary.length > 0 && (
        <p class="small soft">
          It explains: {secondary.map(({ text, ranks }) => `${text}${ranks > 1 ? ` (${ranks} ranks)` : ""}`).join("; ")}
        </p>
      )}
    </li>
  );
}

function Proof({ run, proof }: { run: string; proof: Evidence }) {
  const target = proofPlace(run, proof);
  const link = target ? href(target) : proof.event ? href(eventPlace(run, proof.event)) : null;
  const source = proof.stream ? `${proof.source}:${proof.line}${proof.last_line > proof.line ? `–${proof.last_line}` : ""}` : proof.event ? "event" : proof.source;
  const where = [proof.rank === null ? "" : `rank ${proof.rank}`, proof.node ?? "", proof.time ? moment(proof.time) : "", proof.count > 1 ? `${proof.count} times` : ""].filter(Boolean);
  return (
    <li>
      <p class="row wrap small soft">
        {link ? (
          <a class="proof-link" href={link}>
            {source}
          </a>
        ) : (
          <span>{source}</span>
        )}
        {where.map((words) => (
          <span key={words}>{words}</span>
        ))}
      </p>
      <pre tabIndex={0}>{plain(proof.text)}</pre>
    </li>
  );
}

function Layers({ findings }: { findings: NonNullable<Diagnosis["document"]["findings"]> }) {
  if (!findings.length) return null;
  return (
    <div>
      <h3>Layers</h3>
      <ul class="layers">
        {findings.map(({ analyzer, layer, verdict, why }) => (
          <li key={analyzer}>
            <ToneChip tone={VERDICTS[verdict] ?? "mute"} word={verdict} />
            <span>
              <b>{(analyzer || layer).replace("_", " ")}</b> <span class="soft">{why}</span>
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Listed({ title, rows }: { title: string; rows: [string, string][] }) {
  if (!rows.length) return null;
  return (
    <div>
      <h3>{title}</h3>
      <dl class="pairs">
        {rows.map(([name, words], i) => (
          <div key={i}>
            <dt>
              <code>{name}</code>
            </dt>
            <dd class="soft">{words}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function Rest({ run, diagnosis }: { run: string; diagnosis: Diagnosis }) {
  const { inputs = [], episodes = [] } = diagnosis.document;
  return (
    <>
      {episodes.length > 1 && <Listed title="Attempts in the logs" rows={episodes.map(({ number, label, summary }) => [`${number} ${label ?? ""}`.trim(), summary])} />}
      {inputs.length > 0 && (
        <details>
          <summary>Read for this: {count(inputs.length, "input")}</summary>
          <dl class="pairs">
            {inputs.map(({ source, kind, lines, why, truncated }) => (
              <div key={source}>
                <dt class="clip" title={source}>
                  <code>{source}</code>
                </dt>
                <dd class="soft">{[kind, count(lines ?? 0, "line"), truncated ? "head and tail alone" : "", why ?? ""].filter(Boolean).join(" · ")}</dd>
              </div>
            ))}
          </dl>
          <a class="small" href={href(runPlace(run, { tab: "logs" }))}>
            All output
          </a>
        </details>
      )}
    </>
  );
}
