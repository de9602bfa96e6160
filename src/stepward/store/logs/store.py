"""The log store: follows committed frames, answers pages, searches and raw bytes."""

import contextlib
import itertools
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence

from stepward.errors import NotFound, Unavailable
from stepward.ingest.protocols import CommittedFrame
from stepward.model.frames import Logs
from stepward.model.resources import LogPage, LogStream
from stepward.store.blobs import Blobs
from stepward.store.layout import project_folder, project_names
from stepward.store.logs.append import append_frames, blob_key
from stepward.store.logs.index import LogIndex
from stepward.store.logs.pages import log_stream, plain_page, search_page
from stepward.store.logs.read import RawLine, StreamReader
from stepward.store.logs.search import Matcher, matching

TAIL = 200


class _Project:
    """Index and blobs of one project."""

    def __init__(self, folder: str) -> None:
        self.index = LogIndex(folder)
        self.blobs = Blobs(folder)


class LogStore:
    """An ``Applier`` that keeps output byte for byte and shows it line by line. All methods block; any thread may call.

    Args:
        data: the data folder; output rests in ``<data>/projects/<project>/logs/``.

    ``attempts`` in the methods is attempt key -> number; an attempt that is not in there reads as 0.
    Raises everywhere: ``Unavailable`` (``store_corrupt``, ``store_failed``), ``IncompatibleVersion`` (``newer_format``),
    ``StorageFull`` (``disk_full``), ``UsageError`` (``bad_project_name``).
    """

    def __init__(self, data: str) -> None:
        self._data = data
        self._projects: dict[str, _Project] = {}
        self._lock = threading.Lock()

    def apply(self, frames: Sequence[CommittedFrame]) -> None:
        """Take the ``logs`` payloads of committed frames."""
        mine = [frame for frame in frames if any(isinstance(content, Logs) for _, content in frame.payloads)]
        for project, of_project in itertools.groupby(mine, lambda frame: frame.project):
            at = self._project(project)
            with at.index.write() as connection:
                append_frames(connection, at.blobs, list(of_project))

    def applied(self, project: str) -> dict[str, int]:
        """Writer -> position up to which its output is here."""
        at = self._project(project)
        if not at.index.exists():
            return {}
        with at.index.read() as connection:
            return dict(connection.execute("SELECT writer, position FROM writers").fetchall())

    def streams(self, project: str, run: str, *, attempts: Mapping[str, int]) -> list[LogStream]:
        """The streams of a run: by attempt, rank (sources that are none last), stream."""
        at = self._project(project)
        if not at.index.exists():
            return []
        with at.index.read() as connection:
            rows = connection.execute("SELECT * FROM streams WHERE run = ?", [run]).fetchall()
        streams = [log_stream(row, attempts) for row in rows]
        return sorted(streams, key=lambda s: (s.attempt, s.rank is None, s.rank or 0, s.stream, int(s.id)))

    def line_counts(self, project: str, run: str, *, complete: bool = False) -> dict[str, int]:
        """Stream id -> number of lines, or of ``complete`` ones; cheap enough to be called after each commit."""
        at = self._project(project)
        if not at.index.exists():
            return {}
        with at.index.read() as connection:
            rows = connection.execute("SELECT id, newlines, open_line FROM streams WHERE run = ?", [run]).fetchall()
        return {str(number): lines if complete else lines + open_line for number, lines, open_line in rows}

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

        The last line of a stream that is still written may grow: who follows asks again from ``last_n`` on.

        Args:
            q: a substring (any case) or ``/regex/``: only matching lines, the last ``tail`` of them or from ``from_n`` on.
            fold: repeats of a template become one line with a count.

        Raises:
            NotFound: ``no_such_stream``.
            UsageError: ``bad_regex``, ``search_too_slow``.
        """
        with self._reading(project, run, stream) as reader:
            resource = log_stream(reader.stream, attempts)
            if q:
                return search_page(reader, resource, q, from_n=from_n, tail=tail, limit=limit)
            if from_n is None:
                limit = tail or TAIL
                from_n = reader.line_count - limit + 1
            return plain_page(reader, resource, max(1, from_n), limit, fold=fold)

    def lines(self, project: str, run: str, stream: str, first: int, last: int) -> Iterator[RawLine]:
        """Lines ``first`` to ``last`` of a stream.

        Raises:
            NotFound: ``no_such_stream``.
        """
        with self._reading(project, run, stream) as reader:
            yield from itertools.islice(reader.lines(first), max(0, last - first + 1))

    def matching(
        self, project: str, run: str, stream: str, matches: Matcher, *, first: int, last: int
    ) -> Iterator[RawLine]:
        """Those of lines ``first`` to ``last`` that match; whole pieces are looked at, so that few lines cost little.

        Raises:
            NotFound: ``no_such_stream``.
        """
        with self._reading(project, run, stream) as reader:
            for n, start in matching(reader.pieces(first), matches, limit_s=math.inf):
                if n > last:
                    return
                if n >= first:
                    yield reader.line(n, start)

    def raw(self, project: str, run: str, stream: str) -> Iterator[bytes]:
        """The bytes of a stream as they came.

        Raises:
            NotFound: ``no_such_stream``.
        """
        with self._reading(project, run, stream) as reader:
            for piece in reader.pieces():
                yield piece.data

    def delete_run(self, project: str, run: str) -> None:
        """Forget the output of a run."""
        at = self._project(project)
        if not at.index.exists():
            return
        with at.index.write() as connection:
            connection.execute("DELETE FROM pieces WHERE stream IN (SELECT id FROM streams WHERE run = ?)", [run])
            connection.execute("DELETE FROM streams WHERE run = ?", [run])
            connection.execute("DELETE FROM writers WHERE run = ?", [run])
        at.blobs.delete_below(run)

    def backup(self, folder: str) -> None:
        """Write a consistent copy to ``<folder>/projects/<project>/logs/`` while serving goes on."""
        for project in project_names(self._data):
            at = self._project(project)
            if not at.index.exists():
                continue
            copy = f"{project_folder(folder, project)}/logs"
            try:
                os.makedirs(copy, mode=0o700, exist_ok=True)
            except OSError as error:
                raise Unavailable(f"{copy}: {error}", code="store_failed") from error
            with at.index.backup(f"{copy}/index.db") as connection:
                sealed = connection.execute(
                    "SELECT s.run, p.stream, p.start FROM pieces p JOIN streams s ON p.stream = s.id WHERE p.data IS NULL"
                )
                for run, stream, start in sealed:
                    at.blobs.copy(blob_key(run, stream, start), Blobs(copy))

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            projects, self._projects = self._projects, {}
        for at in projects.values():
            at.index.close()

    def _project(self, project: str) -> _Project:
        with self._lock:
            at = self._projects.get(project)
            if at is None:
                at = self._projects[project] = _Project(f"{project_folder(self._data, project)}/logs")
            return at

    @contextlib.contextmanager
    def _reading(self, project: str, run: str, stream: str) -> Iterator[StreamReader]:
        at = self._project(project)
        missing = NotFound(f"run {run} has no output stream {stream[:40]}", code="no_such_stream")
        if not stream.isascii() or not stream.isdigit() or len(stream) > 18 or not at.index.exists():
            raise missing
        with at.index.read() as connection:
            row = connection.execute("SELECT * FROM streams WHERE id = ? AND run = ?", [int(stream), run]).fetchone()
            if row is None:
                raise missing
            yield StreamReader(connection, at.blobs, row)
