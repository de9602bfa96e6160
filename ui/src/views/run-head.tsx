/** The head of a run: who it is, how it is, what is missing, and its attempts. */

import { address, type Attempt, call, type Run, type RunChange, runPath } from "../api";
import { Chip, Shape, toneOf } from "../parts/chip";
import { copy } from "../parts/copy";
import { Glyph } from "../parts/glyph";
import { Menu } from "../parts/menu";
import { say } from "../parts/notice";
import { Notes, Tags } from "../parts/tags";
import { isScheduled } from "../state/jobs";
import { asProblem } from "../state/load";
import { now } from "../state/now";
import { href } from "../state/place";
import { mayEdit } from "../state/session";
import { runsPlace } from "../state/url";
import { ago, between, count, duration, LIVE, moment, step } from "../words";
import "../parts/facts.css";
import { RunJob } from "./run-job";

interface Props {
  run: Run;
  put(run: Run): void;
}

export function RunHead({ run, put }: Props) {
  const change = async (change: RunChange) => {
    put({ ...run, ...change } as Run);
    try {
      put(await call<Run>("PATCH", runPath(run.id), { body: change }));
    } catch (error) {
      put(run);
      say(asProblem(error).message, true);
    }
  };
  const editing = <T,>(make: (value: T) => RunChange) => (mayEdit() ? (value: T) => void change(make(value)) : undefined);
  return (
    <header class="run-head">
      <div class="row wrap">
        <a class="faint" href={href(runsPlace({ project: run.project }))}>
          {run.project}
        </a>
        <span class="faint" aria-hidden="true">
          /
        </span>
        <h1 class="clip" title={run.name}>
          <bdi>{run.name}</bdi>
        </h1>
        <Chip state={run.state} />
        {run.state_reason && <span class={`reason ${run.state === "queued" ? "whole" : "clip"} ${toneOf(run.state)}-ink`} title={run.state_reason}>{run.state_reason}</span>}
        <span class="grow" />
        <Actions run={run} />
      </div>
      <Facts run={run} />
      <div class="row wrap run-words">
        <Tags tags={run.tags} onChange={editing((tags: string[]) => ({ tags }))} />
        <Notes notes={run.notes} onChange={editing((notes: string) => ({ notes }))} />
        <Warnings run={run} />
      </div>
      <Attempts run={run} />
    </header>
  );
}

function Actions({ run }: { run: Run }) {
  return (
    <Menu label="Actions for this run" button={<Glyph name="menu" />}>
      {(close) => (
        <>
          <button onClick={() => (close(), void copy(run.id, "Id copied"))}>
            <Glyph name="copy" /> Copy id
          </button>
          <button onClick={() => (close(), void copy(`stepward show ${run.id}`, "Command copied"))}>
            <Glyph name="copy" /> Copy as command
          </button>
          <button onClick={() => (close(), void copy(location.href, "Link copied"))}>
            <Glyph name="link" /> Copy link to this view
          </button>
          <a class="button" href={address(runPath(run.id, "/export"))} download={`${run.id}.ndjson`} onClick={close}>
            <Glyph name="download" /> All points (NDJSON)
          </a>
        </>
      )}
    </Menu>
  );
}

function Facts({ run }: { run: Run }) {
  const live = LIVE.has(run.state);
  const end = run.ended_at ?? (live ? null : run.last_seen_at);
  const newest = run.attempts.at(-1);
  const facts: [string, string, string?][] = [
    ["Step", step(run.step)],
    ["Duration", duration(Math.max(0, Math.floor(between(run.started_at, end, now.value))))],
    ["Started", run.started_at ? ago(run.started_at, now.value) : "not yet", moment(run.started_at ?? run.created_at)],
    [live ? "Last seen" : "Ended", ago(live ? run.last_seen_at : (run.ended_at ?? run.last_seen_at), now.value), moment(live ? run.last_seen_at : run.ended_at)],
    ["Kind", run.kind],
  ];
  if (newest?.ranks) facts.push(["Ranks", String(newest.ranks)]);
  if (newest?.nodes.length && !isScheduled(run)) facts.push([newest.nodes.length > 1 ? "Nodes" : "Node", newest.nodes.slice(0, 3).join(", ") + (newest.nodes.length > 3 ? ` +${newest.nodes.length - 3}` : ""), newest.nodes.join(" ")]);
  facts.push(["Id", run.id, run.key ? `key ${run.key}` : undefined]);
  return (
    <dl class="facts">
      <RunJob run={run} />
      {facts.map(([name, value, title]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class={name === "Id" ? "mono clip" : "number clip"} title={title}>
            {value}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** What the page can't show, said: points under way, refused or damaged. */
function Warnings({ run }: { run: Run }) {
  const said: [boolean, string, string][] = [
    [run.dropped > 0, `${count(run.dropped, "point")} dropped`, "The spool of the training host was full: these points are lost."],
    [run.gaps > 0, `${count(run.gaps, "gap")} in the journal`, "Damaged stretches of the journal were skipped: what stood in them is lost."],
    [run.pending > 0, `${count(run.pending, "point")} pending`, "Taken from devices and not yet written; they follow."],
  ];
  const list = said.filter(([shown]) => shown);
  return list.length ? (
    <ul class="row wrap warnings">
      {list.map(([, text, title]) => (
        <li key={text} class="warn" title={title}>
          <Glyph name="warn" /> {text}
        </li>
      ))}
    </ul>
  ) : null;
}

function Attempts({ run }: { run: Run }) {
  if (!run.attempts.length) return null;
  return (
    <ol class="attempts" aria-label="Attempts">
      {run.attempts.map((attempt) => (
        <li key={attempt.key} class={`attempt ${toneOf(attempt.state)}`} data-state={attempt.state} title={`attempt ${attempt.number}, key ${attempt.key}\n${moment(attempt.started_at)} – ${moment(attempt.ended_at)}\n${attempt.nodes.join(" ")}`}>
          <Shape state={attempt.state} />
          <b>{attempt.number}</b>
          <span class="clip">{[attempt.state, outcome(attempt)].filter(Boolean).join(" · ")}</span>
          <span class="attempt-more number clip">{more(attempt, now.value)}</span>
        </li>
      ))}
    </ol>
  );
}

/** How an attempt ended: exit code or signal, and why. */
function outcome({ exit_code, signal, reason }: Attempt): string {
  const end = signal ?? (exit_code === null || exit_code === 0 ? "" : `exit ${exit_code}`);
  return [end, reason].filter(Boolean).join(" · ");
}

function more(attempt: Attempt, at: number): string {
  const long = between(attempt.started_at, attempt.ended_at, LIVE.has(attempt.state) ? at : NaN);
  const steps = attempt.first_step === null ? "" : `steps ${step(attempt.first_step)}–${step(attempt.last_step)}`;
  return [Number.isFinite(long) ? duration(Math.max(0, Math.floor(long))) : "", steps].filter(Boolean).join(" · ");
}
