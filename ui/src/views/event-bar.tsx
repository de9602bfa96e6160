/** Which events are shown: selects above a table of them; they only write the place. */

import { Glyph } from "../parts/glyph";
import { adjust } from "../state/place";
import { CERTAINTIES, type EventChoice, SEVERITIES } from "../state/url";
import { eventWord } from "../words";

/** The words of `detect`, for views that do not hold all events. */
export const TYPES = [
  "hang", "crash", "oom", "hardware_fault", "straggler", "slowdown", "input_bound", "duty_cycle", "idle_accelerators", "loss_spike", "divergence", "non_finite", "memory_growth",
  "disk_filling", "checkpoint_stall", "recompilation_storm", "restart_loop", "no_progress_restart", "preemption", "scheduling_delay", "telemetry_gap", "rule",
] as const;

export function EventBar({ choice, types }: { choice: EventChoice; types: readonly string[] }) {
  const offered = [...new Set([...types, ...(choice.type ? [choice.type] : [])])].sort();
  const some = choice.type || choice.certainty || choice.severity;
  return (
    <>
      <Select label="Type" value={choice.type} options={["", ...offered]} any="All types" choose={(type) => adjust({ type })} />
      <Select label="Certainty" value={choice.certainty} options={CERTAINTIES} any="Any certainty" choose={(certainty) => adjust({ certainty })} />
      <Select label="Severity" value={choice.severity} options={SEVERITIES} any="Any severity" choose={(severity) => adjust({ severity })} />
      {some && (
        <button class="quiet" onClick={() => adjust({ type: "", certainty: "", severity: "" })}>
          <Glyph name="close" /> Show all
        </button>
      )}
    </>
  );
}

interface SelectProps<T extends string> {
  label: string;
  value: T;
  options: readonly T[];
  any: string;
  choose(value: T): void;
}

function Select<T extends string>({ label, value, options, any, choose }: SelectProps<T>) {
  return (
    <select aria-label={label} value={value} onChange={(event) => choose(event.currentTarget.value as T)}>
      {options.map((option) => (
        <option key={option} value={option}>
          {option === "" ? any : eventWord(option)}
        </option>
      ))}
    </select>
  );
}
