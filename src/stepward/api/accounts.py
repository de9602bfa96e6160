"""Where the time of the runs of a server went: answers, how long they last, and many runs side by side.

The ledger of a run that has ended is computed once, exactly, and kept in the catalog, so that a fleet of thousands is read
and not computed. A run that goes on is answered from memory for as long as computing it took, twenty times over, so that
asking often never becomes the server's main work; above ``EXACT_STEPS`` it is fed to a ``LiveLedger``, each time only what
came since. A fleet's answer computes for a limited time and says how many runs are still to come.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import msgspec

from stepward.api.ledger_events import LedgerEvents, Records
from stepward.errors import NotFound, StepwardError
from stepward.goodput import history
from stepward.goodput.answers import FleetGoodput, RunGoodput, RunShare, fleet, of_history, of_live
from stepward.goodput.live import LiveLedger
from stepward.goodput.peaks import peak_of, utilisation
from stepward.goodput.sources import steplines
from stepward.goodput.sources.records import ASSUMPTIONS
from stepward.model.resources import instant
from stepward.store.catalog.ledgers import LedgerHead, Ledgers, RunFacts

EXACT_STEPS = 20_000
"""Steps, over all ranks, up to which a run that goes on is computed anew each time."""
MAX_STEPS = 2_000_000
"""Steps up to which a run that has ended is computed in two passes, in memory."""
KEPT = 2048
"""Answers, and live ledgers, that are kept in memory."""
REST = 20
"""Times its computation that an answer about a running run rests before it is computed again."""
FLEET_REST_S = 60.0
"""Age up to which a fleet's answer takes that of a running run as it is."""
MOST_RUNS = 20_000
BUDGET_S = 5.0
"""Time that a fleet's answer computes, s."""
SETTLE_S, LOOK_AGAIN_S, UNWELL_S = 0.5, 10.0, 600.0
"""In each turn ended runs are computed for so long; a look for some is this long after one that found none; one that fails
is left alone so long."""
LOCKS = 64


class _Kept(msgspec.Struct):
    """An answer, for the state of the run that ``of`` tells, computed ``at``, good until ``until`` (monotonic s)."""

    of: tuple[object, ...]
    at: float
    until: float
    answer: RunGoodput
    share: RunShare
    live: LiveLedger | None = None


class Accounts:
    """Ledgers of the runs of a server. Safe to call from any thread; blocks.

    Args:
        clock: µs since the epoch.
    """

    def __init__(self, ledgers: Ledgers, events: LedgerEvents, clock: Callable[[], int]) -> None:
        self._ledgers, self._events, self._clock = ledgers, events, clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._look_at = 0.0
        self._unwell: dict[str, float] = {}

    def run(self, projects: Sequence[str] | None, named: str) -> RunGoodput:
        """The goodput of a run.

        Raises:
            NotFound: ``no_such_run``; ``no_goodput``: it has no attempt yet.
        """
        head = self._ledgers.head(projects, named)
        if not head.live and self._of(head) is None and (kept := self._ledgers.kept(head.id)) is not None:
            answer = msgspec.msgpack.decode(kept, type=RunGoodput)
        else:
            answer = self._answer(head).answer
        return msgspec.structs.replace(answer, name=head.name)

    def fleet(
        self, projects: Sequence[str] | None, project: str | None, since_us: int | None, budget_s: float = BUDGET_S
    ) -> FleetGoodput:
        """The runs that were alive since then, side by side; what is not computed within the time is pending.

        Raises:
            NotFound: ``no_such_project``.
        """
        until = time.monotonic() + budget_s
        heads, total = self._ledgers.heads(projects, project=project, since_us=since_us, limit=MOST_RUNS)
        shares: list[RunShare] = []
        left_out, pending = total - len(heads), 0
        for head, share, is_kept in heads:
            try:
                found = msgspec.msgpack.decode(share, type=RunShare) if share else None
                if not is_kept:
                    found = self._share(head, until)
                    pending += found is None
                elif found is None:
                    left_out += 1
            except StepwardError:
                left_out += 1  # one run never hides the others
                continue
            if found is not None:
                shares.append(msgspec.structs.replace(found, name=head.name, project=head.project, state=head.state))
        return fleet(None if since_us is None else instant(since_us), shares, left_out, pending)

    def settle(self) -> None:
        """Compute and keep ledgers of runs that have ended, for a moment; for the server's clockwork."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._unwell = {run: until for run, until in self._unwell.items() if now < until}
        due = [head for head in self._ledgers.due(50 + len(self._unwell)) if head.id not in self._unwell]
        if not due:
            self._look_at = now + LOOK_AGAIN_S
        for head in due:
            try:
                self._answer(head)
            except NotFound:
                continue
            except StepwardError:
                self._unwell[head.id] = now + UNWELL_S
            if time.monotonic() > now + SETTLE_S:
                return

    # ── one run ──

    def _share(self, head: LedgerHead, until: float) -> RunShare | None:
        """The share of a run whose ledger is not kept: computed if there is time, else the last one, or None."""
        now, kept = time.monotonic(), self._of(head)
        if kept is not None and (now < kept.until or now < kept.at + FLEET_REST_S):
            return kept.share
        if now < until:
            return self._answer(head).share
        with self._lock:
            old = self._kept.get(head.id)
        return None if old is None else old.share

    def _of(self, head: LedgerHead) -> _Kept | None:
        """What is kept in memory of a run as it is now."""
        with self._lock:
            kept = self._kept.get(head.id)
            if kept is None or kept.of != _state(head):
                return None
            self._kept.move_to_end(head.id)
            return kept

    def _answer(self, head: LedgerHead) -> _Kept:
        """The answer for a run as it is now."""
        with self._locks[hash(head.id) % LOCKS]:
            kept = self._of(head)
            if kept is not None and time.monotonic() < kept.until:
                return kept
            with self._lock:
                old = self._kept.get(head.id)
            try:
                found = self._computed(head, old.live if old is not None else None)
            except NotFound:
                if not head.live:
                    self._ledgers.keep(head, None, None)
                raise
            if not head.live:
                self._ledgers.keep(head, msgspec.msgpack.encode(found.share), msgspec.msgpack.encode(found.answer))
        with self._lock:
            self._kept[head.id] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def _computed(self, head: LedgerHead, live: LiveLedger | None) -> _Kept:
        began = time.monotonic()
        records = self._events.records(head)
        if records.steps <= (EXACT_STEPS if head.live else MAX_STEPS):
            answer, live = self._exact(records), None
        else:
            live = live or LiveLedger()
            answer = self._so_far(records, live)
        answer.report.mfu = _mfu(answer, records.facts)
        now = time.monotonic()
        until = now + max(REST * (now - began), 1.0) if head.live else float("inf")
        return _Kept(_state(head), now, until, answer, _share_of(answer, records), live if head.live else None)

    def _exact(self, records: Records) -> RunGoodput:
        head, now_us = records.head, self._clock()
        told = self._events.everything(records, now_us)
        found = history.build(told, [], None if records.ended is not None else now_us * 1000)
        if found is None:
            raise _nothing(head)
        answer = of_history(found, run=head.id, name=head.name, project=head.project)
        answer.assumptions = list(ASSUMPTIONS if records.spans else steplines.ASSUMPTIONS)
        return answer

    def _so_far(self, records: Records, live: LiveLedger) -> RunGoodput:
        head, now_us = records.head, self._clock()
        self._events.catch_up(records, live, now_us)
        until = now_us if records.ended is None else head.alive_us
        answer = of_live(live, until * 1000, run=head.id, name=head.name, project=head.project)
        if answer is None:
            raise _nothing(head)
        answer.assumptions = [*ASSUMPTIONS, *answer.assumptions]
        return answer


def by_project(found: FleetGoodput) -> Iterator[FleetGoodput]:
    """A fleet's answer, project by project."""
    runs: dict[str, list[RunShare]] = {}
    for share in found.runs:
        runs.setdefault(share.project, []).append(share)
    for _, shares in sorted(runs.items()):
        yield fleet(found.since, shares)


