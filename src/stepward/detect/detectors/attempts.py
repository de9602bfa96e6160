"""What several attempts of a run tell together, and the wait before them. These see the whole run."""

from collections import deque

from stepward.detect.progress import US
from stepward.detect.scene import Outlet
from stepward.detect.signals import (
    AttemptEnded,
    AttemptStarted,
    Certainty,
    Checkpoint,
    Detected,
    Step,
    Waited,
)
from stepward.model.states import State

UNSAVED = 3
MANY, WITHIN_S = 5, 900.0
"""Three attempts without a new checkpoint, or five in 15 minutes (thresholds 1)."""
WAITS_S = 1800.0
_BAD = frozenset({State.FAILED, State.CRASHED, State.OOM, State.LOST})


class RunDetector:
    """Base of the detectors of a whole run."""

    type: str
    version = 1

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def started(self, start: AttemptStarted) -> None:
        """An attempt began."""

    def first_step(self, step: Step) -> None:
        """The first step of a rank of an attempt."""

    def saved(self, checkpoint: Checkpoint) -> None:
        """A checkpoint."""

    def ended(self, end: AttemptEnded) -> None:
        """An attempt is over."""

    def waited(self, waited: Waited) -> None:
        """A job began after a wait."""

    def _event(
        self, certainty: Certainty, started_at: int, at: int, attempt: str, title: str, **fields: object
    ) -> Detected:
        data = dict(fields.pop("data", {}))  # type: ignore[call-overload]
        cause = self._outlet.cause_of(self.type, attempt, started_at)
        if cause is not None:
            data["follows"] = cause
        event = Detected(
            id=f"{self.type}/{attempt}/{started_at}",
            type=self.type,
            certainty=certainty,
            detector=f"{self.type}/{self.version}",
            started_at=started_at,
            detected_at=at,
            attempt=attempt,
            title=title,
            data=data,
            **fields,  # type: ignore[arg-type]
        )
        self._outlet.say(event)
        return event


class RestartLoop(RunDetector):
    """The run restarts again and again and gets nowhere.

    Signal: begin and bad end of attempts, checkpoints. Method: the third attempt in a row that ends badly without a new durable
    checkpoint, or the fifth that begins within 15 minutes, confirms; the second bad end is suspected (thresholds 1).
    Known false positives: a person who restarts by hand while repairing.
    """

    type = "restart_loop"

    def __init__(self, outlet: Outlet) -> None:
        super().__init__(outlet)
        self._starts: deque[int] = deque(maxlen=MANY)
        self._first: tuple[int, str] | None = None
        self._bad = 0
        self._begun: tuple[int, str] = (0, "")
        self._open: Detected | None = None

    def started(self, start: AttemptStarted) -> None:
        """Many in a short time."""
        self._starts.append(start.time)
        self._begun = (start.time, start.attempt)
        many = len(self._starts) == MANY and self._starts[-1] - self._starts[0] <= WITHIN_S * US
        if many and not self._sure():
            self._say(Certainty.CONFIRMED, start.time, f"{MANY} attempts within 15 minutes")

    def saved(self, checkpoint: Checkpoint) -> None:
        """It gets somewhere."""
        self._bad, self._first = 0, None
        if self._open is not None:
            self._say(
                self._open.certainty if self._sure() else Certainty.WITHDRAWN,
                checkpoint.time,
                self._open.title,
                checkpoint.time,
            )
            self._open = None

    def ended(self, end: AttemptEnded) -> None:
        """A bad end without a checkpoint since the last."""
        if end.state not in _BAD:
            return
        self._bad += 1
        if self._first is None:
            self._first = self._begun if self._begun[1] else (end.time, end.attempt)
        if self._bad >= UNSAVED and not self._sure():
            self._say(Certainty.CONFIRMED, end.time, f"{self._bad} attempts ended badly without a new checkpoint")
        elif self._bad == UNSAVED - 1 and self._open is None:
            self._say(Certainty.SUSPECTED, end.time, "Two attempts ended badly without a new checkpoint")

    def _sure(self) -> bool:
        return self._open is not None and self._open.certainty is Certainty.CONFIRMED

    def _say(self, certainty: Certainty, at: int, title: str, ended_at: int | None = None) -> None:
        began, attempt = self._first or (self._starts[0] if self._starts else at, self._begun[1])
        if self._open is not None:
            began, attempt = self._open.started_at, self._open.attempt
        data = {"attempts": self._bad, "starts": len(self._starts)}
        ranks, nodes = self._outlet.struck("crash", "oom")
        self._open = self._event(
            certainty,
            began,
            at,
            attempt,
            title,
            data=data,
            ended_at=ended_at,
            severity="critical",
            ranks=ranks,
            nodes=nodes,
        )


class NoProgressRestart(RunDetector):
    """An attempt resumes where the one before it did: nothing between them was saved.

    Signal: ``resumed_step`` of attempts, or where nobody tells it their first step. Method: the same step twice (thresholds 1).
    Known false positives: an attempt that was started over on purpose.
    """

    type = "no_progress_restart"

    def __init__(self, outlet: Outlet) -> None:
        super().__init__(outlet)
        self._attempt = ""
        self._told = False
        self._resumed: dict[str, int] = {}
        self._before: int | None = None
        self._same: tuple[int, str, int] | None = None
        """The step that it resumes at again and again, and where and when that began."""

    def started(self, start: AttemptStarted) -> None:
        """Where it resumes, if it is told."""
        if start.attempt == self._attempt:
            return
        self._before = self._resumed.get(self._attempt)
        self._resumed = {key: step for key, step in self._resumed.items() if key == self._attempt}
        self._attempt = start.attempt
        if start.resumed_step is not None:
            self._note(start.attempt, start.resumed_step, start.time)

    def first_step(self, step: Step) -> None:
        """Where it begins, if nobody told where it resumes."""
        if step.attempt == self._attempt and step.attempt not in self._resumed:
            self._note(step.attempt, step.step, step.time)

    def _note(self, attempt: str, step: int, time: int) -> None:
        self._resumed[attempt] = step
        if self._before is not None and self._before == step:
            title = f"Resumes at step {step} again"
            if self._same is None or self._same[0] != step:
                self._same = (step, attempt, time)
            _, first, began = self._same
            ranks, nodes = self._outlet.struck("crash", "oom")
            where = {"step": step, "ranks": ranks, "nodes": nodes}
            self._event(Certainty.CONFIRMED, began, time, first, title, **where, data={"resumed_step": step})


class SchedulingDelay(RunDetector):
    """The job waited unusually long in its queue.

    Signal: seconds between submission and start. Method: beyond the 95th percentile of the same queue and size in 14 days
    where that is known, beyond 30 minutes otherwise (thresholds 1).
    Known false positives: a queue that is always long, while nothing is known of it.
    """

    type = "scheduling_delay"

    def waited(self, waited: Waited) -> None:
        """A job began."""
        limit = self._outlet.expected().waited_s or WAITS_S
        if waited.waited_s <= limit:
            return
        began = waited.time - int(waited.waited_s * US)
        self._event(
            Certainty.CONFIRMED,
            began,
            waited.time,
            waited.attempt,
            f"Waited {waited.waited_s / 60:.0f} min in the queue",
            ended_at=waited.time,
            data={"waited_s": waited.waited_s, "limit_s": limit, "reason": waited.reason},
        )
