"""The live observer: one thread that follows committed frames, feeds detectors and keeps what they say.

It stands behind the acknowledgement: a frame is put into a bounded queue and the committer goes on. What does not fit, what
was committed before this server started, and what came too late to be judged in order is read again from the stores:
the run is replayed, and its events are then those of the replay.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from stepward.detect.engine import Detection
from stepward.detect.rules import Rule
from stepward.detect.scene import Expected
from stepward.detect.signals import AttemptEnded, Detected, Signal, Tick
from stepward.errors import StepwardError
from stepward.ingest.protocols import CommittedFrame, FrameRows
from stepward.model.frames import Logs
from stepward.model.words import NODES_PROJECT
from stepward.observe.expected import expected_of
from stepward.observe.lines import LineReader, Place
from stepward.observe.replay import AFTERMATH_US, Replay, attempt_of
from stepward.observe.signals import RunSignals, attempt_end, clock_error, of_points, of_steps
from stepward.store.catalog.detected import DetectedEvents, EndedAttempt, EventRow, event_id
from stepward.store.catalog.rows import offset_of, truer_offset

QUEUED_POINTS = 2_000_000
"""Points of frames that wait; beyond, frames are left out and their runs replayed."""
SECOND_S = 1.0
SETTLED_US = 30_000_000
"""After so long without late signals a run that had some is replayed; after so long over, it is let go."""
MAX_REPLAYS = 3
"""Replays of a run that keeps being late, until it is over; then it is replayed once more where anything was late."""

JUDGED_AGAIN_POINTS = 500_000
"""A run with no more points than this is replayed once when it is over: a few seconds at most."""

Rules = Callable[[str], Sequence[Rule]]
Watcher = Callable[[str, str, Sequence[Detected]], None]
_log = logging.getLogger("stepward.observe")


class _Run:
    """A run that is observed."""

    def __init__(self, project: str, run: str, rules: Sequence[Rule], expected: Callable[[], Expected]) -> None:
        self.project, self.run = project, run
        self.detection = Detection(run, rules, expected)
        self.conversion = RunSignals()
        self.place = Place()
        self.offsets: dict[str, int] = {}
        """How far the clock of each writer is from ours, as the truest of its frames tells."""
        self.positions: dict[str, int] = {}
        self.keys: dict[str, int] = {}
        """Attempt key -> number in the order in which they were heard of; numbers for a watcher's choice alone."""
        self.ends: dict[str, AttemptEnded] = {}
        """Attempts that are over, as the detectors were told."""
        self.output = True
        self.stale = True
        """Whether it must be read from the stores before anything else."""
        self.late, self.late_at, self.replays = 0, 0, 0
        self.touched_at = 0
        self.points = 0
        """Points that came live."""
        self.fresh = False
        """Whether anything came live since the run was last read."""


