"""Points, questions and a store to ask: what the conformance suite of ``PointsStore`` is made of."""

import math
from collections.abc import Iterator, Sequence
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from stepward.ingest.decode import decode_frame
from stepward.ingest.protocols import FrameRows
from stepward.ingest.sequence import Sequencer
from stepward.model.frames import Source
from stepward.model.words import SourceKind
from stepward.store.points.protocol import AttemptSpan, ChartQuery, PointsStore
from stepward.testing.frames import FrameWriter, points_part
from stepward.testing.points_model import LIMITS, Sample

_runs = count()


def new_run() -> str:
    """A run that no other question is about."""
    return f"run_{next(_runs)}"


whole = st.integers(0, 12) | st.sampled_from(LIMITS)
values = (
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 1.0, 2.0, 1e308, -1e308, 5e-324, 0.1])
    | st.floats(width=64)
    | st.floats(-10, 10)
)
samples = st.lists(
    st.builds(
        Sample,
        attempt=st.integers(0, 2),
        rank=st.sampled_from([None, 0, 1, 2]),
        device=st.sampled_from([None, 0, 1]),
        step=whole,
        time=whole,
        value=values,
        part=st.sampled_from([None, None, None, 0, 2]),
    ),
    max_size=40,
)
bounds = st.none() | st.integers(-3, 15).map(float) | st.floats(allow_nan=False) | st.sampled_from([4.5, 1e-6, 3e-6])


@st.composite
def queries(draw: st.DrawFn) -> ChartQuery:
    """Any question about metric ``m``."""
    history = [
        AttemptSpan(f"a{number}", number + 1, draw(st.none() | whole), draw(st.integers(0, 20))) for number in range(3)
    ]
    return ChartQuery(
        run="",
        metric=draw(st.sampled_from(["m", "m", "m", "system/m"])),
        x=draw(st.sampled_from(["step", "time", "relative"])),
        start=draw(bounds),
        end=draw(bounds),
        buckets=draw(st.integers(1, 30)),
        by=draw(st.sampled_from(["none", "rank", "device"])),
        rank=draw(st.sampled_from([None, None, 0, 2])),
        device=draw(st.sampled_from([None, None, 1])),
        attempt=draw(st.sampled_from([None, None, 1, 3])),
        history=history,
        run_started_us=draw(st.sampled_from([0, 5, 1_000_000])),
    )


def store_samples(store: PointsStore, run: str, metric: str, points: Sequence[Sample]) -> None:
    """Commit samples through the ingest path, a frame a point, in order."""
    sequencer = Sequencer(lambda: store.positions("p"))
    writers: dict[tuple[int, int | None], FrameWriter] = {}
    rows = []
    for point in points:
        kind = SourceKind.WRAPPER if point.rank is None else SourceKind.RANK
        source = Source(kind=kind, attempt=f"a{point.attempt}", rank=point.rank, node="n0")
        name = f"{run}-{point.attempt}-{point.rank}"
        writer = writers.setdefault((point.attempt, point.rank), FrameWriter(run, name, source=source))
        part = points_part([(metric, point.device, point.part)], [point.step], [point.time], [point.value])
        admitted = sequencer.admit(decode_frame(writer.encoded(part)), allow_gap=False, received_at=1)
        assert admitted is not None
        rows.append(admitted)
    if rows:
        store.commit("p", rows)
        sequencer.committed()


NO_SHRINKING = [Phase.reuse, Phase.generate]
"""Shrinking against a database takes minutes."""
SLOW = [HealthCheck.differing_executors, HealthCheck.too_slow]


class PointsStoreCase:
    """A store for questions. ``open_store`` opens the store of a data folder; called again after ``close``."""

    @classmethod
    def open_store(cls, data: str) -> PointsStore:
        """A store on the folder ``data``."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PointsStore]:
        """One store for all questions of the class."""
        store = cls.open_store(str(tmp_path_factory.mktemp("data")))
        yield store
        store.close()

    @staticmethod
    def commit(store: PointsStore, data: bytes) -> FrameRows:
        """Commit one frame."""
        rows = Sequencer(lambda: store.positions("p")).admit(decode_frame(data), allow_gap=False, received_at=1)
        assert rows is not None
        store.commit("p", [rows])
        return rows
