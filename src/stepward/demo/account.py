"""What the server knows of the demo's run, beside what really happened. Pure: resources in, facts out."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stepward.demo.faults import Kind, Plan, Record
from stepward.diagnose.document import Document, StoredDiagnosis
from stepward.model.points import Chart, StepRow, StepTable
from stepward.model.resources import Attempt, Run, RunEvent, Source
from stepward.model.states import State

SLOW_LOADER_S = 0.2
"""A wait for data that the demo's loader never has by itself (it takes under 10 ms)."""


_EVENTS = {
    Kind.KILLED: "crash",
    Kind.LOADER: "input_bound",
    Kind.NAN: "non_finite",
    Kind.STOPPED: "hang",
    Kind.DISK: "disk_filling",
    Kind.MEMORY: "oom",
}
"""The event that tells of a fault."""
NOT_PROVEN = "not proven"
_CAUSES = {
    Kind.KILLED: NOT_PROVEN,  # nobody in the run can know who sent the signal
    Kind.LOADER: "input_bound",
    Kind.NAN: "numerics_nan",
    Kind.STOPPED: "hang_in_user_code",
    Kind.DISK: "storage_full",
    Kind.MEMORY: "host_oom",
}
"""The label of the taxonomy that a fault has."""


class End(NamedTuple):
    """How an attempt ended."""

    state: State
    exit_code: int | None = None
    signal: str | None = None

    def __str__(self) -> str:
        how = self.signal or (None if self.exit_code is None else f"exit {self.exit_code}")
        return f"{self.state.value} ({how})" if how else self.state.value


class Fact(NamedTuple):
    """One line of the comparison; ``truth`` is empty where the truth has no such line."""

    what: str
    told: str
    truth: str

    @property
    def differs(self) -> bool:
        """Whether the server is wrong."""
        return bool(self.truth) and self.told != self.truth


class Evidence(NamedTuple):
    """What the API answered about one run."""

    run: Run
    sources: Sequence[Source]
    loss: Chart  # by rank, a bucket for each step around the fault
    steps: StepTable
    events: Sequence[RunEvent]  # what detectors are sure of, oldest first
    diagnoses: Sequence[StoredDiagnosis]  # newest first


def true_end(plan: Plan) -> End:
    """How the attempt ends that meets this fault."""
    if plan.kind in (Kind.KILLED, Kind.STOPPED):
        return End(State.CRASHED, signal="SIGKILL")
    if plan.kind is Kind.MEMORY and plan.by == "cgroup":
        return End(State.OOM, signal="SIGKILL")
    return End(State.FAILED, exit_code=1)


def facts(evidence: Evidence, plan: Plan, record: Record) -> list[Fact]:
    """What was known and what was true, line by line."""
    attempts = evidence.run.attempts
    first, last = attempts[0], attempts[-1]
    resumed, lost = record.resumed_step, None
    if resumed is not None:
        lost = record.last_step + 1 - resumed
    return [
        Fact("attempts", str(len(attempts)), "2"),
        Fact("attempt 1 ended", str(End(first.state, first.exit_code, first.signal)), str(true_end(plan))),
        Fact("through rank", _words(ranks_at_fault(evidence, first)), str(record.strike.rank)),
        Fact(*_step(evidence, plan, record)),
        *_detected(evidence, plan, record),
        Fact("cause", _cause(evidence), "" if plan.by == "rlimit" else _CAUSES[plan.kind]),
        Fact("attempt 2 went on at step", str(last.first_step), str(resumed)),
        Fact("steps done twice", str(_lost(evidence, last)), str(lost)),
        Fact("attempt 2 ended", last.state.value, State.FINISHED.value),
        Fact("last words", last_words(evidence, first), ""),
    ]


def root_event(events: Sequence[RunEvent], attempt: int) -> RunEvent | None:
    """What detectors say went wrong first: the first critical event of an attempt, or the one that it follows from."""
    known = {event.id: event for event in events}
    event = next((one for one in events if one.attempt == attempt and one.severity == "critical"), None)
    while event is not None and event.data.get("follows") in known:
        event = known[event.data["follows"]]
    return event