def _state(head: LedgerHead) -> tuple[object, ...]:
    """What an answer must be computed anew for; a run that goes on changes all the time."""
    return head.live, head.state, head.ended_at, None if head.live else head.changes


def _nothing(head: LedgerHead) -> NotFound:
    return NotFound(f"{head.name} has no attempt yet", code="no_goodput", hint="ask again once it has begun")


def _share_of(answer: RunGoodput, records: Records) -> RunShare:
    head, scheduler, failures = records.head, _scheduler(records.facts), answer.reliability
    return RunShare(
        run=head.id,
        name=head.name,
        project=head.project,
        state=head.state,
        user=scheduler.get("SLURM_JOB_USER", ""),
        partition=scheduler.get("SLURM_JOB_PARTITION", ""),
        nodes=sorted({node for attempt in records.facts.attempts for node in attempt.nodes}),
        started_at=answer.started_at,
        wall_s=answer.report.wall_s,
        device_s=answer.report.device_s,
        overall=answer.report.overall,
        buckets_device_s=answer.report.buckets_device_s,
        mttf_s=failures.mttf_s if failures else None,
        interruptions=sum(failures.interruptions.values()) if failures else 0,
    )


def _mfu(answer: RunGoodput, facts: RunFacts) -> float | None:
    """By the user's ``flops_per_step`` and the devices' cited peak, or the user's ``peak_flops``."""
    flops, peak, report = facts.user.get("flops_per_step"), facts.user.get("peak_flops"), answer.report
    if not isinstance(flops, int | float) or not report.wall_s:
        return None
    if not isinstance(peak, int | float):
        trees = (tree for tree in facts.system.values() if isinstance(tree, dict))
        devices = (device for tree in trees for device in tree.get("devices") or () if isinstance(device, dict))
        known = (peak_of(str(device.get("name", ""))) for device in devices)
        peak = next((found for found in known if found is not None), None)
    return utilisation(
        flops_per_step=flops,
        ideal_s=report.ideal_step_s,
        program=report.program,
        devices=report.device_s / report.wall_s,
        peak=peak,
    )


def _scheduler(facts: RunFacts) -> dict[str, str]:
    """What the scheduler told the run's processes, of the first host that says anything; else what its watcher says."""
    trees = (tree.get("scheduler") for tree in facts.system.values() if isinstance(tree, dict))
    return next((dict(tree) for tree in trees if tree), {})
