"""Judging stored runs again: by the detectors and rules of today, saying what changes before or while it is written.

One run after the other, in a thread of its own. Only detectors' events are replaced; what people, the SDK, wrappers and
watchers have said stays.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from stepward.detect.engine import Detection
from stepward.detect.rules import Rule
from stepward.detect.signals import Detected, Tick
from stepward.errors import NotFound, StepwardError, Unavailable
from stepward.model.identity import ulid
from stepward.model.resources import ChangedEvent, Reprocessing
from stepward.observe.expected import expected_of
from stepward.observe.observer import Observer, event_row
from stepward.observe.replay import AFTERMATH_US, Replay
from stepward.store.catalog.detected import DetectedEvents

MAX_WAITING = 1000
MAX_KEPT = 200
"""Answers that can still be asked for."""


class Reprocessor:
    """Takes jobs and does them.

    Args:
        rules: project -> rules of its people.
        observer: judges live runs anew itself.
        clock: µs since the epoch.
    """

    def __init__(
        self,
        replay: Replay,
        catalog: DetectedEvents,
        rules: Callable[[str], Sequence[Rule]],
        observer: Observer,
        clock: Callable[[], int],
    ) -> None:
        self._replay, self._catalog, self._rules = replay, catalog, rules
        self._observer, self._clock = observer, clock
        self._jobs: OrderedDict[str, Reprocessing] = OrderedDict()
        self._waiting: deque[tuple[Reprocessing, str]] = deque()
        self._changed, self._stopped = threading.Condition(), False
        self._thread = threading.Thread(target=self._work, name="reprocess", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """End after the job under way; what waits is forgotten."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def submit(self, project: str, run: str, *, dry_run: bool) -> Reprocessing:
        """Queue a run.

        Raises:
            Unavailable: ``too_many_waiting``.
        """
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                raise Unavailable(f"{MAX_WAITING} runs wait already", code="too_many_waiting")
            job = Reprocessing(id=ulid(), run=run, dry_run=dry_run)
            self._jobs[job.id] = job
            ended = [one.id for one in self._jobs.values() if one.state in ("done", "failed")]
            for old in ended[: max(len(ended) - MAX_KEPT, 0)]:
                del self._jobs[old]
            self._waiting.append((job, project))
            self._changed.notify_all()
        return job

    def get(self, run: str, job: str) -> Reprocessing:
        """A job as it stands.

        Raises:
            NotFound: ``no_such_reprocessing``.
        """
        found = self._jobs.get(job)
        if found is None or found.run != run:
            hint = "the server may have been started since; ask again for the run to be reprocessed"
            raise NotFound(f"there is no such job {job!r}", code="no_such_reprocessing", hint=hint)
        return found

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._waiting)
                if self._stopped:
                    return
                job, project = self._waiting.popleft()
            job.state = "running"
            try:
                self._judge(job, project)
            except StepwardError as error:
                job.error, job.state = str(error), "failed"
            except Exception as error:  # a job must say that it failed, whatever happened
                job.error, job.state = f"{type(error).__name__}: {error}", "failed"
            else:
                job.state = "done"

    def _judge(self, job: Reprocessing, project: str) -> None:
        live = not self._catalog.over([job.run])
        detection = Detection(job.run, self._rules(project), expected_of(self._catalog, job.run))
        rows = [event_row(event) for event in self._detect(detection, project, live=live)]
        old, new = self._catalog.of(job.run), self._catalog.shown(job.run, rows)
        job.added = [event for id_, event in new.items() if id_ not in old]
        job.removed = [event for id_, event in old.items() if id_ not in new]
        job.changed = [ChangedEvent(old[id_], event) for id_, event in new.items() if id_ in old and old[id_] != event]
        job.unchanged = len(new) - len(job.added) - len(job.changed)
        if not job.dry_run and not self._observer.read_anew(project, job.run):
            self._catalog.keep(project, job.run, rows, only=True)
            if not live:
                self._catalog.keep_pace(job.run, detection.usual_step_s)

    def _detect(self, detection: Detection, project: str, *, live: bool) -> list[Detected]:
        said, newest = dict[str, Detected](), 0
        for signal in self._replay.signals(project, detection.run):
            newest = signal.time
            said.update((event.id, event) for event in detection.take(signal))
        end = self._clock() if live else newest + AFTERMATH_US
        said.update((event.id, event) for event in detection.take(Tick(end)))
        return list(said.values())
