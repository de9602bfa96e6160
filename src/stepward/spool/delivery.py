"""Delivers one writer's journal to one server: the table of answers in docs/wire.md.

What the server says is believed only where it can be true: an acknowledgement beyond what was ever sent, or an answer
that is no answer of ours, counts as no answer. Nothing is deleted that was not sent and acknowledged.
"""

import contextlib
import os
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

import msgspec

from stepward.client.problems import retry_seconds
from stepward.client.transport import ANSWER_S, Response, Transport
from stepward.errors import Unavailable
from stepward.model import frames
from stepward.spool import writers
from stepward.spool.cutter import MAX_BYTES, MAX_POINTS, Cut, cut
from stepward.spool.reader import Gap, Misaligned, Reader
from stepward.spool.writers import Delivered, WriterMeta

INGEST = "/api/v1/ingest"
CONTENT_TYPE = "application/vnd.stepward.frame"
RUN_DELETED = "run_deleted"
DENIED_PAUSE_S = 60.0
_SHRINK = 8
_MAX_TURNS = 3
"""Conflicts in a row that are followed at once; a server that answers nothing else is waited for."""


class Outcome(Enum):
    """What came of one turn."""

    SENT = "sent"
    """Progress: another turn may follow at once."""
    IDLE = "idle"
    """Nothing to send now."""
    LATER = "later"
    """The server did not take it; try again after a while."""
    STUCK = "stuck"
    """The server does not take it from this writer; others may go on."""
    DENIED = "denied"
    """The server takes nothing from us; somebody has to do something."""


class _Accepted(msgspec.Struct):
    end: int


class _Problem(msgspec.Struct):
    code: str
    detail: str = ""
    expected_seq: int | None = None


_Answer = TypeVar("_Answer")


