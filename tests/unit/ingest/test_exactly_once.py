"""Whatever happens between a shipper and the store, each byte of a journal is committed and applied exactly once."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from stepward.errors import Conflict, ParseError, StepwardError, StorageFull, Unavailable
from stepward.ingest.committer import Committer, Submission, catch_up
from stepward.ingest.decode import decode_frame
from stepward.ingest.protocols import FrameRows
from stepward.model import frames
from stepward.model.frames import Frame, Source
from stepward.model.words import SourceKind
from stepward.testing.frames import FrameWriter, points_part
from stepward.testing.sinks import MemoryApplier, MemoryPoints

Answer = int | StepwardError


def a_committer(points: MemoryPoints, *appliers: MemoryApplier) -> Committer:
    return Committer("p", points, appliers, lambda: 1, lambda rows: None)


def process(committer: Committer, *data: bytes, allow_gap: bool = False) -> list[Answer]:
    answers: list[Answer | None] = [None] * len(data)

    def answer_to(index: int) -> Submission:
        def answer(result: Answer) -> None:
            assert answers[index] is None, "a sender was answered twice"
            answers[index] = result

        return Submission(decode_frame(data[index]), allow_gap=allow_gap, answer=answer)

    committer.process([answer_to(index) for index in range(len(data))], set())
    assert all(answer is not None for answer in answers)
    return [answer for answer in answers if answer is not None]


def cut(writer: str, begin: int, end: int, *, define: bool = True, run: str = "r") -> bytes:
    """A frame of a journal in which byte n is the point of step n."""
    steps = list(range(begin, end))
    source = Source(kind=SourceKind.RANK, attempt="a", rank=0)
    part = points_part([("m", None)], steps, steps, steps, define=define)
    frame = Frame(project="p", run=run, writer=writer, seq=begin, end=end, sent_at=0, source=source, parts=[part])
    return frames.encode(frame)


def stored(points: MemoryPoints, writer: str) -> list[int]:
    rows = [rows for rows in points.rows.get("p", []) if rows.frame.writer == writer and rows.points is not None]
    return [step for row in rows for step in row.points.step.tolist()]


class Shipper:
    """Follows the rules of docs/wire.md over a journal of ``length`` bytes."""

    def __init__(self, name: str, length: int) -> None:
        self.name, self.length, self.position, self.defined = name, length, 0, False
        self.sent: list[bytes] = []

    def next(self, size: int) -> bytes:
        data = cut(self.name, self.position, min(self.length, self.position + size), define=not self.defined)
        self.sent.append(data)
        return data

    def hear(self, answer: Answer) -> None:
        if isinstance(answer, int):
            self.position, self.defined = answer, True
        elif answer.code == "sequence_gap":
            self.position = answer.context["expected_seq"]
        elif answer.code == "need_dictionary":
            self.defined = False


@settings(deadline=None, phases=[Phase.reuse, Phase.generate])
@given(data=st.data())
def test_resends_recuts_crashes_and_full_disks_lose_nothing_and_double_nothing(data: st.DataObject) -> None:
    points, applier = MemoryPoints(), MemoryApplier()
    committer = a_committer(points, applier)
    shippers = [Shipper(name, 40) for name in ("u", "v", "w")]

    def full(_: Sequence[FrameRows]) -> None:
        raise StorageFull("full", code="disk_full")

    def unsure(_: Sequence[FrameRows]) -> None:
        raise Unavailable("who knows", code="store_failed")

    for _ in range(data.draw(st.integers(5, 25))):
        what = data.draw(
            st.sampled_from(["send", "send", "send", "resend", "full", "unsure", "crash", "behind", "lost"])
        )
        points.fail = full if what == "full" else lambda _: None
        points.fail_after = unsure if what == "unsure" else lambda _: None
        applier.error = Unavailable("later", code="catalog_busy") if what == "behind" else None
        if what == "crash":  # the committer's memory is gone, the store stays
            committer = a_committer(points, applier)
            catch_up("p", points, [applier])
        group = [shipper for shipper in shippers if shipper.position < shipper.length and data.draw(st.booleans())]
        frames_ = [shipper.next(data.draw(st.integers(1, 12))) for shipper in group]
        if what == "resend":
            old = [data.draw(st.sampled_from(shipper.sent)) for shipper in shippers if shipper.sent]
            process(committer, *old)
        answers = process(committer, *frames_)
        for shipper, answer in zip(group, answers, strict=True):
            if what != "lost":  # else the answer never arrives
                shipper.hear(answer)

    points.fail = points.fail_after = lambda _: None
    applier.error = None
    for shipper in shippers:
        while shipper.position < shipper.length:
            shipper.hear(process(committer, shipper.next(7))[0])
        process(committer, cut(shipper.name, 0, 1))  # whatever lags behind is applied with the next frame
        assert stored(points, shipper.name) == list(range(40))
        applied = [(frame.seq, frame.end) for frame in applier.frames if frame.writer == shipper.name]
        assert applied[0][0] == 0
        assert applied[-1][1] == 40
        assert all(left[1] == right[0] for left, right in pairwise(applied))


def test_a_gap_is_refused_with_the_position_and_taken_when_allowed() -> None:
    points = MemoryPoints()
    committer = a_committer(points)
    (refused,) = process(committer, cut("w", 5, 9))
    assert isinstance(refused, Conflict)
    assert (refused.code, refused.context) == ("sequence_gap", {"expected_seq": 0})
    assert process(committer, cut("w", 5, 9), allow_gap=True) == [9]
    (overlap,) = process(committer, cut("w", 7, 12), allow_gap=True)
    assert isinstance(overlap, Conflict)
    assert overlap.context == {"expected_seq": 9}


def test_a_restarted_server_asks_for_the_dictionary() -> None:
    points = MemoryPoints()
    assert process(a_committer(points), cut("w", 0, 5)) == [5]
    restarted = a_committer(points)
    (refused,) = process(restarted, cut("w", 5, 6, define=False))
    assert isinstance(refused, Conflict)
    assert refused.code == "need_dictionary"
    assert process(restarted, cut("w", 5, 6), cut("w", 6, 7, define=False)) == [7, 7]


def test_a_frame_that_does_not_fit_fails_alone() -> None:
    points = MemoryPoints()
    good, gap, undefined, same = process(
        a_committer(points), cut("a", 0, 3), cut("b", 3, 4), cut("c", 0, 1, define=False), cut("a", 0, 3)
    )
    assert (good, same) == (3, 3)
    assert isinstance(gap, Conflict)
    assert isinstance(undefined, Conflict)
    assert (points.commits, stored(points, "a")) == (1, [0, 1, 2])


def test_a_frame_that_the_store_chokes_on_fails_alone() -> None:
    points = MemoryPoints()

    def choke(rows: Sequence[FrameRows]) -> None:
        if any(row.frame.writer == "bad" for row in rows):
            raise Unavailable("?", code="store_failed")

    points.fail = choke
    first, bad, last = process(a_committer(points), cut("a", 0, 3), cut("bad", 0, 1), cut("b", 0, 1))
    assert (first, last) == (3, 1)
    assert isinstance(bad, Unavailable)


def test_a_writer_belongs_to_one_run() -> None:
    committer = a_committer(MemoryPoints())
    process(committer, cut("w", 0, 1))
    (refused,) = process(committer, cut("w", 1, 2, run="other"))
    assert isinstance(refused, ParseError)
    assert refused.code == "writer_of_another_run"


def test_an_applier_that_can_not_follow_holds_back_the_answer_and_the_next_group() -> None:
    points, applier, second = MemoryPoints(), MemoryApplier(), MemoryApplier()
    committer = a_committer(points, applier, second)
    applier.error = Unavailable("busy", code="catalog_busy")
    (held,) = process(committer, cut("w", 0, 2))
    assert held is applier.error
    assert len(second.frames) == 1
    (held,) = process(committer, cut("v", 0, 2))
    assert held is applier.error
    assert points.commits == 1
    applier.error = None
    assert process(committer, cut("w", 0, 2), cut("v", 0, 2)) == [2, 2]
    assert [frame.writer for frame in applier.frames] == ["w", "v"] == [frame.writer for frame in second.frames]


def test_an_applier_that_chokes_on_one_frame_gets_the_others(caplog: pytest.LogCaptureFixture) -> None:
    applier = MemoryApplier()
    applier.poison = "bad"
    answers = process(a_committer(MemoryPoints(), applier), cut("a", 0, 1), cut("bad", 0, 1), cut("b", 0, 1))
    assert answers == [1, 1, 1]
    assert [frame.writer for frame in applier.frames] == ["a", "b"]
    assert "left out frame 0 of writer bad" in caplog.text


def test_parts_reach_the_applier_in_the_order_of_the_frame() -> None:
    applier = MemoryApplier()
    parts = [frames.part("status", frames.Status(at=at)) for at in range(3)]
    process(a_committer(MemoryPoints(), applier), FrameWriter(project="p").encoded(*parts))
    assert [content.at for _, content in applier.frames[0].payloads if isinstance(content, frames.Status)] == [0, 1, 2]
