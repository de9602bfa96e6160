"""Log entries of ``ml-goodput-measurement`` as events of the ledger.

Its log knows job starts, step starts and a few phases; no attempts, no ends of steps, no checkpoints. Assumed: each
``job_start_time`` begins an attempt; an attempt ends where nothing more of it is heard (rule 3), the last one with
``job_end_time``; a custom badput event whose type names a phase of ours is that phase, any other one only annotates.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from stepward.goodput.events import US, Event

PHASES = {
    "tpu_init": "init",
    "training_prep": "init",
    "data_loading": "data_wait",
    "elastic_wait": "wait_for_nodes",
    "elastic_reinit": "init",
}
CUSTOM = {
    "eval": "evaluation",
    "evaluation": "evaluation",
    "checkpoint_save": "checkpoint_save",
    "checkpoint_restore": "restore",
    "compile": "compile",
}
"""Words in ``custom_badput_event_type`` -> phase."""


def events_of(entries: Iterable[Mapping[str, Any]], devices: int | None = None) -> list[Event]:
    """The events that log entries tell, in no order; entries that tell nothing are passed over.

    Args:
        devices: of the job, which its log does not say.
    """
    known = sorted((fact for entry in entries for fact in _facts(entry)), key=lambda fact: (fact[0], fact[1]))
    events: list[Event] = []
    attempt = 0
    for t, order, kind, name in known:
        if kind == "job_start":
            attempt += 1
            events.append(Event(t, "attempt_started", attempt, devices=devices))
        elif kind == "job_end":
            events.append(Event(t, "job_ended", reason="finished"))
        elif attempt and kind == "step":
            events.append(Event(t, "step_started", attempt, step=order))
        elif attempt:
            events.append(Event(t, f"phase_{kind}", attempt, phase=name))
    return events


def _facts(entry: Mapping[str, Any]) -> Iterable[tuple[int, int, str, str]]:
    """(ns, order or step, kind, phase) of an entry."""
    for field, order, kind in (("job_start_time", -2, "job_start"), ("job_end_time", 1 << 60, "job_end")):
        if (t := _ns(entry.get(field))) is not None:
            yield t, order, kind, ""
    step = entry.get("step_count")
    if isinstance(step, int) and (t := _ns(entry.get("step_start_time"))) is not None:
        yield t, step, "step", ""
    names = dict(PHASES)
    custom = str(entry.get("custom_badput_event_type", "")).lower()
    names["custom_badput_event"] = next((phase for word, phase in CUSTOM.items() if word in custom), custom or "custom")
    for prefix, phase in names.items():
        for end, kind in (("start", "started"), ("end", "ended")):
            if (t := _ns(entry.get(f"{prefix}_{end}_time"))) is not None:
                yield t, -1, kind, phase


def _ns(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not abs(seconds) < 1e15:
        return None
    return round(seconds * 1e6) * US
