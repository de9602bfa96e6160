"""How a run stands, from the product's own states: for who knows them and has no text of a scheduler to read."""

from collections.abc import Sequence

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


def said_by_scheduler(
    state: State, reason: str, at_us: int | None, failed_nodes: Sequence[str] = ()
) -> SchedulerVerdict:
    """The state that a scheduler gave an attempt, its word for why, and the nodes that it lost."""
    words = clean(f"the scheduler says {state.value}" + (f": {reason}" if reason else ""))
    time = None if at_us is None else at_us / 1e6
    first, *others = (Line(SOURCE, 1, words, words, time=time, node=node) for node in failed_nodes or (None,))
    verdict = verdict_of(_WORDS[state], reason, first)
    verdict.clues += [clue for line in others for clue in verdict_of(_WORDS[state], reason, line).clues]
    for clue in verdict.clues:
        clue.names_node = bool(failed_nodes)
    return verdict


def stands(state: State) -> SchedulerVerdict:
    """The state of an attempt that no scheduler speaks of: how it ended, not why."""
    end: End = "completed" if state is State.FINISHED else "taken" if state in _TAKEN else "failed"
    if not state.terminal:
        end = "pending" if state is State.QUEUED else "running"
    return SchedulerVerdict(end=end)
