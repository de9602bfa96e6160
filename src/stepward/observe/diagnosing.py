"""From a confirmed event, or the bad end of an attempt, to its diagnosis: made by one worker, kept in the catalog.

It stands behind the acknowledgement and behind detection. Causes for a diagnosis are gathered for a moment and handled
together, one attempt at a time, the one that was heard of last first. While an attempt goes on its diagnosis is made
again as evidence grows, a bounded number of times.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from stepward.detect.signals import Certainty, Detected
from stepward.diagnose.clocks import shown
from stepward.diagnose.document import Document, Evidence, StoredDiagnosis
from stepward.diagnose.engine import VERSION, diagnose
from stepward.errors import NotFound, StepwardError
from stepward.model.resources import instant
from stepward.observe.inputs import Gathering, Inputs, Window
from stepward.store.catalog.changes import Change
from stepward.store.catalog.detected import event_id
from stepward.store.catalog.diagnoses import ENDED_BADLY, Diagnoses, Kept, KnownAttempt
from stepward.store.logs import LogStore

US = 1_000_000
SETTLE_US = 1 * US
"""What comes within this belongs together."""
AGAIN_US = (8 * US, 60 * US, 600 * US)
"""After so long evidence is weighed once more, and the diagnosis made again where there is more of it."""
MOST_TOLD = 4
"""Times that one event, as it changes, brings its attempt up again while that is looked after."""
PAST_US = 86_400 * US
"""Attempts that ended within the last day are looked at when a server starts."""
LOOK_S = 0.5
WITHOUT = frozenset({"rule", "scheduling_delay", "no_progress_restart", "restart_loop"})
"""Types of events that say their cause themselves, or are about several attempts, each with its own diagnosis."""

_log = logging.getLogger("stepward.diagnose")


class _Wanted:
    """An attempt that is to be diagnosed."""

    def __init__(self, run: str, attempt: str) -> None:
        self.run, self.attempt = run, attempt
        self.about: dict[str, int] = {}
        """Events (as the catalog names them; empty: the attempt itself), and when something was said of each, µs."""
        self.heard_at = self.due_at = 0
        self.made, self.again = False, 0
        self.fresh = True
        """Whether something was said of it since it was last looked at."""
        self.weight = (0, 0, 0)
        self.told: Counter[str] = Counter()


class Diagnosing:
    """Makes diagnoses.

    Args:
        clock: µs since the epoch.
        ended: told of each attempt that ended badly, before it is diagnosed.
    """

    def __init__(
        self,
        gathering: Gathering,
        diagnoses: Diagnoses,
        logs: LogStore,
        clock: Callable[[], int],
        *,
        ended: Callable[[KnownAttempt], None] = lambda attempt: None,
    ) -> None:
        self._gathering, self._diagnoses, self._logs = gathering, diagnoses, logs
        self._clock, self._ended = clock, ended
        self._wanted: dict[tuple[str, str], _Wanted] = {}
        self._changed: set[str] = set()
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="diagnose", daemon=True)

    def start(self) -> None:
        """Take up what ended while nobody looked, and follow."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; ends without a diagnosis are taken up again at the next start."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def follow_events(self, project: str, run: str, events: Sequence[Detected]) -> None:
        """Hear what detectors say."""
        for event in events:
            if event.certainty is Certainty.CONFIRMED and event.type not in WITHOUT:
                self._want(run, event.attempt, event_id(event.id), event.detected_at)

    def follow_changes(self, changes: Iterable[Change]) -> None:
        """Hear which runs changed: an attempt of theirs may have ended."""
        with self._lock:
            self._changed.update(change.run for change in changes if not change.removed)

    def make(self, run: str, attempt: str | None = None) -> StoredDiagnosis:
        """Diagnose an attempt (None: the newest) now; what is not healthy is kept as the attempt's.

        Raises:
            NotFound: ``no_such_attempt``.
            StepwardError: what the stores raise.
        """
        known = self._diagnoses.known(run, attempt)
        if known is None:
            raise NotFound(f"{run} has no such attempt", code="no_such_attempt")
        return resource(self._make(known, frozenset({""})))

    def _want(self, run: str, attempt: str, about: str, said_at: int) -> None:
        now = self._clock()
        with self._lock:
            wanted = self._wanted.get((run, attempt))
            if wanted is None:
                wanted = self._wanted[run, attempt] = _Wanted(run, attempt)
            wanted.told[about] += 1
            if wanted.told[about] > MOST_TOLD:
                return
            if wanted.made or not wanted.about:
                wanted.made, wanted.again, wanted.about = False, 0, {}
                wanted.due_at = now + SETTLE_US
            wanted.about[about] = said_at
            wanted.fresh = True
            wanted.heard_at = now

    def _work(self) -> None:
        self._ends(None)
        while not self._stopped.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Do all that is due now."""
        with self._lock:
            changed, self._changed = self._changed, set()
        if changed:
            self._ends(sorted(changed))
        while not self._stopped.is_set() and (wanted := self._next()) is not None:
            self._handle(wanted)

    def _ends(self, runs: Sequence[str] | None) -> None:
        now = self._clock()
        try:
            for end in self._diagnoses.due(of=runs, since_us=now - PAST_US):
                self._want(end.run, end.attempt, "", now)
        except StepwardError as error:
            _log.warning("%s", error)
            with self._lock:
                self._changed.update(runs or ())
        except Exception:
            _log.exception("looking for ends failed")

    def _next(self) -> _Wanted | None:
        """The one to do now: first what has no diagnosis yet, of those what was heard of last."""
        now = self._clock()
        with self._lock:
            ready = [wanted for wanted in self._wanted.values() if wanted.due_at <= now]
            return max(ready, key=lambda wanted: (not wanted.made, wanted.heard_at), default=None)

    def _handle(self, wanted: _Wanted) -> None:
        with self._lock:
            said, wanted.fresh = dict(wanted.about), False
        weight: tuple[int, int, int] | None = None
        try:
            known = self._diagnoses.known(wanted.run, wanted.attempt)
            about = frozenset[str]() if known is None else self._news(wanted, known, said)
            if known is None or not about:
                self._forget(wanted)
                return
            weight = self._gathering.weight(known)
            if not wanted.made or weight != wanted.weight:
                if not wanted.made and "" in about:
                    self._ended(known)
                self._make(known, about)
            self._later(wanted, weight)
        except StepwardError as error:
            _log.warning("%s is not diagnosed now: %s", wanted.run, error)
            self._later(wanted, None)
        except Exception:
            _log.exception("diagnosing %s failed", wanted.run)
            self._forget(wanted)

    def _news(self, wanted: _Wanted, known: KnownAttempt, said: dict[str, int]) -> frozenset[str]:
        """What a diagnosis is to be made for."""
        # After a start a live run is read again, and says what is known: only what was said since is news.
        have = {} if wanted.made else self._diagnoses.made(known.run, known.key, VERSION)
        if known.state not in ENDED_BADLY and "" in said.keys() | have.keys():
            # It was lost, and came back.
            said.pop("", None)
            self._diagnoses.drop(known.run, known.key)
        return frozenset(event for event, at in said.items() if have.get(event, at - 1) < at)

    def _later(self, wanted: _Wanted, weight: tuple[int, int, int] | None) -> None:
        """Look again after a while; ``weight`` is None where nothing could be made."""
        with self._lock:
            if wanted.fresh:
                wanted.due_at = self._clock() + SETTLE_US
            elif wanted.again >= len(AGAIN_US):
                self._wanted.pop((wanted.run, wanted.attempt), None)
            else:
                if weight is not None:
                    wanted.made, wanted.weight = True, weight
                wanted.due_at = self._clock() + AGAIN_US[wanted.again]
                wanted.again += 1

    def _forget(self, wanted: _Wanted) -> None:
        with self._lock:
            if wanted.fresh:
                wanted.due_at = self._clock() + SETTLE_US
            else:
                self._wanted.pop((wanted.run, wanted.attempt), None)

    def _make(self, known: KnownAttempt, about: frozenset[str]) -> Kept:
        with self._making:
            inputs = self._gathering.gather(known, self._window(known, about), about)
            document = diagnose(
                inputs.sources,
                exits=inputs.exits,
                statements=inputs.statements,
                events=inputs.events,
                scheduler=inputs.scheduler,
                places=inputs.ranks,
            )
            self._link(document, inputs, known.run)
            kept = Kept(known.run, known.number, "", self._clock(), VERSION, msgspec.json.encode(document))
            if document.outcome != "healthy":
                self._diagnoses.keep(
                    known.run, known.key, about, made_at=kept.made_at, version=VERSION, document=kept.document
                )
            return kept

    def _window(self, known: KnownAttempt, about: frozenset[str]) -> Window:
        """From the first event that it is about to the end, or to now; without one the end alone, or now."""
        until = known.ended_at if known.ended_at is not None else self._clock()
        begins = [event["started_at"] for event in known.events if event["id"] in about]
        return Window(min([*begins, until]), max(until, *begins) if begins else until)

    def _link(self, document: Document, inputs: Inputs, run: str) -> None:
        """Say of evidence where it is: the stream of its line, the chart, the event; and when, where the line has no clock."""
        for cause in [*document.causes, *document.candidates]:
            for one in cause.evidence:
                place = inputs.places.get(one.source)
                if place is not None:
                    one.stream = place.stream
                    one.stream_run = place.run if place.run != run else None
                    if one.time is None:
                        one.time = self._time(one, inputs)
                one.chart = inputs.charts.get(one.source)
                one.event = inputs.seen.get(one.source)

    def _time(self, one: Evidence, inputs: Inputs) -> str | None:
        found = next(self._logs.lines(*inputs.places[one.source], one.line, one.line), None)
        return None if found is None or found.at is None else shown(found.at / US)


def resource(kept: Kept) -> StoredDiagnosis:
    """A kept diagnosis as people get it."""
    return StoredDiagnosis(
        run=kept.run,
        attempt=kept.attempt,
        event=kept.event or None,
        made_at=instant(kept.made_at),
        version=kept.version,
        document=msgspec.json.decode(kept.document, type=Document),
    )
