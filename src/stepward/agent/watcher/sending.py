"""How what waits reaches the server: each record once and in order, many writers side by side (docs/wire.md).

A writer's records are numbered; a frame carries a range of the numbers, and the server says how far it has come. A server
that commits frames in groups waits a little for each, so that several writers are sent at once.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import NamedTuple

import msgspec

from stepward.agent.watcher.memory import Batch, Memory
from stepward.client.problems import retry_seconds
from stepward.client.transport import Transport
from stepward.errors import StepwardError, Unavailable
from stepward.model.frames import Frame, Source, encode
from stepward.model.words import SourceKind
from stepward.settings import Settings
from stepward.spool.delivery import CONTENT_TYPE, DENIED_PAUSE_S, INGEST
from stepward.spool.roots import warn
from stepward.spool.shipper import FIRST_PAUSE_S, LONGEST_PAUSE_S
from stepward.spool.writers import boot_id

SIDE_BY_SIDE = 16
"""Writers that are sent at once: a commit takes the server up to 0.2 s, whoever waits beside."""
IDLE_S = 0.3


class Verdict(Enum):
    """What the server made of a frame."""

    TAKEN = "taken"
    AGAIN = "again"
    LATER = "later"
    DENIED = "denied"
    REFUSED = "refused"


class Answer(NamedTuple):
    """An answer; ``end`` is the position behind what the server has, None where it did not say."""

    verdict: Verdict
    end: int | None = None
    problem: str = ""
    retry_after_s: float | None = None


class _Accepted(msgspec.Struct):
    end: int


class _Problem(msgspec.Struct):
    code: str = ""
    detail: str = ""
    expected_seq: int | None = None


def post(transport: Transport, frame: Frame, *, allow_gap: bool = False) -> Answer:
    """Send one frame and understand the answer."""
    headers = {"Content-Type": CONTENT_TYPE} | ({"Stepward-Accept-Gap": "1"} if allow_gap else {})
    try:
        response = transport.request("POST", INGEST, body=encode(frame), headers=headers)
    except Unavailable as error:
        return Answer(Verdict.LATER, problem=error.message)
    status = response.status
    try:
        if status == 200:
            return Answer(Verdict.TAKEN, msgspec.json.decode(response.body, type=_Accepted).end)
        problem = msgspec.json.decode(response.body, type=_Problem)
    except msgspec.MsgspecError:
        problem = _Problem()
    words = f"HTTP {status} {problem.code} {problem.detail}".strip()
    if status == 409 and problem.code == "sequence_gap":
        return Answer(Verdict.AGAIN, problem.expected_seq, words)
    if status in (401, 403, 404, 405, 426):
        return Answer(Verdict.DENIED, None, words)
    if status in (400, 409, 413, 422) and problem.code:
        return Answer(Verdict.REFUSED, None, words)
    return Answer(Verdict.LATER, None, words, retry_seconds(response.headers.get("retry-after")))


class Sender:
    """Sends what waits in a memory, in a thread of its own.

    Args:
        settings: read anew before each try after a failure, for a server may come up elsewhere.
        vouched_by: run of the watcher's heartbeat.

    Attributes:
        problem: why nothing gets through, "" while all is well.
    """

    def __init__(self, memory: Memory, settings: Callable[[], Settings], vouched_by: str) -> None:
        self.problem = ""
        self._memory, self._settings, self._vouched_by = memory, settings, vouched_by
        self._boot = boot_id()
        self._over, self._wake = threading.Event(), threading.Event()
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="send")
        self._thread = threading.Thread(target=self._work, name="sender", daemon=True)
        self._failures = 0
        self._known = Settings()
        self._said: set[str] = set()

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def wake(self) -> None:
        """Something waits."""
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Send what waits for at most ``timeout_s``, then end."""
        self._over.set()
        self._wake.set()
        self._thread.join(timeout_s)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _work(self) -> None:
        while True:
            pause = IDLE_S
            try:
                pause = self._round()
            except Exception as error:  # a fault of ours must not end the sending
                pause = self._failed(f"{type(error).__name__}: {error}")
            if self._over.is_set() and (pause > 0):
                return
            self._wake.wait(pause)
            self._wake.clear()

    def _round(self) -> float:
        """Send one frame of each of some writers; the pause before the next round."""
        writers = self._memory.writers(4 * SIDE_BY_SIDE)
        if not writers:
            return IDLE_S
        if self._failures or self._known.server is None:
            try:
                self._known = self._settings()
            except StepwardError as error:
                return self._failed(error.message)
            if self._known.server is None:
                return self._failed("no server is known")
        answers = list(self._pool.map(self._send, writers))
        ends = {writer: answer.end for writer, answer in zip(writers, answers, strict=True) if answer.end is not None}
        self._memory.acknowledge(ends)
        for answer in answers:
            if answer.verdict is Verdict.DENIED:
                self._say(answer.problem)
                self._failed(answer.problem)
                return DENIED_PAUSE_S
        later = [answer for answer in answers if answer.verdict is Verdict.LATER]
        if later:
            asked = [answer.retry_after_s for answer in later if answer.retry_after_s is not None]
            return max([self._failed(later[0].problem), *asked])
        self._failures, self.problem = 0, ""
        return 0.0

    def _send(self, writer: str) -> Answer:
        batch = self._memory.batch(writer)
        if batch is None:
            return Answer(Verdict.TAKEN)
        transport = self._transport()
        answer = post(transport, self._frame(batch))
        if answer.verdict is Verdict.AGAIN and answer.end is not None and answer.end < batch.start:
            # What the server lacks was acknowledged once, and is kept nowhere else: it has lost it.
            answer = post(transport, self._frame(batch), allow_gap=True)
        if answer.verdict is Verdict.REFUSED and batch.end - batch.start > 1:
            batch = self._memory.batch(writer, 1) or batch
            answer = post(transport, self._frame(batch))
        if answer.verdict is Verdict.REFUSED:
            self._say(f"a record was refused and is left out: {answer.problem}")
            return answer._replace(end=batch.end)
        return answer if answer.end is None else answer._replace(end=min(answer.end, batch.end))

    def _frame(self, batch: Batch) -> Frame:
        source = Source(
            kind=SourceKind.WATCHER,
            attempt=batch.about.attempt,
            pid=os.getpid(),
            boot=self._boot,
            vouched_by=self._vouched_by,
        )
        return Frame(
            project=batch.about.project,
            run=batch.about.run,
            writer=batch.writer,
            seq=batch.start,
            end=batch.end,
            sent_at=time.time_ns() // 1000,
            source=source,
            parts=batch.parts,
        )

    def _transport(self) -> Transport:
        known = self._known
        assert known.server is not None
        mine: tuple[Settings, Transport] | None = getattr(self._local, "mine", None)
        if mine is None or mine[0] != known:
            mine = self._local.mine = (known, Transport(known.server, known.token))
        return mine[1]

    def _failed(self, problem: str) -> float:
        self.problem = problem
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return pause

    def _say(self, problem: str) -> None:
        if problem not in self._said and len(self._said) < 100:
            self._said.add(problem)
            warn(problem)
