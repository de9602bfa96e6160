"""Which rank the others wait for."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stepward.detect.progress import US, Attempt, RankState
from stepward.detect.series import median
from stepward.detect.signals import Hit
from stepward.model.words import HEARTBEAT_S, MISSED_HEARTBEATS, Phase

AT_WORK = 50.0
"""Per cent: a device that waits in a collective spins and looks busy."""
IDLE = 20.0
_WAITS = frozenset({Phase.COLLECTIVE.value, Phase.BACKWARD.value, Phase.OPTIMIZER.value})
_WORK = re.compile(r"SeqNum=(\d+), OpType=(\w+)")
_GROUP = re.compile(r"\bPG (?:ID|GUID) (\w+)")
_STANDS = frozenset({"collective_desync", "hang_in_user_code", "gpu_driver_firmware", "gpu_off_bus"})
_GRACE_US = int(HEARTBEAT_S * MISSED_HEARTBEATS * US)


class Culprit(NamedTuple):
    """Ranks that others wait for (none where nothing tells), how that shows, and whether it is hard evidence."""

    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    why: str
    sure: bool


class Watchdogs:
    """Ranks whose output says that a collective timed out, and ranks whose own lines say what is wrong with them."""

    def __init__(self) -> None:
        self.ranks: set[int] = set()
        self._times: dict[int, int] = {}
        self._waits: dict[int, tuple[str, int, str]] = {}
        """Group, sequence number and name of the collective that a rank waits in."""
        self.named: set[int] = set()

    @property
    def known(self) -> tuple[int, int]:
        """Changes when more is known."""
        return len(self.ranks), len(self.named)

    def odd(self) -> list[int]:
        """Ranks that wait in another collective than most of their group, or in an earlier one."""
        groups: dict[str, dict[int, tuple[int, str]]] = {}
        for rank, (group, number, name) in self._waits.items():
            groups.setdefault(group, {})[rank] = (number, name)
        return sorted(rank for waits in groups.values() for rank in _odd_wait(waits))

    def hit(self, hit: Hit) -> None:
        """Take a known line."""
        if hit.rank is None:
            return
        self._times[hit.rank] = hit.time
        if hit.label == "collective_desync" and hit.role in ("cascade", "either"):
            self.ranks.add(hit.rank)
            found = _WORK.search(hit.text)
            if found:
                group = _GROUP.search(hit.text)
                self._waits.setdefault(hit.rank, (group[1] if group else "", int(found[1]), found[2]))
        elif hit.label in _STANDS and hit.role == "root":
            self.named.add(hit.rank)

    def forget(self, before: int) -> None:
        """Lines of ranks that have said nothing since are of something else."""
        for rank in [rank for rank, time in self._times.items() if time < before]:
            self.ranks.discard(rank)
            self.named.discard(rank)
            self._waits.pop(rank, None)
            del self._times[rank]


def _odd_wait(waits: Mapping[int, tuple[int, str]]) -> list[int]:
    if len(waits) < 2:
        return []
    common, count = Counter(waits.values()).most_common(1)[0]
    if count * 2 > len(waits):
        return [rank for rank, wait in waits.items() if wait != common]
    last = max(number for number, _ in waits.values())
    return [rank for rank, (number, _) in waits.items() if number < last]


def find_culprit(
    attempt: Attempt,
    standing: list[RankState],
    behind: list[RankState],
    duty: Mapping[tuple[str, int | None], float],
    watchdogs: Watchdogs,
) -> Culprit:
    """The rank that others wait for, by the first that tells (thresholds 1, 2.1, 2.3).

    A process that is stopped; one that ended while others wait; ranks that are no longer heard of; the rank that did not
    join in its peers' watchdog lines; fewest steps; a phase of its own while most wait in a collective; an idle device
    among busy ones; alone with its silence.
    """
    alone = len(standing) <= 1
    for why, found, sure in (
        ("is stopped", [s.rank for s in standing if s.stopped], True),
        ("ended", _gone(attempt, behind), True),
        ("is not heard of", silent(standing), True),
        ("says so itself", sorted(watchdogs.named), True),
        ("waits in another collective than the others", watchdogs.odd(), True),
        ("did not report the time-out of its peers", _unreported(standing, watchdogs), True),
        ("is behind the others", _fewest(standing), True),
        ("stands in another phase than the others", _odd_phase(standing), True),
        ("idles while the others wait busily", _idle(attempt, duty), False),
        ("stands while the others go on", _only(standing, behind), False),
        ("stands", [standing[0].rank] if alone and standing else [], False),
    ):
        if found and (alone or len(found) * 2 <= len(standing) or why == "ended"):
            ranks = tuple(sorted(found))
            return Culprit(ranks, _nodes(attempt, ranks), why, sure)
    return Culprit((), (), "all ranks stand alike", False)


def _nodes(attempt: Attempt, ranks: Iterable[int]) -> tuple[str, ...]:
    return tuple(sorted({node for rank in ranks if (node := attempt.node_of(rank))}))


def _gone(attempt: Attempt, behind: list[RankState]) -> list[int]:
    """Ranks that ended badly before the others stood, or soon after."""
    since = max((state.moved_at for state in behind), default=0) + _GRACE_US
    return [s.rank for s in attempt.ranks.values() if s.failed and s.ended_at is not None and s.ended_at <= since]


def silent(standing: list[RankState]) -> list[int]:
    """Ranks whose heartbeats ceased well before the others'."""
    heard = [state for state in standing if state.beat_at > -(1 << 61)]
    if len(heard) < 2:
        return []
    newest = max(state.beat_at for state in heard)
    return [state.rank for state in heard if newest - state.beat_at >= _GRACE_US]


def _unreported(standing: list[RankState], watchdogs: Watchdogs) -> list[int]:
    missing = [state.rank for state in standing if state.rank not in watchdogs.ranks]
    return missing if len(watchdogs.ranks) * 4 >= len(standing) * 3 else []


def _fewest(standing: list[RankState]) -> list[int]:
    """Ranks that have finished fewer steps than most."""
    steps = [state.step for state in standing if state.step is not None]
    if len(steps) < 2:
        return []
    usual = median(steps)
    least = min(steps)
    return [state.rank for state in standing if state.step == least] if least < usual else []


def _odd_phase(standing: list[RankState]) -> list[int]:
    """Ranks in a phase of their own, where most of the others share one; those that wait are no culprits."""
    phases = {state.rank: state.phase for state in standing if state.phase is not None}
    if len(phases) < 2:
        return []
    for waits in (frozenset({Phase.COLLECTIVE.value}), _WAITS):
        odd = [rank for rank, phase in phases.items() if phase not in waits]
        if len(odd) * 2 <= len(phases):
            return odd
    common, count = Counter(phases.values()).most_common(1)[0]
    # Most are still at work: who already waits in the collective is early, not late.
    odd = [rank for rank, phase in phases.items() if phase != common and phase not in _WAITS]
    return odd if count * 2 > len(phases) else []


def _idle(attempt: Attempt, duty: Mapping[tuple[str, int | None], float]) -> list[int]:
    """Ranks whose device idles while most devices are busy."""
    if len(duty) < 3 or median(list(duty.values())) < AT_WORK:
        return []
    found = [attempt.rank_of(node, device) for (node, device), value in duty.items() if value <= IDLE]
    return [rank for rank in found if rank is not None]


def _only(standing: list[RankState], behind: list[RankState]) -> list[int]:
    return [state.rank for state in behind] if 0 < len(behind) < len(standing) else []