def _detected(evidence: Evidence, plan: Plan, record: Record) -> list[Fact]:
    """What detectors made of it, who had no plan either."""
    event = root_event(evidence.events, 1)
    at_step = plan.kind in (Kind.NAN, Kind.LOADER)
    true_step = record.strike.step if at_step else record.last_step
    return [
        Fact("event", event.type if event else "none", _EVENTS[plan.kind]),
        Fact("of rank", _words(event.ranks if event else []), str(record.strike.rank)),
        Fact("from step" if at_step else "after step", str(event.step if event else None), str(true_step)),
    ]


def end_diagnosis(evidence: Evidence, attempt: int) -> Document | None:
    """What the server makes of the end of an attempt."""
    of_end = (one.document for one in evidence.diagnoses if one.attempt == attempt and one.event is None)
    return next(of_end, None)


def _cause(evidence: Evidence) -> str:
    """The most likely cause of the first attempt's end, by its label."""
    document = end_diagnosis(evidence, 1)
    if document is None:
        return "none"
    return (document.causes[0].label or NOT_PROVEN) if document.causes else NOT_PROVEN


def lost_rows(steps: StepTable, record: Record) -> list[StepRow]:
    """Rows of the first attempt's steps that were done again, and of the one before: each rank's own times."""
    if record.resumed_step is None:
        return []
    return [row for row in steps.rows if row.attempt == 1 and row.step >= record.resumed_step - 1]


def ranks_at_fault(evidence: Evidence, attempt: Attempt) -> list[int]:
    """Ranks that ended as the attempt did; a rank that was only stopped along with them ended otherwise."""
    end = (attempt.state, attempt.exit_code, attempt.signal)
    return sorted(
        source.rank
        for source in _ranks(evidence, attempt)
        if source.rank is not None and (source.state, source.exit_code, source.signal) == end
    )


def last_words(evidence: Evidence, attempt: Attempt) -> str:
    """The reason of the attempt's end, else the last line of the rank at fault."""
    if attempt.reason:
        return attempt.reason
    at_fault = ranks_at_fault(evidence, attempt)
    tails = [source.tail[-1] for source in _ranks(evidence, attempt) if source.rank in at_fault and source.tail]
    return tails[0] if tails else ""


def _step(evidence: Evidence, plan: Plan, record: Record) -> tuple[str, str, str]:
    logged = last_logged(evidence.loss, 1)
    true = str(record.strike.step)
    match plan.kind:
        case Kind.NAN:
            return "loss is NaN from step", str(first_nan(evidence.loss, record.strike.rank)), true
        case Kind.LOADER:
            return "waits for data from step", str(first_wait(evidence.steps, record.strike.rank)), true
        case Kind.DISK:
            return "could not save after step", str(logged), true
        case Kind.MEMORY:
            return "last step", str(logged), str(record.last_step)
    return "stood still before step", str(None if logged is None else logged + 1), true


def first_nan(chart: Chart, rank: int) -> int | None:
    """First step with a value of ``rank`` that is not a number (of a chart with a bucket for each step)."""
    steps = [int(x) for line in chart.lines if line.rank == rank for x, n in zip(line.x, line.n_nan, strict=True) if n]
    return min(steps, default=None)


def first_wait(table: StepTable, rank: int) -> int | None:
    """First step for which ``rank`` waited unusually long for data."""
    waits = (
        row.step for row in table.rows if row.rank == rank and row.phases.get("data_wait", math.nan) > SLOW_LOADER_S
    )
    return min(waits, default=None)


def last_logged(chart: Chart, attempt: int) -> int | None:
    """Last step that an attempt logged. (``Attempt.last_step`` may be one that only began.)"""
    return max((int(line.x_last[-1]) for line in chart.lines if line.attempt == attempt and line.x_last), default=None)


def _lost(evidence: Evidence, last: Attempt) -> int | None:
    logged = last_logged(evidence.loss, 1)
    return None if logged is None or last.first_step is None else logged + 1 - last.first_step


def _ranks(evidence: Evidence, attempt: Attempt) -> Iterable[Source]:
    return (s for s in evidence.sources if s.attempt == attempt.number and s.rank is not None)


def _words(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks)) or "unknown"
