"""``PointsStore`` on DuckDB: finds a project's file, hands the work to the modules beside it."""

import contextlib
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from stepward.errors import StepwardError, StorageFull
from stepward.ingest.protocols import CommittedFrame, FrameRows, WriterPosition
from stepward.ingest.records import decode_record
from stepward.model.points import Chart, Comparison, Point, RankProfile, Series, Stats, StepTable
from stepward.store.layout import project_folder, project_names
from stepward.store.points.duckdb.chart import read_chart
from stepward.store.points.duckdb.commit import room, write_group
from stepward.store.points.duckdb.compare import read_comparison
from stepward.store.points.duckdb.names import Names
from stepward.store.points.duckdb.profile import read_profile
from stepward.store.points.duckdb.projects import Project, Projects
from stepward.store.points.duckdb.reads import (
    export_lines,
    read_parts,
    read_series,
    read_step_spans,
    read_steps,
    read_timed_steps,
)
from stepward.store.points.duckdb.recorded import recorded_points, recorded_steps
from stepward.store.points.duckdb.rewrite import disorder, rewrite
from stepward.store.points.duckdb.values import read_stats, read_tail
from stepward.store.points.lines import empty_reason
from stepward.store.points.protocol import (
    NEVER_US,
    ChartQuery,
    CompareQuery,
    RawPart,
    RecordedPoint,
    RecordedStep,
    Shift,
    StepSpan,
    TimedStep,
)

_OF_RUN = "SELECT id FROM sources WHERE run = $1"
_SERIES_OF_RUN = f"SELECT id FROM series WHERE source IN ({_OF_RUN})"
_DELETE = (
    f"UPDATE layout SET deleted = deleted + (SELECT coalesce(sum(n), 0) FROM tallies WHERE series IN ({_SERIES_OF_RUN}))",
    f"DELETE FROM points WHERE series IN ({_SERIES_OF_RUN})",
    f"DELETE FROM tallies WHERE series IN ({_SERIES_OF_RUN})",
    f"DELETE FROM step_tallies WHERE source IN ({_OF_RUN})",
    f"DELETE FROM series WHERE source IN ({_OF_RUN})",
    f"DELETE FROM steps WHERE source IN ({_OF_RUN})",
    f"DELETE FROM phases WHERE source IN ({_OF_RUN})",
    "DELETE FROM writers WHERE run = $1",
    "DELETE FROM parts WHERE run = $1",
    "DELETE FROM unsettled WHERE run = $1",
    "DELETE FROM sources WHERE run = $1",
)