class Observer:
    """Follows the runs of a server.

    Args:
        replay, lines, catalog: the stored runs.
        clock: µs since the epoch.
        rules: project -> rules of its people.
        watcher: told of (project, run, events) after they were kept.
    """

    def __init__(
        self,
        replay: Replay,
        lines: LineReader,
        catalog: DetectedEvents,
        clock: Callable[[], int],
        *,
        rules: Rules = lambda project: (),
        watcher: Watcher = lambda project, run, events: None,
    ) -> None:
        self._replay, self._lines, self._catalog = replay, lines, catalog
        self._clock, self._rules, self._watcher = clock, rules, watcher
        self._runs: dict[str, _Run] = {}
        self._queue: deque[FrameRows] = deque()
        self._points = 0
        self._missed: set[tuple[str, str]] = set()
        self._judged_anew: set[str] = set()
        self._nodes_told: set[str] = set()
        """Runs of nodes that have sent output since the last look."""
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="observe", daemon=True)

    def start(self) -> None:
        """Take up the runs that are live, those that ended while nobody looked, and follow."""
        for project, run in self._catalog.unsettled():
            self._missed.add((project, run))
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what waits is read again at the next start."""
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def follow(self, rows: Sequence[FrameRows]) -> None:
        """Take committed frames; called by committers, never waits."""
        with self._lock:
            for row in rows:
                points = 1 if row.points is None else len(row.points.value)
                if self._points + points > QUEUED_POINTS:
                    self._missed.add((row.frame.project, row.frame.run))
                else:
                    self._points += points
                    self._queue.append(row)
        self._wake.set()

    def read_anew(self, project: str, run: str) -> bool:
        """Whether the run is followed; it is then read from the stores again, soon. Any thread may call."""
        if run not in self._runs:
            return False
        with self._lock:
            self._missed.add((project, run))
        self._wake.set()
        return True

    def judge_anew(self, project: str) -> None:
        """The rules of a project have changed: its runs are read from the stores again; any thread may call."""
        with self._lock:
            self._judged_anew.add(project)
        self._wake.set()

    def _work(self) -> None:
        second = self._clock()
        while not self._stopped.is_set():
            self._wake.wait(SECOND_S)
            self._wake.clear()
            try:
                self.turn()
                now = self._clock()
                if now - second >= SECOND_S * 1e6:
                    second = now
                    self.look(now)
            except Exception:  # whatever it was, the other runs go on
                _log.exception("observing stumbled")

    def turn(self) -> None:
        """Take what waits; the thread's own work, as ``look``."""
        with self._lock:
            rows, self._queue, self._points = self._queue, deque(), 0
            missed, self._missed = self._missed, set()
            anew, self._judged_anew = self._judged_anew, set()
        for project, run in missed:
            self._guarded(project, run, partial(self._mark, project, run))
        for watched in self._runs.values():
            watched.stale |= watched.project in anew
        for row in rows:
            self._guarded(row.frame.project, row.frame.run, partial(self._take, row))

    def _mark(self, project: str, run: str) -> None:
        self._run(project, run).stale = True

    def _guarded(self, project: str, run: str, work: Callable[[], None]) -> None:
        """A run that makes us stumble is read anew; the others go on."""
        try:
            work()
        except StepwardError as error:
            _log.warning("%s is not observed now: %s", run, error)
            with self._lock:
                self._missed.add((project, run))
        except Exception:
            _log.exception("observing %s failed", run)
            self._runs.pop(run, None)

    def _run(self, project: str, run: str) -> _Run:
        found = self._runs.get(run)
        if found is None:
            found = self._runs[run] = _Run(project, run, self._rules(project), expected_of(self._catalog, run))
        return found

    def _take(self, row: FrameRows) -> None:
        frame = row.frame
        if frame.project == NODES_PROJECT:
            if _has_output(row):
                self._nodes_told.add(frame.run)
            return
        watched = self._run(frame.project, frame.run)
        if watched.stale:
            # A run whose first frame this is has nothing to be read from the stores.
            if frame.seq or self._catalog.writers(frame.run) > 1:
                self._read(watched)
            watched.stale = False
        if frame.end <= watched.positions.get(frame.writer, 0):
            return
        watched.positions[frame.writer] = frame.end
        shift = self._shift(watched, frame)
        source = frame.source
        watched.keys.setdefault(source.attempt, len(watched.keys))
        attempt = attempt_of(source.kind, source.attempt, watched.keys)
        watched.output |= _has_output(row)
        watched.points += 1 + (0 if row.points is None else len(row.points.value))
        watched.fresh = True
        said: list[Detected] = []
        for signal in _signals(watched.conversion, attempt, row, shift):
            said += watched.detection.take(signal)
        watched.touched_at = self._clock()
        self._keep(watched, said)

    def _shift(self, watched: _Run, frame: CommittedFrame) -> int:
        """What to add to the times of a frame, as a replay will: a first frame that was long under way tells no clock."""
        offset = offset_of(frame)
        known = watched.offsets.get(frame.writer)
        truer = watched.offsets[frame.writer] = offset if known is None else truer_offset(known, offset)
        if known is not None and clock_error(truer) != clock_error(known):
            watched.stale = True
        return clock_error(truer)

    def look(self, now: int) -> None:
        """Once a second: output, ends, the passing of time, and what has to be read again."""
        runs = list(self._runs.values())
        for watched in runs:
            if watched.stale:
                self._guarded(watched.project, watched.run, partial(self._read, watched))
        try:
            ends = self._catalog.ends([watched.run for watched in runs])
            over = self._catalog.over([watched.run for watched in runs])
            told = self._of_nodes(runs)
        except StepwardError as error:
            _log.warning("%s", error)
            return
        for run, signals in self._told_ends(ends).items():
            told.setdefault(run, []).extend(signals)
        for watched in runs:
            signals = told.get(watched.run, [])
            self._guarded(watched.project, watched.run, partial(self._look, watched, signals, now, watched.run in over))

    def _told_ends(self, ends: Sequence[EndedAttempt]) -> dict[str, list[Signal]]:
        """Ends that are news, by run. A run of which one was told otherwise before is to be read again: in the order of what
        happened there was but the one that stands now."""
        found: dict[str, list[Signal]] = {}
        standing: dict[str, dict[str, AttemptEnded]] = {run: {} for run in self._runs}
        for end in ends:
            if end.run in standing:
                signal = attempt_end(end.attempt, end.state, end.ended_at, end.reason)
                standing[end.run][end.attempt] = signal
        for run, stands in standing.items():
            watched = self._runs[run]
            if any(stands.get(attempt) != signal for attempt, signal in watched.ends.items()):
                watched.stale |= watched.replays < MAX_REPLAYS
                watched.late_at = self._clock()
                watched.replays += 1
            found[run] = [signal for attempt, signal in stands.items() if attempt not in watched.ends]
            watched.ends = stands
        return found

    def _of_nodes(self, runs: Sequence[_Run]) -> dict[str, list[Signal]]:
        """What the kernels of their nodes have told since the last look, by run."""
        told, self._nodes_told = self._nodes_told, set()
        found: dict[str, list[Signal]] = {}
        if told:
            for stay in self._catalog.stays([watched.run for watched in runs]):
                watched = self._runs.get(stay.run)
                if stay.node_run in told and watched is not None:
                    found.setdefault(stay.run, []).extend(self._lines.of_node(stay, watched.place))
        return found

    def _look(self, watched: _Run, told: Sequence[Signal], now: int, over: bool) -> None:
        said: list[Detected] = []
        ended = any(isinstance(signal, AttemptEnded) for signal in told)
        if watched.output or ended:
            watched.output = False
            keys = {number: key for key, number in self._catalog.attempts(watched.run).items()}
            to_the_end = over or ended
            hits = self._lines.hits(watched.project, watched.run, watched.place, keys, to_the_end=to_the_end)
            for hit in hits:
                watched.fresh = True
                said += watched.detection.take(hit)
        for signal in told:
            watched.fresh = True
            said += watched.detection.take(signal)
        said += watched.detection.take(Tick(now))
        self._keep(watched, said)
        if watched.detection.late > watched.late:
            watched.late, watched.late_at = watched.detection.late, now
        quiet = now - max(watched.late_at, watched.touched_at) > SETTLED_US
        if over and quiet:
            small = 0 < watched.points <= JUDGED_AGAIN_POINTS
            if watched.fresh and (small or watched.late_at):
                # Signals came as senders sent them; the record that stays is of the order in which things happened.
                self._read(watched)
            self._keep(watched, watched.detection.take(Tick(now + AFTERMATH_US)))
            self._catalog.keep_pace(watched.run, watched.detection.usual_step_s)
            self._catalog.settle(watched.run)
            self._runs.pop(watched.run, None)
        elif watched.late_at and (quiet or over) and watched.replays < MAX_REPLAYS:
            watched.replays += 1
            self._read(watched)

    def _read(self, watched: _Run) -> None:
        """Read a run from the stores: detectors begin anew, and what they say now is what stands."""
        expected = expected_of(self._catalog, watched.run)
        watched.detection = detection = Detection(watched.run, self._rules(watched.project), expected)
        watched.conversion, watched.place = RunSignals(), Place()
        said: dict[str, Detected] = {}
        # Asked first: what is committed while we read may come again, what is not read does come.
        watched.positions = self._replay.positions(watched.project, watched.run)
        ends = self._catalog.ends([watched.run])
        signals = self._replay.signals(watched.project, watched.run, watched.conversion, watched.place)
        for signal in signals:
            if self._stopped.is_set():  # the next start reads it again
                return
            for event in detection.take(signal):
                said[event.id] = event
        watched.keys.update(self._catalog.attempts(watched.run))
        watched.ends = {end.attempt: attempt_end(end.attempt, end.state, end.ended_at, end.reason) for end in ends}
        watched.stale, watched.fresh = False, False
        watched.late, watched.late_at = detection.late, 0
        self._keep(watched, list(said.values()), only=True)

    def _keep(self, watched: _Run, said: Sequence[Detected], *, only: bool = False) -> None:
        if said or only:
            newest = {event.id: event for event in said}.values()
            self._catalog.keep(watched.project, watched.run, [event_row(event) for event in newest], only=only)
        if said:
            self._watcher(watched.project, watched.run, said)


