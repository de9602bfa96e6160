"""The door of the server's data: takes the bytes of a frame, answers when it is committed and applied."""

from collections.abc import Callable, Sequence

from stepward.ingest.protocols import Applier, PointsSink
from stepward.model.frames import Frame


class Ingestor:
    """Commits frames exactly once, in groups, one committer thread a project.

    Args:
        points: where points and raw parts rest.
        appliers: follow each commit, in this order, before the acknowledgement.
        clock: µs since the epoch.
    """

    def __init__(self, points: PointsSink, appliers: Sequence[Applier], clock: Callable[[], int]) -> None:
        self._points = points
        self._appliers = appliers
        self._clock = clock

    async def start(self) -> None:
        """Catch every applier up with what was committed before the last stop or crash."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Commit what is queued, refuse what still comes (``Unavailable`` ``ingest_stopped``), end the threads."""
        raise NotImplementedError

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
            IncompatibleVersion: ``frame_version``.
            UsageError: ``bad_project_name``.
            Conflict: ``sequence_gap`` (context ``expected_seq``), ``need_dictionary``.
            Unavailable: ``ingest_busy``, ``ingest_stopped``, ``apply_failed``, and those of the store.
            StorageFull: ``disk_full``.
        """
        raise NotImplementedError
