"""The door: answers, back-pressure, authority, stopping, catching up."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from stepward.errors import ParseError, PermissionDenied, Unavailable
from stepward.ingest.ingestor import Ingestor
from stepward.ingest.protocols import FrameRows
from stepward.model.frames import Frame
from stepward.testing.frames import FrameWriter, points_part
from stepward.testing.sinks import MemoryApplier, MemoryPoints


def anyone(_: Frame) -> None:
    return None


def test_frames_of_many_writers_are_answered_with_their_positions() -> None:
    async def story() -> None:
        points, applier = MemoryPoints(), MemoryApplier()
        ingestor = Ingestor(points, [applier], lambda: 1)
        await ingestor.start()
        writers = [FrameWriter(writer=f"w{number}", project=f"p{number % 2}") for number in range(6)]
        for turn in range(3):
            part = points_part([("m", None)], [turn], [turn], [turn])
            ends = await asyncio.gather(*(ingestor.submit(w.encoded(part), authorize=anyone) for w in writers))
            assert ends == [100 * (turn + 1)] * 6
        await ingestor.stop()
        assert len(applier.frames) == 18
        with pytest.raises(Unavailable, match="stopping"):
            await ingestor.submit(writers[0].encoded(), authorize=anyone)

    asyncio.run(story())


def test_what_is_not_allowed_or_damaged_never_reaches_the_store() -> None:
    async def story() -> None:
        points = MemoryPoints()
        ingestor = Ingestor(points, [], lambda: 1)

        def nobody(frame: Frame) -> None:
            raise PermissionDenied(f"not in {frame.project}", code="project_denied")

        with pytest.raises(PermissionDenied):
            await ingestor.submit(FrameWriter().encoded(), authorize=nobody)
        with pytest.raises(ParseError):
            await ingestor.submit(b"nonsense", authorize=anyone)
        await ingestor.stop()
        assert points.rows == {}

    asyncio.run(story())


def test_more_than_fits_in_memory_is_told_to_come_again() -> None:
    async def story() -> None:
        points = MemoryPoints()
        entered, go_on = threading.Event(), threading.Event()

        def hold(_: Sequence[FrameRows]) -> None:
            entered.set()
            assert go_on.wait(60)

        points.fail = hold
        ingestor = Ingestor(points, [], lambda: 1, max_waiting_bytes=1)
        first, second = FrameWriter(writer="v").encoded(), FrameWriter(writer="w").encoded()
        waiting = asyncio.create_task(ingestor.submit(first, authorize=anyone))
        assert await asyncio.to_thread(entered.wait, 60)
        with pytest.raises(Unavailable) as busy:
            await ingestor.submit(second, authorize=anyone)
        assert (busy.value.code, busy.value.retry_after_s) == ("ingest_busy", 1.0)
        go_on.set()
        assert await waiting == 100
        assert await ingestor.submit(second, authorize=anyone) == 100
        await ingestor.stop()

    asyncio.run(story())


def test_an_applier_that_missed_frames_gets_them_at_the_next_start() -> None:
    async def story() -> None:
        points, before, after = MemoryPoints(), MemoryApplier(), MemoryApplier()
        writer = FrameWriter()
        first = Ingestor(points, [before], lambda: 1)
        for _ in range(3):
            await first.submit(writer.encoded(), authorize=anyone)
        await first.stop()
        after.frames = before.frames[:1]
        second = Ingestor(points, [after], lambda: 1)
        await second.start()
        assert after.frames == before.frames
        await second.stop()

    asyncio.run(story())
