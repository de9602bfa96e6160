"""The log store: follows committed frames, answers pages, searches and raw bytes."""

from collections.abc import Iterator, Mapping, Sequence

from stepward.ingest.protocols import CommittedFrame
from stepward.model.resources import LogPage, LogStream


class LogStore:
    """An ``Applier`` that keeps output byte for byte and shows it line by line. All methods block; any thread may call.

    Args:
        data: the data folder; output rests in ``<data>/projects/<project>/logs/``.

    ``attempts`` in the methods is attempt key -> number; an attempt that is not in there reads as 0.
    Raises everywhere: ``Unavailable`` (``store_corrupt``, ``store_failed``), ``IncompatibleVersion`` (``newer_format``),
    ``StorageFull`` (``disk_full``).
    """

    def __init__(self, data: str) -> None:
        self._data = data

    def apply(self, frames: Sequence[CommittedFrame]) -> None:
        """Take the ``logs`` payloads of committed frames."""
        raise NotImplementedError

    def applied(self, project: str) -> dict[str, int]:
        """Writer -> position up to which its output is here."""
        raise NotImplementedError

    def streams(self, project: str, run: str, *, attempts: Mapping[str, int]) -> list[LogStream]:
        """The streams of a run: by attempt, rank, stream."""
        raise NotImplementedError

    def line_counts(self, project: str, run: str) -> dict[str, int]:
        """Stream id -> number of lines; cheap enough to be called after each commit."""
        raise NotImplementedError

    def page(
        self,
        project: str,
        run: str,
        stream: str,
        *,
        attempts: Mapping[str, int],
        from_n: int | None = None,
        tail: int | None = None,
        limit: int = 500,
        q: str | None = None,
        fold: bool = True,
    ) -> LogPage:
        """Lines of a stream, from line ``from_n`` on or the last ``tail`` (200 where neither is given).

        Args:
            q: a substring (any case) or ``/regex/``: only matching lines.
            fold: repeats of a template become one line with a count.

        Raises:
            NotFound: ``no_such_stream``.
            UsageError: ``bad_regex``; ``search_too_slow`` when a search exceeds its time.
        """
        raise NotImplementedError

    def raw(self, project: str, run: str, stream: str) -> Iterator[bytes]:
        """The bytes of a stream as they came.

        Raises:
            NotFound: ``no_such_stream``.
        """
        raise NotImplementedError

    def delete_run(self, project: str, run: str) -> None:
        """Forget the output of a run."""
        raise NotImplementedError

    def backup(self, folder: str) -> None:
        """Write a consistent copy to ``<folder>/projects/<project>/logs/`` while serving goes on."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the files."""
        raise NotImplementedError
