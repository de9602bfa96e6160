"""One heartbeat for all jobs, and what the server knows of their runs: in a thread of its own, so that nothing delays it.

The watcher's own run (``watcher:<cluster>`` of project ``_nodes``) vouches for its sources in the runs of jobs. A beat that
does not get through is not kept: the next one says as much.
"""

import os
import threading
import time
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from stepward.agent.watcher.sending import Verdict, post
from stepward.client.transport import Transport
from stepward.errors import StepwardError
from stepward.model.frames import Config, Frame, Part, Source, Status, part
from stepward.model.identity import derived_run_id, ulid
from stepward.model.resources import JobClaim
from stepward.model.states import Exit, Witness
from stepward.model.words import HEARTBEAT_S, NODES_PROJECT, SourceKind
from stepward.settings import Settings
from stepward.spool.writers import boot_id

_claims = msgspec.json.Decoder(list[JobClaim])


def watcher_key(cluster: str) -> str:
    """Key of the run of a cluster's watcher."""
    return f"watcher:{cluster}"


def watcher_run(cluster: str) -> str:
    """Id of that run."""
    return derived_run_id(NODES_PROJECT, watcher_key(cluster))


class Beating:
    """Beats, and asks for claims.

    Args:
        settings: read anew after a failure.
        after: newest claim that is known.

    Attributes:
        problem: why the last beat did not get through; "" where it did.
    """

    def __init__(self, cluster: str, settings: Callable[[], Settings], after: int) -> None:
        self.problem = ""
        self._cluster, self._settings, self._after = cluster, settings, after
        self._run, self._writer, self._position = watcher_run(cluster), ulid(), 0
        self._claims: list[JobClaim] = []
        self._lock, self._over = threading.Lock(), threading.Event()
        self._transport: Transport | None = None
        self._thread = threading.Thread(target=self._work, name="beat", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def claims(self) -> list[JobClaim]:
        """Claims that came since the last call."""
        with self._lock:
            found, self._claims = self._claims, []
        return found

    def stop(self, timeout_s: float) -> None:
        """Say that this was the end, and end."""
        self._over.set()
        self._thread.join(timeout_s)

    def _work(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            self._beat([part("status", Status(at=_now()))])
            due = max(due + HEARTBEAT_S, time.monotonic())
            self._over.wait(due - time.monotonic())
        self._beat([part("exit", Exit(at=_now(), by=Witness.SDK, exit_code=0, reason="the watcher was stopped"))])

    def _beat(self, parts: list[Part]) -> None:
        try:
            if self._transport is None:
                known = self._settings()
                if known.server is None:
                    self.problem = "no server is known"
                    return
                self._transport = Transport(known.server, known.token)
            self._send(self._transport, parts)
            self._ask(self._transport)
        except StepwardError as error:
            self.problem = error.message
        if self.problem and self._transport is not None:
            self._transport.close()
            self._transport = None

    def _send(self, transport: Transport, parts: list[Part]) -> None:
        if self._position == 0:
            name = f"watcher of {self._cluster}"
            parts = [part("config", Config(key=watcher_key(self._cluster), name=name, started_at=_now())), *parts]
        for _ in range(2):
            answer = post(transport, self._frame(parts), allow_gap=True)
            if answer.verdict is Verdict.TAKEN and answer.end is not None:
                self._position = max(answer.end, self._position + 1)
            elif answer.verdict is Verdict.AGAIN and answer.end is not None:
                self._position = answer.end
                continue
            break
        self.problem = answer.problem

    def _frame(self, parts: list[Part]) -> Frame:
        boot = boot_id()
        source = Source(
            kind=SourceKind.AGENT, attempt=f"boot:{boot}", node=os.uname().nodename, pid=os.getpid(), boot=boot
        )
        return Frame(
            project=NODES_PROJECT,
            run=self._run,
            writer=self._writer,
            seq=self._position,
            end=self._position + 1,
            sent_at=_now(),
            source=source,
            parts=parts,
            alive=True,
        )

    def _ask(self, transport: Transport) -> None:
        path = f"/api/v1/jobs/claims?cluster={quote(self._cluster, safe='')}&after={self._after}"
        response = transport.request("GET", path)
        if response.status != 200:
            self.problem = self.problem or f"HTTP {response.status} for {path}"
            return
        try:
            found = _claims.decode(response.body)
        except msgspec.MsgspecError as error:
            self.problem = str(error)
            return
        if found:
            self._after = found[-1].seq
            with self._lock:
                self._claims += found


def _now() -> int:
    return time.time_ns() // 1000