class DuckDBPoints:
    """Points of all projects of a data folder that this process owns.

    Args:
        data: the data folder.
    """

    def __init__(self, data: str) -> None:
        self._data = data
        self._projects = Projects(data, self._look_after)

    def projects(self) -> list[str]:
        """Projects that have a store, by name."""
        return [name for name in project_names(self._data) if self._projects.of(name).file.exists()]

    def positions(self, project: str) -> Mapping[str, WriterPosition]:
        """Committed position of every writer of the project."""
        at = self._projects.of(project)
        if not at.file.exists():
            return {}
        with at.file.read() as connection:
            return Names(connection).positions()

    def commit(self, project: str, frames: Sequence[FrameRows]) -> None:
        """Store frames in one transaction."""
        at = self._projects.of(project)
        try:
            with at.file.write(room(frames)) as connection:
                if at.names is None:
                    at.names = Names(connection)
                write_group(connection, at.names, frames)
        except BaseException:
            at.names = None
            raise
        finally:
            at.committed_at = time.monotonic()

    def unsettled(self, project: str) -> list[CommittedFrame]:
        """Frames in commit order that an applier may have missed."""
        at = self._projects.of(project)
        if not at.file.exists():
            return []
        with at.file.read() as connection:
            rows = connection.execute("SELECT record FROM unsettled ORDER BY cursor").fetchall()
        return [decode_record(record) for (record,) in rows]

    def settle(self, project: str, before: int) -> None:
        """Drop what ``unsettled`` keeps of frames received before that instant."""
        at = self._projects.of(project)
        if at.file.exists():
            with at.file.write() as connection:
                connection.execute("DELETE FROM unsettled WHERE received_at < ?", [before])

    def payloads(
        self, project: str, *, after: int = 0, run: str | None = None, kinds: Sequence[str] = (), limit: int = 1000
    ) -> list[RawPart]:
        """Raw parts behind a cursor, in commit order."""
        at = self._projects.of(project)
        if not at.file.exists():
            return []
        with at.file.read() as connection:
            return read_parts(connection, after, run, kinds, limit)

    def series(self, project: str, run: str) -> list[Series]:
        """The metrics of a run, by name."""
        at = self._projects.of(project)
        if not at.file.exists():
            return []
        with at.file.read() as connection:
            return read_series(connection, run)

    def chart(self, project: str, query: ChartQuery) -> Chart:
        """The lines of one metric."""
        at = self._projects.of(project)
        if not at.file.exists():
            reason = empty_reason((), query, run_has_points=False)
            return Chart(metric=query.metric, x=query.x, empty_reason=reason)
        with at.file.read() as connection:
            return read_chart(connection, query)

    def compare(self, project: str, query: CompareQuery) -> Comparison:
        """One line a run."""
        at = self._projects.of(project)
        if not at.file.exists():
            return Comparison(metric=query.metric, x=query.x)
        with at.file.read() as connection:
            return read_comparison(connection, query)

    def profile(self, project: str, query: ChartQuery) -> RankProfile:
        """How the ranks differ, by step."""
        at = self._projects.of(project)
        if not at.file.exists():
            reason = empty_reason((), query, run_has_points=False)
            return RankProfile(metric=query.metric, empty_reason=reason)
        with at.file.read() as connection:
            return read_profile(connection, query)

    def tail(self, project: str, query: ChartQuery, *, attempts: Mapping[str, int], last: int = 100) -> list[Point]:
        """The newest surviving points, oldest first."""
        at = self._projects.of(project)
        if not at.file.exists():
            return []
        with at.file.read() as connection:
            return read_tail(connection, query, attempts, last)

    def stats(self, project: str, query: ChartQuery) -> Stats:
        """The surviving points of a range in numbers."""
        at = self._projects.of(project)
        if not at.file.exists():
            return Stats(metric=query.metric)
        with at.file.read() as connection:
            return read_stats(connection, query)

    def steps(
        self, project: str, run: str, *, attempts: Mapping[str, int], rank: int | None = None, last: int = 500
    ) -> StepTable:
        """The newest steps, oldest first."""
        at = self._projects.of(project)
        if not at.file.exists():
            return StepTable({}, [])
        with at.file.read() as connection:
            return read_steps(connection, run, attempts, rank, last)

    def timed_steps(
        self, project: str, run: str, *, phases: Collection[str], since_us: int, limit: int
    ) -> list[TimedStep]:
        """The first steps from an instant on, oldest first."""
        at = self._projects.of(project)
        if not at.file.exists():
            return []
        with at.file.read() as connection:
            return read_timed_steps(connection, run, phases, since_us, limit)

    def step_spans(self, project: str, run: str) -> list[StepSpan]:
        """Where the steps of each rank lie."""
        at = self._projects.of(project)
        if not at.file.exists():
            return []
        with at.file.read() as connection:
            return read_step_spans(connection, run)

    def recorded_points(
        self, project: str, run: str, *, shift: Shift, since_us: int = NEVER_US
    ) -> Iterator[RecordedPoint]:
        """All points by shifted time."""
        at = self._projects.of(project)
        if at.file.exists():
            with at.file.read() as connection:
                yield from recorded_points(connection, run, shift, since_us)

    def recorded_steps(
        self, project: str, run: str, *, shift: Shift, since_us: int = NEVER_US
    ) -> Iterator[RecordedStep]:
        """All steps of ranks by their shifted end."""
        at = self._projects.of(project)
        if at.file.exists():
            with at.file.read() as connection:
                yield from recorded_steps(connection, run, shift, since_us)

    def export(self, project: str, run: str, *, attempts: Mapping[str, int]) -> Iterator[bytes]:
        """All points as NDJSON in pieces of whole lines, in order of arrival."""
        at = self._projects.of(project)
        if at.file.exists():
            with at.file.read() as connection:
                yield from export_lines(connection, run, attempts)

    def delete_run(self, project: str, run: str) -> None:
        """Forget a run."""
        at = self._projects.of(project)
        if not at.file.exists():
            return
        at.deletions += 1  # ends a rewrite, which would bring the run back
        with at.file.write() as connection:
            at.deletions += 1
            at.names = None
            for statement in _DELETE:
                connection.execute(statement, [run])

    def tidy(self, project: str) -> bool:
        """Write a project's points anew, in order; False when that could not be done now."""
        at = self._projects.of(project)
        if not at.file.exists():
            return False
        with at.file.read() as connection:
            points = disorder(connection).points
        return self._rewrite(at, points)

    def backup(self, folder: str) -> None:
        """Write a consistent copy of each project's store while serving goes on."""
        for project in self.projects():
            copy_to = project_folder(folder, project)
            path = f"{copy_to}/points.duckdb"
            try:
                os.makedirs(copy_to, mode=0o700, exist_ok=True)
                self._copy(project, path)
            except OSError as error:
                raise StorageFull(f"{path}: {error}", code="disk_full") from error

    def close(self) -> None:
        """Write everything down and let go of the files."""
        self._projects.close()

    def _copy(self, project: str, path: str) -> None:
        partial = f"{path}.partial"
        for left in (partial, f"{partial}.wal"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(left)
        quoted = partial.replace("'", "''")
        try:
            with self._projects.of(project).file.plain() as connection:
                connection.execute(f"ATTACH '{quoted}' AS backup")
                try:
                    connection.execute("COPY FROM DATABASE points TO backup")
                finally:
                    connection.execute("DETACH backup")
        except StepwardError:
            with contextlib.suppress(FileNotFoundError):
                os.remove(partial)
            raise
        os.rename(partial, path)

    def _look_after(self, project: str, at: Project) -> None:
        """Put a file in order when that pays: called by the keeper."""
        if not at.file.exists():
            return
        with at.file.plain() as connection:
            found = disorder(connection)
        if found.worth(time.monotonic() - at.committed_at, at.rests):
            self._rewrite(at, found.points)

    def _rewrite(self, at: Project, points: int) -> bool:
        with at.rewriting():
            deletions = at.deletions
            return rewrite(at.file, points, lambda: self._projects.over or at.deletions != deletions)
