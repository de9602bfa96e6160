"""From what was heard of an attempt to its state: the table of ARCHITECTURE.md (States of an attempt), as one function.

Nothing is remembered between calls: the state follows from the sources, their exits and the clock, so that a heartbeat
that returns reopens ``hung`` and ``lost``, and an exit that is known later corrects ``lost``, by themselves. Times are on
the server's clock, µs since the epoch; whoever builds the views has corrected them. Pure: no clock, no I/O.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from stepward.ingest.hearing import Hearing
from stepward.model.resources import instant
from stepward.model.states import Exit, State, Verdict, Witness, settle, verdict
from stepward.model.words import SourceKind

WAITING_US = 60_000_000
"""How long an announced attempt is waited for after its launcher was last heard; a scheduler's word holds without end."""


class SourceView(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a source of an attempt.

    Attributes:
        heard_at: newest instant at which it is known to have been alive: when a heartbeat was *made*, not when it came.
        begun: it has sent a heartbeat, points or output, not only its configuration.
        exits: what it saw end: itself (a rank), ranks or all of them (a wrapper), the job (a watcher).
        alive, stopped: ranks that it saw running, or stopped, in its newest heartbeat.
        next_attempt: key of the attempt that it has announced.
    """

    writer: str
    kind: SourceKind
    heard_at: int
    rank: int | None = None
    node: str = ""
    begun: bool = True
    exits: Sequence[Exit] = ()
    alive: Sequence[int] = ()
    stopped: Sequence[int] = ()
    next_attempt: str | None = None


class LaunchView(msgspec.Struct, frozen=True, kw_only=True):
    """What a watcher said last of the job that an attempt lies in.

    Attributes:
        state: ``queued``, ``starting`` or ``running``; None where it has not said yet.
        paused: the scheduler has suspended the job.
        heard_at: when the watcher was last heard, whatever it said.
    """

    state: State | None
    reason: str | None
    paused: bool
    heard_at: int


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt with its sources.

    Attributes:
        sources: those inside, and the watchers whose word is about this attempt.
        hang: title of a hang event that is open.
        launch: of the newest attempt of a job alone; what the scheduler says now is not about earlier ones.
    """

    key: str
    sources: Sequence[SourceView]
    hang: str | None = None
    launch: LaunchView | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an attempt and what backs it; ``ended_at`` in terminal states only."""

    state: State
    exit_code: int | None = None
    signal: str | None = None
    reason: str | None = None
    ended_at: int | None = None


_UNDER_WAY = frozenset({State.STARTING, State.RUNNING})


class _Node(NamedTuple):
    """What is going on on one node: somebody lives there, is hung, has ended for sure, or has fallen silent."""

    lives: bool = False
    hung: str | None = None
    silent: str | None = None


def attempt_standing(attempt: AttemptView, hearing: Hearing, now: int) -> Standing:
    """The state of an attempt at ``now``."""
    exits = _exits(attempt.sources)
    if any(exit.by is Witness.SCHEDULER for exit in exits):
        return _ended(settle(exits), exits)
    launch = attempt.launch
    nodes = [_node(list(sources), hearing, now) for sources in _by_node(attempt.sources)]
    if launch is not None and not nodes:
        return _told(launch, hearing, now)
    if launch is not None and launch.paused and hearing.holds(launch.heard_at, now):
        return Standing(state=State.RUNNING, reason=launch.reason)
    hung = next((node.hung for node in nodes if node.hung), None)
    if any(node.lives or node.hung for node in nodes):
        return _living(attempt, hung, exits, [node.silent for node in nodes if node.silent])
    silent = next((node.silent for node in nodes if node.silent), None)
    if exits and (silent is None or any(verdict(exit).state is not State.FINISHED for exit in exits)):
        return _ended(settle(exits), exits)
    if launch is not None and launch.state in _UNDER_WAY and hearing.holds(launch.heard_at, now):
        return Standing(state=State.HUNG, reason=f"{silent or 'nobody is heard'}; the scheduler says that the job runs")
    heard = max((source.heard_at for source in attempt.sources), default=now)
    return Standing(state=State.LOST, reason=silent or "nobody was heard", ended_at=heard)


def run_standing(
    newest: AttemptView, standing: Standing, known: Iterable[str], hearing: Hearing, now: int
) -> tuple[State, str | None]:
    """The state of a run and its reason: that of its newest attempt, or ``waiting`` for the next one, queued or announced."""
    known = list(known)
    if standing.state.terminal and _announced(newest, frozenset(known), hearing, now):
        return State.WAITING, f"the next attempt is announced; the last one: {_words(standing)}"
    if standing.state is State.QUEUED and any(key != newest.key for key in known):
        return State.WAITING, f"the next attempt is queued; {standing.reason}" if standing.reason else None
    return standing.state, standing.reason


def source_state(source: SourceView, attempt: Standing, hearing: Hearing, now: int) -> Verdict:
    """The state of one source, for the table of sources: its own end, or whether it is heard."""
    own = settle(exit for exit in source.exits if exit.rank in (None, source.rank))
    if own is not None:
        return own
    if hearing.holds(source.heard_at, now):
        return Verdict(State.RUNNING if source.begun else State.STARTING)
    if attempt.state is State.HUNG and source.kind is SourceKind.RANK:
        return Verdict(State.HUNG)
    return Verdict(State.LOST)


def _told(launch: LaunchView, hearing: Hearing, now: int) -> Standing:
    """The state of an attempt inside of which nobody is heard: the scheduler's, for as long as nothing else is known."""
    reason = launch.reason
    if not hearing.holds(launch.heard_at, now):
        silent = f"watcher not heard since {instant(launch.heard_at)}"
        reason = f"{silent}; until then: {reason}" if reason else silent
    return Standing(state=launch.state or State.STARTING, reason=reason)


def _exits(sources: Sequence[SourceView]) -> list[Exit]:
    """All observed ends in an order that does not depend on that of the sources; a rank's own end names the rank."""
    exits = [
        msgspec.structs.replace(exit, rank=source.rank)
        if source.kind is SourceKind.RANK and exit.rank is None
        else exit
        for source in sources
        for exit in source.exits
    ]
    return sorted(exits, key=lambda exit: (exit.at, exit.rank is None, exit.rank or 0, verdict(exit).state))


def _by_node(sources: Sequence[SourceView]) -> list[list[SourceView]]:
    nodes: dict[str, list[SourceView]] = {}
    for source in sources:
        if source.kind is not SourceKind.WATCHER:
            nodes.setdefault(source.node, []).append(source)
    return list(nodes.values())


def _node(sources: list[SourceView], hearing: Hearing, now: int) -> _Node:
    wrappers = [source for source in sources if source.kind is SourceKind.WRAPPER]
    if wrappers and all(_has_final_exit(wrapper) for wrapper in wrappers):
        return _Node()
    others = [source for source in sources if source.kind is not SourceKind.RANK]
    witnesses = [source for source in others if not _has_final_exit(source) and hearing.holds(source.heard_at, now)]
    reaped = {exit.rank for source in others for exit in source.exits if exit.rank is not None}
    ranks = _ranks(source for source in sources if source.kind is SourceKind.RANK and source.rank not in reaped)
    living = {rank for rank, writers in ranks.items() if _rank_lives(writers, hearing, now)}
    exited = {rank for rank, writers in ranks.items() if any(writer.exits for writer in writers)} - living
    silent = set(ranks) - living - exited
    hung, node = _hung(silent, witnesses, reaped), sources[0].node
    sees = any(witness.kind is SourceKind.WRAPPER or witness.alive for witness in witnesses)
    # Where agents alone write, in the run of a node, to be heard is to live.
    sees = sees or (bool(witnesses) and not ranks and not wrappers)
    if living or sees or hung:
        return _Node(True, hung, _unheard(silent, node))
    seen = {rank for wrapper in wrappers for rank in (*wrapper.alive, *wrapper.stopped)}
    missing = (silent | seen) - reaped - exited
    ended_for_sure = not missing and (reaped or exited or not (ranks or wrappers))
    return _Node() if ended_for_sure else _Node(silent=_unheard(missing, node) or _unheard_node(node))


def _ranks(sources: Iterable[SourceView]) -> dict[int, list[SourceView]]:
    """A rank may have several writers: after a fork the child writes for itself."""
    ranks: dict[int, list[SourceView]] = {}
    for source in sources:
        ranks.setdefault(source.rank or 0, []).append(source)
    return ranks


def _rank_lives(writers: list[SourceView], hearing: Hearing, now: int) -> bool:
    return any(not writer.exits and hearing.holds(writer.heard_at, now) for writer in writers)


def _has_final_exit(source: SourceView) -> bool:
    return source.kind is not SourceKind.RANK and any(exit.rank is None for exit in source.exits)


def _hung(silent: set[int], witnesses: list[SourceView], reaped: set[int]) -> str | None:
    """A stopped process is no progress for sure; a silent one that is seen running says that its threads stand still."""
    stopped = sorted({rank for witness in witnesses for rank in witness.stopped} - reaped)
    if stopped:
        return f"{_named(stopped)} stopped (process state T)"
    alive = sorted({rank for witness in witnesses for rank in witness.alive}.intersection(silent))
    return f"{_named(alive)} silent, the process is alive" if alive else None


def _living(attempt: AttemptView, hung: str | None, exits: list[Exit], silent: list[str]) -> Standing:
    if hung or attempt.hang:
        return Standing(state=State.HUNG, reason=hung or attempt.hang)
    if not any(source.begun for source in attempt.sources if source.kind is not SourceKind.WATCHER):
        return Standing(state=State.STARTING)
    bad = [exit for exit in exits if verdict(exit).state is not State.FINISHED]
    if bad:
        first = min(bad, key=lambda exit: exit.at)
        who = "a rank" if first.rank is None else f"rank {first.rank}"
        return Standing(state=State.RUNNING, reason=f"{who} has ended: {_words(verdict(first))}; others live")
    return Standing(state=State.RUNNING, reason=silent[0] if silent else None)


def _ended(settled: Verdict | None, exits: list[Exit]) -> Standing:
    assert settled is not None
    # The scheduler's clock is the job's; what is told from inside may come late, and its clock is reckoned from when it came.
    scheduled = [exit.at for exit in exits if exit.by is Witness.SCHEDULER]
    return Standing(
        state=settled.state,
        exit_code=settled.exit_code,
        signal=settled.signal,
        reason=settled.reason,
        ended_at=max(scheduled or (exit.at for exit in exits)),
    )


def _announced(newest: AttemptView, known: frozenset[str], hearing: Hearing, now: int) -> bool:
    for source in newest.sources:
        promised = any(not exit.final for exit in source.exits)
        if source.next_attempt in known and source.next_attempt is not None:
            continue
        if promised and any(exit.by is Witness.SCHEDULER and not exit.final for exit in source.exits):
            return True
        if (promised or source.next_attempt) and hearing.silence(source.heard_at, now) <= WAITING_US:
            return True
    return False


def _words(end: Standing | Verdict) -> str:
    how = f"exit code {end.exit_code}" if end.exit_code is not None else end.signal
    return " ".join(filter(None, [end.state.value, f"({how})" if how else "", end.reason and f"- {end.reason}"]))


def _named(ranks: list[int]) -> str:
    listed = ", ".join(str(rank) for rank in ranks[:8]) + (", ..." if len(ranks) > 8 else "")
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed}"


def _unheard(ranks: set[int], node: str) -> str | None:
    return f"{_named(sorted(ranks))} no longer heard{_on(node)}, no witness of an end" if ranks else None


def _unheard_node(node: str) -> str:
    return f"no heartbeat{_on(node)}, no witness of an end"


def _on(node: str) -> str:
    return f" on {node}" if node else ""
