"""What to do about a job whose infrastructure failed: move it off a sick node, watch that it goes on, stop what cannot.

``decide`` is pure and level-triggered: what to do follows from how the job and its run are, and from what the audit says was
done, so that a server that was killed goes on where it was. Dead nodes are ``clusters.health``'s matter: it sets them down, and
Slurm then requeues by itself.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from stepward.clusters.spec import Restarts
from stepward.model.states import State

US = 1_000_000
HOUR_US = 3600 * US
BACKOFF_S = 30.0
"""The pause before the second restart of ours within an hour; it doubles with each."""
SAME_STEP = 1
"""Steps by which two deaths may differ and still be at the same one: a heartbeat may miss the last."""
SURE = 0.6
"""Confidence of a cause from which a node is believed to be sick."""
DEAD = frozenset({State.FAILED, State.CRASHED, State.OOM, State.LOST})

Kind = Literal["move", "refuse", "stop", "follow"]
Verdict = Literal["progressed", "failed"]


class Attempt(NamedTuple):
    """An attempt, times in µs.

    Attributes:
        saved: newest step whose checkpoint it made durable.
        lost_nodes: nodes that failed under it.
    """

    number: int
    state: State
    started_at: int
    last_step: int | None = None
    saved: int | None = None
    lost_nodes: tuple[str, ...] = ()


class Fault(NamedTuple):
    """A confirmed event of an attempt with the part of a node that its diagnosis names."""

    event: str
    attempt: int
    label: str
    nodes: tuple[str, ...]
    confidence: float
    summary: str


class JobView(NamedTuple):
    """A job and its run.

    Attributes:
        waits: it is in the queue and not held; ``held``: until somebody releases it.
        nodes: that it runs on; empty where it does not run.
        done: keys of the decisions that the audit knows.
        moved: attempts that were ended by a ``move``.
        room: how many nodes of the cluster may still be taken out of service.
    """

    job: str
    waits: bool
    nodes: tuple[str, ...]
    attempts: Sequence[Attempt]
    faults: Sequence[Fault] = ()
    done: frozenset[str] = frozenset()
    moved: frozenset[int] = frozenset()
    room: int = 1


class Decision(NamedTuple):
    """What to do, why in words, and the key by which the audit knows it again."""

    kind: Kind
    key: str
    why: str
    attempt: int
    nodes: tuple[str, ...] = ()
    event: str = ""
    label: str = ""


def decide(view: JobView, rules: Restarts, now: int) -> list[Decision]:
    """What to do about a job now; what the audit knows is not decided again."""
    if not view.attempts:
        return []
    found = [*_stop(view, rules, now), *_follow(view)]
    if view.nodes:
        found += [
            decision
            for fault in view.faults
            if fault.attempt == view.attempts[-1].number and fault.confidence >= SURE
            for decision in _move(view, fault, rules, now)
        ]
    # One move ends the attempt; what else is sick is seen in the next.
    moves = [one for one in found if one.kind == "move"][1:]
    return [one for one in found if one.key not in view.done and one not in moves]


def judge(attempts: Sequence[Attempt], number: int, rules: Restarts, now: int) -> Verdict | None:
    """Whether a followed attempt reached a step that none before it had; None while that is open."""
    mine = next((one for one in attempts if one.number == number), None)
    if mine is None:
        return "failed"
    before = max((one.last_step for one in attempts if one.number < number and one.last_step is not None), default=-1)
    if (mine.last_step is not None and mine.last_step > before) or mine.state is State.FINISHED:
        return "progressed"
    over = now - mine.started_at > rules.progress_within_s * US
    return "failed" if mine.state.terminal or over else None


def same_death(attempts: Sequence[Attempt]) -> bool:
    """Whether the last two attempts died at the same step and the second had saved nothing new."""
    if len(attempts) < 2:
        return False
    *earlier, last = attempts
    before = earlier[-1]
    if before.state not in DEAD or last.state not in DEAD:
        return False
    best = max((one.saved for one in earlier if one.saved is not None), default=-1)
    if last.saved is not None and last.saved > best:
        return False
    if before.last_step is None or last.last_step is None:
        return before.last_step is None and last.last_step is None
    return abs(before.last_step - last.last_step) <= SAME_STEP


def _stop(view: JobView, rules: Restarts, now: int) -> list[Decision]:
    over = [one for one in view.attempts if one.state.terminal]
    if not view.waits or not over:
        return []
    last = over[-1]
    if same_death(over):
        at = "before its first step" if last.last_step is None else f"at step {last.last_step}"
        why = f"attempts {over[-2].number} and {last.number} died {at}, and nothing was saved between them"
        return [Decision("stop", f"stop:{last.number}", why, last.number)]
    restarts = _restarts(view, now)
    if restarts >= rules.per_hour and (last.state in DEAD or last.number in view.moved):
        why = f"{restarts} restarts within an hour, as many as the policy allows"
        return [Decision("stop", f"stop:{last.number}", why, last.number)]
    return []


def _follow(view: JobView) -> list[Decision]:
    """The newest attempt, where infrastructure ended the one before it."""
    newest = view.attempts[-1]
    before = view.attempts[-2] if len(view.attempts) > 1 else None
    begun = bool(view.nodes) and newest.state is not State.QUEUED
    if before is None or not begun or not (before.lost_nodes or before.number in view.moved):
        return []
    lost = f"{', '.join(before.lost_nodes)} failed" if before.lost_nodes else "it was moved off a sick node"
    why = f"attempt {before.number} ended because {lost}"
    return [Decision("follow", f"follow:{newest.number}", why, newest.number)]


def _move(view: JobView, fault: Fault, rules: Restarts, now: int) -> list[Decision]:
    nodes = tuple(node for node in fault.nodes if node in view.nodes)
    newest = view.attempts[-1]
    if not nodes:
        return []
    restarts = _restarts(view, now)
    named = f"{fault.label} on {', '.join(nodes)}: {fault.summary}"
    refused = None
    if len(nodes) > max(1, len(view.nodes) // 2):
        refused = f"{len(nodes)} of the job's {len(view.nodes)} nodes are named"
    elif len(nodes) > view.room:
        refused = f"only {max(view.room, 0)} more nodes may be taken out of service"
    elif restarts >= rules.per_hour:
        refused = f"{restarts} restarts within an hour, as many as the policy allows"
    key = f"move:{fault.event}"
    if refused is not None:
        return [Decision("refuse", key, f"{named}; {refused}", newest.number, nodes, fault.event, fault.label)]
    pause = BACKOFF_S * 2 ** (restarts - 1) if restarts else 0.0
    if now - newest.started_at < pause * US:
        return []
    return [Decision("move", key, named, newest.number, nodes, fault.event, fault.label)]


def _restarts(view: JobView, now: int) -> int:
    """Attempts within the last hour that were not the first."""
    return sum(
        one.number > 1 and one.state is not State.QUEUED and now - one.started_at < HOUR_US for one in view.attempts
    )
