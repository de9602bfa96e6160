"""The door of the server's data: takes the bytes of a frame, answers when it is committed and applied.

Memory is bounded: frames that wait for their commit hold at most ``MAX_WAITING_BYTES``; beyond, senders are told to come
again. Decoding runs in a few threads, committing in one a project.
"""

import asyncio
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from stepward.errors import StepwardError, Unavailable
from stepward.ingest.committer import Committer, Submission, catch_up
from stepward.ingest.decode import Decoded, decode_frame
from stepward.ingest.protocols import Applier, FrameRows, PointsSink
from stepward.model.frames import Frame

MAX_WAITING_BYTES = 256 << 20
BUSY_RETRY_S = 1.0
DECODERS = 2


class Ingestor:
    """Commits frames exactly once, in groups, one committer thread a project.

    Args:
        points: where points and raw parts rest.
        appliers: follow each commit, in this order, before the acknowledgement.
        clock: µs since the epoch.
        max_waiting_bytes: memory that waiting frames may hold.
        follow: given what was committed, behind the acknowledgement; must neither wait nor raise.
    """

    def __init__(
        self,
        points: PointsSink,
        appliers: Sequence[Applier],
        clock: Callable[[], int],
        *,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        follow: Callable[[Sequence[FrameRows]], None] = lambda rows: None,
    ) -> None:
        self._points = points
        self._appliers = appliers
        self._clock = clock
        self._committers: dict[str, Committer] = {}
        self._decoders = ThreadPoolExecutor(DECODERS, thread_name_prefix="decode")
        self._max_waiting = max_waiting_bytes
        self._follow = follow
        self._waiting = 0
        self._stopped = False

    async def start(self) -> None:
        """Catch every applier up with what was committed before the last stop or crash.

        Raises:
            StepwardError: a store can't be read, or an applier can't follow.
        """
        for project in await asyncio.to_thread(self._points.projects):
            await asyncio.to_thread(catch_up, project, self._points, self._appliers)

    async def stop(self) -> None:
        """Commit what is queued, refuse what still comes (``Unavailable`` ``ingest_stopped``), end the threads."""
        self._stopped = True
        await asyncio.to_thread(self._decoders.shutdown)
        committers, self._committers = self._committers, {}
        for committer in committers.values():
            await asyncio.to_thread(committer.stop)

    async def submit(self, data: bytes, *, allow_gap: bool = False, authorize: Callable[[Frame], None]) -> int:
        """Commit one frame; returns the committed position of its writer.

        Args:
            data: the body as it came.
            allow_gap: take the frame's ``seq`` as it is where it lies beyond the committed position.
            authorize: raises when the sender may not write this frame; called in a worker thread after the frame was
                decoded and before anything is written, so it may block shortly.

        Raises:
            ParseError: ``frame_damaged``, ``frame_malformed``, ``writer_of_another_run``.
            TooLarge: ``frame_too_large``.
            IncompatibleVersion: ``frame_version``, ``newer_format``.
            UsageError: ``bad_project_name``.
            Conflict: ``sequence_gap`` (context ``expected_seq``), ``need_dictionary``.
            Unavailable: ``ingest_busy``, ``ingest_stopped``, and those of the store and the appliers.
            StorageFull: ``disk_full``.
        """
        held = self._hold(len(data))
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[int] = loop.create_future()
        try:
            decoded = await loop.run_in_executor(self._decoders, functools.partial(_decode, data, authorize))
        except BaseException:
            self._waiting -= held
            raise
        self._waiting += decoded.nbytes - held

        def settle(result: int | StepwardError) -> None:
            self._waiting -= decoded.nbytes
            if answer.done():  # the sender hung up; its frame was committed or not, it will ask again
                return
            if isinstance(result, StepwardError):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        submission = Submission(decoded, allow_gap=allow_gap, answer=functools.partial(_post, loop, settle))
        if self._stopped or not self._committer(decoded.frame.project).put(submission):
            settle(_stopped())
        return await answer

    def _hold(self, nbytes: int) -> int:
        if self._stopped:
            raise _stopped()
        if self._waiting and self._waiting + nbytes > self._max_waiting:
            raise Unavailable(
                "more frames wait than the server can commit now", code="ingest_busy", retry_after_s=BUSY_RETRY_S
            )
        self._waiting += nbytes
        return nbytes

    def _committer(self, project: str) -> Committer:
        committer = self._committers.get(project)
        if committer is None:
            committer = Committer(project, self._points, self._appliers, self._clock, self._follow).start()
            self._committers[project] = committer
        return committer


def _decode(data: bytes, authorize: Callable[[Frame], None]) -> Decoded:
    decoded = decode_frame(data)
    authorize(decoded.frame)
    return decoded


def _post(
    loop: asyncio.AbstractEventLoop, settle: Callable[[int | StepwardError], None], result: int | StepwardError
) -> None:
    try:
        loop.call_soon_threadsafe(settle, result)
    except RuntimeError:  # the loop is gone, and the sender with it
        return


def _stopped() -> Unavailable:
    return Unavailable("the server is stopping", code="ingest_stopped")