class Delivery:
    """One writer's journal on its way.

    Attributes:
        folder: the writer's folder.
        position: beginning of the next frame.
        gaps, refused, frames, bytes: what happened so far.
        retry_after_s: what the server asked for with its last LATER, None where it did not.
        problem: why the last turn was LATER or DENIED, for people.
        deleted: the server's last word on this writer was that its run was deleted there.
    """

    def __init__(
        self, folder: str, run: str, clock: Callable[[], int], breathe: Callable[[], None] = lambda: None
    ) -> None:
        self.folder, self.run = folder, run
        self.gaps = self.refused = self.frames = self.bytes = 0
        self.retry_after_s: float | None = None
        self.problem = ""
        self.deleted = False
        self._clock = clock
        self._reader = Reader(folder, breathe)
        state = writers.read_delivered(folder)
        # Without a state anything may have been sent; what the server then says must at least be a record's beginning.
        self.position, self._sent = state or Delivered(0, self._reader.tail(0, finished=False))
        self._cut: Cut | None = None
        self.new_server()

    def new_server(self) -> None:
        """Forget what the last server was told."""
        self._told: set[int] = set()
        self._lost: list[Gap] = []
        self._points, self._bytes = MAX_POINTS, MAX_BYTES
        self._turns = 0

    def turn(self, transport: Transport) -> Outcome:
        """Send the next frame, if there is one, and do what the answer asks for."""
        self.retry_after_s, self.problem, self.deleted = None, "", False
        meta = writers.read_meta(self.folder)
        taken = self._next(meta) if meta is not None else None
        if meta is None or taken is None:
            return Outcome.IDLE
        self._keep(self.position, max(self._sent, taken.end))
        try:
            response = transport.request(
                "POST", INGEST, body=self._encode(taken, meta), headers=self._headers(), timeout_s=ANSWER_S
            )
        except Unavailable as error:
            return self._later(str(error))
        return self._judge(response, taken, meta)

    def done(self) -> bool:
        """Whether the writer is finished and all of it delivered; to be asked after an IDLE turn."""
        meta = writers.read_meta(self.folder)
        if meta is None or not writers.finished(self.folder, meta):
            return False
        # Read again after it was found finished: it may have written between the turn and its end.
        return self._next(meta) is None

    def left(self) -> int:
        """Bytes that are not acknowledged."""
        end = writers.segments(self.folder)
        return self._reader.tail(self.position, finished=True) - self.position if end else 0

    def _next(self, meta: WriterMeta) -> Cut | None:
        """The cut to send: that of the last turn, or the next one."""
        if self._cut is None:
            oldest = self._reader.oldest()
            if oldest is None:
                return None
            self.position = max(self.position, oldest)
            try:
                self._cut = self._read(meta)
            except Misaligned:
                # The state file is wrong: the server knows what it has.
                self.position = oldest
                self._cut = self._read(meta)
        return self._cut

    def _read(self, meta: WriterMeta) -> Cut | None:
        finished = writers.finished(self.folder, meta)
        return cut(self._reader, self.position, finished=finished, max_points=self._points, max_bytes=self._bytes)

    def _encode(self, taken: Cut, meta: WriterMeta) -> bytes:
        return frames.encode(taken.frame(meta, self.run, self._told, self._clock(), self._lost))

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": CONTENT_TYPE}
        if self._lost:
            headers["Stepward-Accept-Gap"] = "1"
        return headers

    def _judge(self, response: Response, taken: Cut, meta: WriterMeta) -> Outcome:
        status = response.status
        if status == 200:
            return self._accepted(response, taken)
        problem = _decode(response.body, _Problem)
        if problem is not None and status == 409:
            return self._conflict(problem, taken)
        if problem is not None and status in (400, 413, 422) and problem.code.startswith("frame_"):
            return self._refused(problem, taken, meta)
        if status == 413 and taken.items > 1:
            return self._smaller(taken)
        self.problem = f"HTTP {status}" + (f" {problem.code}: {problem.detail}" if problem else "")
        self.deleted = problem is not None and (status, problem.code) == (400, RUN_DELETED)
        if status in (401, 403, 404, 405, 426):
            return Outcome.DENIED
        if status in (400, 409, 413, 422):
            return Outcome.STUCK
        return self._later(self.problem, response.headers.get("retry-after"))

    def _accepted(self, response: Response, taken: Cut) -> Outcome:
        accepted = _decode(response.body, _Accepted)
        if accepted is None or not (accepted.end == taken.end or self._credible(accepted.end, taken.end)):
            return self._later("the server answered 200 and nothing that acknowledges the frame")
        self.frames += 1
        self.bytes += taken.end - taken.start
        self.gaps += len(taken.gaps)
        self._told.update(taken.series)
        self._lost = []
        self._points, self._bytes = MAX_POINTS, MAX_BYTES
        self._go_on(accepted.end)
        return Outcome.SENT

    def _conflict(self, problem: _Problem, taken: Cut) -> Outcome:
        self._turns += 1
        if self._turns > _MAX_TURNS:
            return self._stuck(f"the server contradicts itself ({problem.code})")
        if problem.code == "need_dictionary":
            self._told.clear()
            return Outcome.SENT
        expected = problem.expected_seq
        if problem.code != "sequence_gap" or expected is None or not self._credible(expected, 0):
            return self._stuck(f"conflict: {problem.code} {problem.detail}")
        oldest = self._reader.oldest() or 0
        self._cut, self._told = None, set()
        self._lost = [Gap(expected, oldest, "not kept here")] if expected < oldest else []
        self._keep(max(expected, oldest), self._sent)
        return Outcome.SENT

    def _refused(self, problem: _Problem, taken: Cut, meta: WriterMeta) -> Outcome:
        """Find the record that is refused by cutting ever smaller; keep it aside and go on behind it."""
        if taken.items > 1:
            return self._smaller(taken)
        path = f"{self.folder}/{taken.start}.refused"
        try:
            with open(path, "wb") as file:
                file.write(self._encode(taken, meta))
        except OSError as error:
            return self._stuck(f"{path} cannot be written: {error.strerror}")
        self.refused += 1
        self._lost.append(Gap(taken.start, taken.end, f"refused: {problem.code}"))
        self._go_on(taken.end)
        return Outcome.SENT

    def _smaller(self, taken: Cut) -> Outcome:
        self._points = max(1, min(self._points, taken.points) // _SHRINK)
        self._bytes = max(1, min(self._bytes, taken.end - taken.start) // _SHRINK)
        self._cut = None
        return Outcome.SENT

    def _credible(self, position: int, least: int) -> bool:
        """Whether the server may truly have committed up to ``position``."""
        if not least <= position <= self._sent:
            return False
        return position < (self._reader.oldest() or 0) or self._reader.begins(position)

    def _stuck(self, problem: str) -> Outcome:
        self._turns, self.problem = 0, problem
        return Outcome.STUCK

    def _later(self, problem: str, retry_after: str | None = None) -> Outcome:
        self.problem = problem
        self.retry_after_s = retry_seconds(retry_after)
        return Outcome.LATER

    def _go_on(self, position: int) -> None:
        self._cut, self._turns = None, 0
        self._keep(position, self._sent)
        for segment in writers.segments(self.folder)[:-1]:
            if segment.end <= position:
                with contextlib.suppress(OSError):
                    os.unlink(segment.path)

    def _keep(self, position: int, sent: int) -> None:
        self.position, self._sent = position, sent
        writers.write_delivered(self.folder, Delivered(position, sent))


def _decode(data: bytes, kind: type[_Answer]) -> _Answer | None:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
