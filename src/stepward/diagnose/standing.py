"""How a run stands, from the product's own states: for who knows them and has no text of a scheduler to read."""

from stepward.diagnose.lines import Line, clean
from stepward.diagnose.slurm import verdict_of
from stepward.diagnose.verdicts import End, SchedulerVerdict
from stepward.model.states import State

SOURCE = "scheduler state"
_WORDS = {
    State.QUEUED: "PENDING",
    State.STARTING: "CONFIGURING",
    State.RUNNING: "RUNNING",
    State.HUNG: "RUNNING",
    State.FINISHED: "COMPLETED",
    State.FAILED: "FAILED",
    State.CRASHED: "FAILED",
    State.OOM: "OUT_OF_MEMORY",
    State.TIMEOUT: "TIMEOUT",
    State.PREEMPTED: "PREEMPTED",
    State.CANCELLED: "CANCELLED",
    State.LOST: "NODE_FAIL",
}
_TAKEN = frozenset({State.TIMEOUT, State.PREEMPTED, State.CANCELLED, State.LOST})


def said_by_scheduler(state: State, reason: str, at_us: int | None) -> SchedulerVerdict:
    """The state that a scheduler gave an attempt, and its word for why."""
    words = clean(f"the scheduler says {state.value}" + (f": {reason}" if reason else ""))
    line = Line(SOURCE, 1, words, words, time=None if at_us is None else at_us / 1e6)
    return verdict_of(_WORDS[state], reason, line)


def stands(state: State) -> SchedulerVerdict:
    """The state of an attempt that no scheduler speaks of: how it ended, not why."""
    end: End = "completed" if state is State.FINISHED else "taken" if state in _TAKEN else "failed"
    if not state.terminal:
        end = "pending" if state is State.QUEUED else "running"
    return SchedulerVerdict(end=end)