def _has_output(row: FrameRows) -> bool:
    return any(isinstance(payload, Logs) for _, payload in row.frame.payloads)


def _signals(conversion: RunSignals, attempt: str, row: FrameRows, shift: int) -> Iterator[Signal]:
    """The signals of a frame, output aside."""
    source = row.frame.source
    for _, payload in row.frame.payloads:
        yield from conversion.of_payload(attempt, source, payload, shift)
    if row.points is not None:
        yield from of_points(attempt, source, row.keys, row.points, shift)
    if source.rank is not None:
        for steps in row.steps:
            yield from of_steps(attempt, source.rank, steps, shift)


def event_row(event: Detected) -> EventRow:
    """An event as the catalog keeps it."""
    figures = dict(event.data)
    if isinstance(figures.get("follows"), str):
        figures["follows"] = event_id(figures["follows"])
    data = {
        "detected_at": event.detected_at,
        "ranks": list(event.ranks),
        "nodes": list(event.nodes),
        "devices": list(event.devices),
        "figures": figures,
    }
    return EventRow(
        id=event_id(event.id),
        type=event.type,
        detector=event.detector,
        certainty=event.certainty.value,
        severity=event.severity,
        attempt=event.attempt,
        rank=event.ranks[0] if len(event.ranks) == 1 else None,
        step=event.step,
        started_at=event.started_at,
        ended_at=event.ended_at,
        title=event.title,
        data=data,
    )
