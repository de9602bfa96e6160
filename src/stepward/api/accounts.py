"""Reads a run's records from the stores and keeps its ledger: exact while it is small or has ended, else incremental.

A run that goes on is answered from memory for as long as computing it took, twenty times over, so that asking often never
becomes the server's main work. Above ``EXACT_STEPS`` rows a running run is fed to a ``LiveLedger``: each time only the
steps that came since.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from stepward.errors import Conflict, NotFound, ParseError, UsageError
from stepward.goodput import history
from stepward.goodput.answers import FleetGoodput, RunGoodput, RunShare, fleet, of_history
from stepward.goodput.events import Event
from stepward.goodput.live import LiveLedger
from stepward.goodput.peaks import peak_of, utilisation
from stepward.goodput.report import report
from stepward.goodput.sources import steplines
from stepward.goodput.sources.records import ASSUMPTIONS, AttemptRecord, Happening, StepRecord, events_of
from stepward.model.launches import attempt_numbers
from stepward.model.resources import Run, RunConfig, StepTable, instant
from stepward.model.words import Clock
from stepward.store.catalog import Runs
from stepward.store.logs import LogStore
from stepward.store.points.protocol import PointsStore

EXACT_STEPS = 100_000
MAX_STEPS = 2_000_000
"""Rows that are read of a run that has ended; of a longer one the newest."""
KEPT = 512
"""Answers, and live ledgers, that are kept."""
REST = 20
"""Times its computation that an answer about a running run rests before it is computed again."""
MOST_RUNS = 500
PAGE_LINES, MOST_PAGES = 5000, 40
KINDS = ("phase", "checkpoint_durable", "hang")


class _Kept(msgspec.Struct):
    """An answer, for the state of the run that ``of`` tells, good until ``until`` (monotonic s)."""

    of: tuple[object, ...]
    until: float
    answer: RunGoodput
    live: LiveLedger | None = None


class Accounts:
    """Ledgers of the runs of a server. Safe to call from any thread; blocks.

    Args:
        clock: µs since the epoch.
    """

    def __init__(self, runs: Runs, points: PointsStore, logs: LogStore, clock: Callable[[], int]) -> None:
        self._runs, self._points, self._logs, self._clock = runs, points, logs, clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, projects: Sequence[str] | None, named: str) -> RunGoodput:
        """The goodput of a run.

        Raises:
            NotFound: ``no_such_run``; ``no_goodput``: it has no attempt yet.
        """
        return self._answer(self._runs.get(projects, named))

    def fleet(self, projects: Sequence[str] | None, project: str | None, since_us: int | None) -> FleetGoodput:
        """The runs that were alive since then, side by side."""
        page = self._runs.page(projects, project=project, limit=MOST_RUNS)
        shares: list[RunShare] = []
        for run in page.items:
            alive = _us(run.ended_at or run.last_seen_at or run.created_at)
            if since_us is not None and run.state.terminal and alive < since_us:
                continue
            try:
                shares.append(self._share(projects, run))
            except (NotFound, Conflict, ParseError, UsageError):
                page.total += 1  # counted as left out below: one run never hides the others
        left_out = page.total - len(page.items)
        return fleet(None if since_us is None else instant(since_us), shares, left_out)

    # ── one run ──

    def _answer(self, run: Run) -> RunGoodput:
        state = (run.state, run.ended_at, run.last_seen_at if run.state.terminal else None, len(run.attempts))
        with self._lock:
            kept = self._kept.get(run.id)
            if kept is not None and kept.of == state and time.monotonic() < kept.until:
                self._kept.move_to_end(run.id)
                return kept.answer
            began = time.monotonic()
            answer, live = self._computed(run, kept.live if kept is not None else None)
            answer.report.mfu = _mfu(answer, self._runs.config(None, run.id))
            took = time.monotonic() - began
            rests = float("inf") if run.state.terminal else time.monotonic() + max(REST * took, 1.0)
            self._kept[run.id] = _Kept(state, rests, answer, live)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return answer

    def _computed(self, run: Run, live: LiveLedger | None) -> tuple[RunGoodput, LiveLedger | None]:
        ended = run.state.value if run.state.terminal else None
        now = None if ended is not None else self._clock() * 1000
        table = self._steps(run, MAX_STEPS if ended is not None else EXACT_STEPS + 1)
        if ended is not None or len(table.rows) <= EXACT_STEPS:
            told = history.build(self._events(run, table, ended), [], now)
            if told is None:
                raise NotFound(f"{run.name} has no attempt yet", code="no_goodput", hint="ask again once it has begun")
            answer = of_history(
                told, run=run.id, name=run.name, project=run.project, started_at=instant(told.start // 1000)
            )
            answer.assumptions = list(ASSUMPTIONS if table.rows else steplines.ASSUMPTIONS)
            return answer, None
        live = self._caught_up(run, live)
        ledger = live.ledger(now)
        assert ledger is not None, "a run with steps has an attempt"
        answer = RunGoodput(
            run=run.id,
            name=run.name,
            project=run.project,
            started_at=run.started_at,
            exact=False,
            report=report(ledger, live.rejections()),
            assumptions=list(ASSUMPTIONS),
        )
        return answer, live

    def _caught_up(self, run: Run, live: LiveLedger | None) -> LiveLedger:
        """The live ledger with everything that it has not read; the newest steps are asked for, more of them as needed."""
        if live is None:
            live = LiveLedger()
            live.catch_up(self._events(run, self._steps(run, MAX_STEPS), None))
            return live
        last = 4096
        while True:
            table = self._steps(run, last)
            if len(table.rows) < last or _us(table.rows[0].started_at) * 1000 < live.read_until or last >= MAX_STEPS:
                live.catch_up(self._events(run, table, None))
                return live
            last *= 4

    def _steps(self, run: Run, last: int) -> StepTable:
        numbers = {attempt.key: attempt.number for attempt in run.attempts}
        return self._points.steps(run.project, run.id, attempts=numbers, last=last)

    def _events(self, run: Run, table: StepTable, ended: str | None) -> list[Event]:
        offsets: dict[tuple[int | None, int | None], int] = {
            (source.attempt, source.rank): round(source.clock_offset_s * 1e6)
            for source in self._runs.sources(None, run.id)
            if source.rank is not None
        }
        host = {name for name, clock in table.clocks.items() if clock is Clock.HOST}
        steps: Iterable[StepRecord] = (
            (
                StepRecord(
                    row.attempt,
                    row.rank,
                    row.step,
                    _us(row.started_at) + offsets.get((row.attempt, row.rank), 0),
                    row.duration_s,
                    {name: seconds for name, seconds in row.phases.items() if name in host},
                )
                for row in table.rows
            )
            if table.rows
            else self._printed(run)
        )
        happenings = (
            Happening(
                event.type,
                event.attempt,
                event.rank,
                event.step,
                _us(event.started_at) + offsets.get((event.attempt, event.rank), 0),
                None if event.ended_at is None else _us(event.ended_at) + offsets.get((event.attempt, event.rank), 0),
                str(event.data.get("name", "")),
            )
            for kind in KINDS
            for event in self._runs.events(None, run.id, kind)
        )
        return events_of(_attempts(run), steps, happenings, ended=ended)

    def _printed(self, run: Run) -> list[StepRecord]:
        """The steps that a run without the SDK printed: of each attempt's first stream that has step lines."""
        numbers = attempt_numbers((attempt.key, attempt.number) for attempt in run.attempts)
        found: dict[int, list[StepRecord]] = {}
        for stream in self._logs.streams(run.project, run.id, attempts=numbers):
            if stream.attempt not in found and stream.rank in (None, 0):
                steps = steplines.steps_of(self._step_lines(run, numbers, stream.id), stream.attempt)
                if steps:
                    found[stream.attempt] = steps
        return [step for steps in found.values() for step in steps]

    def _step_lines(self, run: Run, numbers: dict[str, int], stream: str) -> Iterator[steplines.Line]:
        from_n = 1
        for _ in range(MOST_PAGES):
            page = self._logs.page(
                run.project, run.id, stream, attempts=numbers, from_n=from_n, limit=PAGE_LINES, q=steplines.QUERY
            )
            yield from (steplines.Line(_us(line.at) / 1e6, line.text) for line in page.lines if line.at is not None)
            if len(page.lines) < PAGE_LINES:
                return
            from_n = page.lines[-1].n + 1

    def _share(self, projects: Sequence[str] | None, run: Run) -> RunShare:
        found = self._answer(run)
        scheduler = _scheduler(self._runs.config(projects, run.id))
        failures = found.reliability
        return RunShare(
            run=run.id,
            name=run.name,
            project=run.project,
            state=run.state.value,
            user=scheduler.get("SLURM_JOB_USER", ""),
            partition=scheduler.get("SLURM_JOB_PARTITION", ""),
            nodes=sorted({node for attempt in run.attempts for node in attempt.nodes}),
            started_at=run.started_at,
            wall_s=found.report.wall_s,
            device_s=found.report.device_s,
            overall=found.report.overall,
            buckets_device_s=found.report.buckets_device_s,
            mttf_s=failures.mttf_s if failures else None,
            interruptions=sum(failures.interruptions.values()) if failures else 0,
        )


