"""One thread a project that commits groups of frames, lets the appliers follow and answers the senders.

The order is: commit, apply, acknowledge. A frame that the rules or the store refuse fails alone. An applier that can't
follow holds back the acknowledgement and every later group, so that it is never more than one group behind.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from stepward.errors import StepwardError, StorageFull, Unavailable
from stepward.ingest.coalesce import GroupQueue
from stepward.ingest.decode import Decoded
from stepward.ingest.protocols import Applier, CommittedFrame, FrameRows, PointsSink
from stepward.ingest.sequence import Sequencer

SETTLE_EVERY_US = 60 * 1_000_000
SETTLE_AFTER_US = 600 * 1_000_000
"""Frames stay at hand that long after they were applied: a catalog on a host that lost power may be a minute behind."""
CATCH_UP_FRAMES = 500

_log = logging.getLogger(__name__)


class Submission:
    """A frame on its way; ``answer`` is called once, from the committer's thread, with the position or the error."""

    __slots__ = ("allow_gap", "answer", "decoded")

    def __init__(self, decoded: Decoded, *, allow_gap: bool, answer: Callable[[int | StepwardError], None]) -> None:
        self.decoded = decoded
        self.allow_gap = allow_gap
        self.answer = answer


class Committer:
    """Commits the frames of one project."""

    def __init__(
        self,
        project: str,
        points: PointsSink,
        appliers: Sequence[Applier],
        clock: Callable[[], int],
        follow: Callable[[Sequence[FrameRows]], None],
    ) -> None:
        self._project = project
        self._follow = follow
        self._points = points
        self._appliers = appliers
        self._clock = clock
        self._queue: GroupQueue[Submission] = GroupQueue()
        self._sequencer = Sequencer(lambda: points.positions(project))
        self._behind: dict[int, list[CommittedFrame]] = {}
        self._unsure = False
        self._settled_at = clock()
        self._thread = threading.Thread(target=self._run, name=f"commit {project}", daemon=True)

    def start(self) -> "Committer":
        """Begin to commit what is put."""
        self._thread.start()
        return self

    def put(self, submission: Submission) -> bool:
        """Queue a frame; False when the committer is stopped."""
        return self._queue.put(submission.decoded.frame.writer, submission.decoded.points, submission)

    def stop(self) -> None:
        """Commit what is queued and end the thread."""
        self._queue.close()
        self._thread.join()

    def _run(self) -> None:
        while group := self._queue.group():
            answered: set[int] = set()
            try:
                self.process(group, answered)
            except Exception:  # the last guard: the thread must live on, and every sender gets an answer
                _log.exception("a group of frames of project %s failed", self._project)
                self._rolled_back(unsure=True)
                for submission in group:
                    if id(submission) not in answered:
                        submission.answer(_failed())

    def process(self, group: Sequence[Submission], answered: set[int]) -> None:
        """Commit a group and answer each of its senders; ``answered`` collects the ids of those that have theirs."""

        def answer(submission: Submission, with_: int | StepwardError) -> None:
            answered.add(id(submission))
            submission.answer(with_)

        try:
            self._catch_up()
            rows, admitted = self._admit(group, answer)
            if rows:
                self._points.commit(self._project, rows)
                self._sequencer.committed()
        except StepwardError as error:
            self._rolled_back(unsure=error.code != "disk_full")
            rest = [submission for submission in group if id(submission) not in answered]
            if error.code == "store_failed" and len(rest) > 1:
                for submission in rest:
                    self.process([submission], answered)
                return
            for submission in rest:
                answer(submission, error)
            return
        behind = self._apply([row.frame for row in rows])
        for submission in admitted:
            answer(submission, behind or self._sequencer.position(submission.decoded.frame.writer))
        self._follow(rows)
        self._settle()

    def _admit(
        self, group: Sequence[Submission], answer: Callable[[Submission, int | StepwardError], None]
    ) -> tuple[list[FrameRows], list[Submission]]:
        rows: list[FrameRows] = []
        admitted: list[Submission] = []
        received_at = self._clock()
        for submission in group:
            try:
                row = self._sequencer.admit(submission.decoded, allow_gap=submission.allow_gap, received_at=received_at)
            except StepwardError as error:
                if isinstance(error, Unavailable | StorageFull):
                    raise
                answer(submission, error)
                continue
            admitted.append(submission)
            if row is not None:
                rows.append(row)
        return rows, admitted

    def _apply(self, frames: list[CommittedFrame]) -> StepwardError | None:
        """Let every applier follow; the error of one that must try again later."""
        failed: StepwardError | None = None
        for index, applier in enumerate(self._appliers):
            try:
                if frames:
                    apply_each(applier, frames)
            except StepwardError as error:
                self._behind[index] = frames
                failed = error
        return failed

    def _rolled_back(self, *, unsure: bool) -> None:
        """``unsure``: the commit may have taken effect, and then no applier was told of it."""
        self._sequencer.rolled_back()
        self._unsure |= unsure

    def _catch_up(self) -> None:
        if self._unsure:
            catch_up(self._project, self._points, self._appliers)
            self._behind.clear()
            self._unsure = False
        for index, frames in list(self._behind.items()):
            apply_each(self._appliers[index], frames)
            del self._behind[index]

    def _settle(self) -> None:
        now = self._clock()
        if not self._behind and now - self._settled_at >= SETTLE_EVERY_US:
            self._settled_at = now
            try:
                self._points.settle(self._project, now - SETTLE_AFTER_US)
            except StepwardError as error:  # only space is at stake; the next time will do
                _log.warning("project %s: %s", self._project, error)


def catch_up(project: str, points: PointsSink, appliers: Sequence[Applier]) -> None:
    """Give every applier the committed frames of a project that it has not applied.

    Raises:
        StepwardError: the store can't be read, or an applier can't follow now.
    """
    frames = points.unsettled(project)
    for applier in appliers:
        applied = applier.applied(project) if frames else {}
        missing = [frame for frame in frames if frame.end > applied.get(frame.writer, 0)]
        for start in range(0, len(missing), CATCH_UP_FRAMES):
            apply_each(applier, missing[start : start + CATCH_UP_FRAMES])


def apply_each(applier: Applier, frames: Sequence[CommittedFrame]) -> None:
    """Apply frames; one that an applier chokes on is left out and logged, for it would choke for ever.

    Raises:
        StepwardError: the applier must get these frames again later.
    """
    try:
        applier.apply(frames)
    except StepwardError:
        raise
    except Exception:
        if len(frames) > 1:
            for frame in frames:
                apply_each(applier, [frame])
            return
        _log.exception("%s left out frame %s of writer %s", type(applier).__name__, frames[0].seq, frames[0].writer)


def _failed() -> Unavailable:
    return Unavailable("the server failed to commit this frame", code="store_failed", hint="its log says why")
