"""What detectors said, as clues: the verdict over steps, heartbeats and samples weighs beside the lines that were written.

An event that a line of output made (its data has the line) is a clue of that line; any other one is a measurement. Only
confirmed events count. What an event says by itself is put into the table below; which of them are consequences is the
matter of the cascade and of ranking, as for every other clue.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from stepward.detect.signals import Certainty, Detected
from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.lines import Line, clean
from stepward.model.taxonomy import LABELS

MOST_PLACES = 8
"""Ranks of an event that get a clue of their own; where there are more, it is nobody's."""
HURTS = frozenset(
    {"straggler", "slowdown", "duty_cycle", "input_bound", "idle_accelerators", "hang", "recompilation_storm",
     "checkpoint_stall", "loss_spike", "divergence", "non_finite", "memory_growth", "disk_filling", "rule"}
)  # fmt: skip
"""Types of events after which a run that goes on is degraded, known cause or not."""


class _Says(NamedTuple):
    label: str
    role: Role
    more: float = 0.0


_TYPES: dict[str, _Says] = {
    "non_finite": _Says("numerics_nan", Role.ROOT, 0.5),
    "divergence": _Says("numerics_nan", Role.ROOT),
    "loss_spike": _Says("numerics_nan", Role.EITHER, 0.6),
    "input_bound": _Says("input_bound", Role.ROOT, 0.5),
    "duty_cycle": _Says("input_bound", Role.CONFIRM, -0.4),
    "idle_accelerators": _Says("input_bound", Role.CONFIRM, -0.4),
    "checkpoint_stall": _Says("checkpoint_stall", Role.ROOT, 0.5),
    "recompilation_storm": _Says("recompilation", Role.ROOT, 0.5),
    "memory_growth": _Says("host_oom", Role.CONFIRM, 0.3),
    "disk_filling": _Says("storage_full", Role.EITHER, 0.3),
    "preemption": _Says("preemption", Role.ROOT, 1.0),
    "straggler": _Says("workload_imbalance", Role.EITHER),
}
_LABELLED: dict[str, _Says] = {
    "hardware_fault": _Says("", Role.ROOT, 0.5),
    "oom": _Says("", Role.ROOT, 1.0),
    "crash": _Says("", Role.EITHER, 0.3),
    "telemetry_gap": _Says("", Role.EITHER, 0.3),
}
"""Types whose events name the label themselves."""
_HANGS: dict[str, _Says] = {
    "waits in another collective than the others": _Says("collective_desync", Role.ROOT),
    "says so itself": _Says("hang_in_user_code", Role.CONFIRM),
    "ended": _Says("hang_in_user_code", Role.CASCADE),
    "is not heard of": _Says("hang_in_user_code", Role.EITHER, 0.5),
}
"""By how the culprit of a hang shows itself (``detect.culprit``); any other way is its own work that does not end."""


def seen_from(source: str) -> str:
    """The source of the evidence that an event gives."""
    return f"event {source}"


def event_clues(events: Iterable[Detected]) -> list[Clue]:
    """Clues of confirmed events."""
    return [made for event in events if event.certainty is Certainty.CONFIRMED for made in _clues(event)]


def hurts(events: Iterable[Detected]) -> bool:
    """Whether something that detectors confirmed hurts a run that goes on."""
    return any(event.certainty is Certainty.CONFIRMED and event.type in HURTS for event in events)


def _clues(event: Detected) -> Iterator[Clue]:
    said = _said(event)
    if said is None or said.label not in LABELS:
        return
    line, kind = _line(event)
    for rank, node in _places(event):
        made = clue(
            event.data.get("signature") or f"event_{event.type}",
            said.label,
            kind,
            line,
            (clean(event.title) if kind is Kind.METRICS else "") or LABELS[said.label].means,
            role=said.role,
            more=said.more,
            rank=rank,
            node=node,
            names_node=node is not None,
        )
        made.device = str(event.devices[0]) if len(event.devices) == 1 else None
        yield made


def _said(event: Detected) -> _Says | None:
    if event.type == "hang":
        return _hang(event.data)
    if event.type in _LABELLED:
        # An end that is called `oom` without a line to show was the work of the kernel, a control group or the scheduler.
        unnamed = "host_oom" if event.type == "oom" else None
        named = event.data.get("label") or event.data.get("suspect") or unnamed
        return _LABELLED[event.type]._replace(label=str(named)) if named else None
    said = _TYPES.get(event.type)
    if said is not None and event.type == "memory_growth" and "/device/" in str(event.data.get("metric")):
        return said._replace(label="gpu_oom")
    return said


def _hang(data: Mapping[str, Any]) -> _Says | None:
    """All ranks that stand alike accuse nobody: any of network, storage and code could be behind them."""
    if data.get("unknown"):
        return None
    sure = 0.9 if data.get("sure") else 0.2
    return _HANGS.get(str(data.get("why")), _Says("hang_in_user_code", Role.EITHER, sure))


def _line(event: Detected) -> tuple[Line, Kind]:
    """Where the evidence stands: the line that made the event, or the event itself."""
    data, seconds = event.data, event.started_at / 1e6
    text, number = data.get("line"), data.get("number")
    if isinstance(text, str) and isinstance(number, int) and isinstance(data.get("source"), str):
        kind = next((kind for kind in (Kind.KERNEL, Kind.SCHEDULER) if data["source"].endswith(kind.value)), Kind.LOG)
        return Line(data["source"], number, clean(text), clean(text), time=seconds), kind
    return Line(seen_from(event.id), 1, clean(event.title), clean(event.title), time=seconds), Kind.METRICS


def _places(event: Detected) -> list[tuple[int | None, str | None]]:
    """Ranks and nodes that the event names; neither where it names many."""
    node = event.nodes[0] if len(event.nodes) == 1 else None
    if 0 < len(event.ranks) <= MOST_PLACES:
        return [(rank, node) for rank in event.ranks]
    if 0 < len(event.nodes) <= MOST_PLACES:
        return [(None, name) for name in event.nodes]
    return [(None, None)]