def _mfu(answer: RunGoodput, config: RunConfig) -> float | None:
    """By the user's ``flops_per_step`` and the devices' cited peak, or the user's ``peak_flops``."""
    flops, peak, report = config.user.get("flops_per_step"), config.user.get("peak_flops"), answer.report
    if not isinstance(flops, int | float) or not report.wall_s:
        return None
    if not isinstance(peak, int | float):
        trees = (tree for tree in config.system.values() if isinstance(tree, dict))
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


def _scheduler(config: RunConfig) -> dict[str, str]:
    """What the scheduler told the run's processes, of the first host that says anything."""
    trees = (tree.get("scheduler") for tree in config.system.values() if isinstance(tree, dict))
    return next((dict(tree) for tree in trees if tree), {})


def _attempts(run: Run) -> list[AttemptRecord]:
    return [
        AttemptRecord(
            attempt.number,
            _us(attempt.started_at),
            None if attempt.ended_at is None else _us(attempt.ended_at),
            attempt.state.value if attempt.state.terminal else None,
            attempt.ranks or None,
        )
        for attempt in run.attempts
        if attempt.started_at is not None
    ]


def _us(moment: str | None) -> int:
    """µs since the epoch of an instant of ours."""
    assert moment is not None
    return round(datetime.fromisoformat(moment).astimezone(UTC).timestamp() * 1e6)
