"""The run as a training script holds it.

Every method is safe to call at any time from any thread: none blocks, none raises (``UsageError`` in strict mode alone),
what can't be kept is counted and said once. ``session`` makes runs; ``presence`` is what the world sees of one.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from stepward.errors import UsageError
from stepward.model.frames import MAX_NAME, Config, Event, Events
from stepward.model.identity import ulid
from stepward.model.states import Exit
from stepward.sdk.checkpoints import Checkpoint
from stepward.sdk.config import UserConfig, plain
from stepward.sdk.exits import EXIT_FLUSH_S, ProcessEnd, hook_signals, signals_replaced
from stepward.sdk.gather import Gatherer
from stepward.sdk.notebook import watch_cells
from stepward.sdk.output import Output
from stepward.sdk.presence import Presence
from stepward.sdk.probes import cuda
from stepward.sdk.pulse import Threads
from stepward.sdk.recorder import Recorder
from stepward.sdk.secrets import mask_text, mask_tree
from stepward.sdk.steps import Columns, PhaseScope, Step, Timer, Waited
from stepward.spool.records import clamp
from stepward.spool.roots import warn

if TYPE_CHECKING:
    from stepward.sdk.autocheckpoint import AutoCheckpoint
    from stepward.sdk.resume import Resumed

DESCRIBE_S = 1.0
"""How long the end of a short run waits for its trees to be collected."""


class Run:
    """One run of this process; ``stepward.init`` makes it.

    Attributes:
        project: project of the run.
        name: display name, None where none was given.
        timer: times what is open now; for the callbacks of ``frameworks``.
        config: the user's configuration; assign or ``update`` to change it later.
    """

    def __init__(
        self,
        presence: Presence,
        recorder: Recorder,
        *,
        project: str,
        server: str | None,
        name: str | None,
        strict: bool,
        sampling: bool,
        capture_output: bool,
    ) -> None:
        self.project, self.name = project, name
        self.config = UserConfig(self._send_config)
        self._presence, self._recorder, self._journal = presence, recorder, recorder.journal
        self._server, self._strict = server, strict
        self._pid = os.getpid()
        self._finished = False
        self._last_step = -1
        self._stepped = self._nudged = False
        self._late = 0
        self._said: set[str] = set()
        self.timer = Timer(self)
        self._end: ProcessEnd | None = None
        self._auto: AutoCheckpoint | None = None
        self._rehook = False
        self._error_at_start = _current_error()
        self._cells = watch_cells()
        self._output = Output(self._journal.emit) if capture_output else None
        self._gatherer = Gatherer(self._journal, presence.who, sampling=sampling)
        self._threads = Threads(self._beat, self._gatherer.run)

    def start(self, end: ProcessEnd) -> None:
        """Begin to beat; ``end`` watches how this process ends."""
        self._end = end
        self._threads.start()
        self._probe()

    # What scripts use.

    @property
    def id(self) -> str:
        """Run id; settles it where ranks need not agree first."""
        self._presence.look(now=True)
        return self._presence.run

    @property
    def rank(self) -> int:
        """Rank of this process, as known now."""
        return self._presence.me.rank

    @property
    def attempt(self) -> str:
        """Attempt key, as known now."""
        return self._presence.me.attempt

    @property
    def announced_ranks(self) -> int | None:
        """Number of ranks that the launcher has said; None where it says none."""
        return self._presence.me.world

    @property
    def url(self) -> str | None:
        """Page of the run; None where no server is known."""
        return f"{self._server}/runs/{self.id}" if self._server else None

    @property
    def finished(self) -> bool:
        """Whether ``finish`` was called, by whomever."""
        return self._finished

    def log(self, values: Mapping[str, object], step: int | None = None) -> None:
        """Keep values of metrics: scalars, vectors (one series a device) and nested dicts of Python, numpy, torch, jax.

        Args:
            values: metric -> value; NaN and infinities are kept.
            step: the open step where None; without steps, one more than the last.
        """
        if self._finished:
            self._note_late("log")
            return
        if type(values) is not dict and not isinstance(values, Mapping):
            self._misuse(  # type: ignore[unreachable]
                UsageError(
                    f"log() takes a mapping, not {type(values).__name__}", code="bad_values", hint='log({"loss": x})'
                )
            )
            return
        number = self._next_step() if step is None else step if type(step) is int else self._as_step(step)
        now = time.time_ns() // 1000
        self._recorder.log(values, number, now)
        presence = self._presence
        self._last_step = presence.step = number
        presence.progress_at = now
        if not self._nudged:
            self._settle()

    def step(self, step: int) -> Step:
        """``with run.step(i):`` — progress, duration and phases of one step."""
        if self._finished:
            self._note_late("step")
        elif self._auto is not None and self._stepped:
            self._auto.boundary(self._last_step)
        return Step(self.timer, step if type(step) is int else self._as_step(step))

    def phase(self, name: str) -> PhaseScope:
        """``with run.phase("forward"):`` — time of a named stretch; nested ones count for themselves."""
        return PhaseScope(self.timer, _label(name))

    def data(self, loader: Iterable[Any]) -> Any:
        """The loader (or iterator), with each wait for its next item timed as phase ``data_wait``."""
        return Waited(self.timer, loader)

    def checkpoint(self, step: int | None = None, path: object = None, *, durable: bool = True) -> Checkpoint:
        """``with run.checkpoint(i, path):`` — the time that saving blocks.

        Args:
            step: step that the checkpoint holds; the last one where None.
            path: where it is written.
            durable: False for a save that goes on in the background: then call ``checkpoint_durable(i)``.
        """
        number = max(self._last_step, 0) if step is None else self._as_step(step)
        return Checkpoint(self.timer, self.checkpointed, number, None if path is None else str(plain(path)), durable)

    def checkpoint_durable(self, step: int) -> None:
        """The checkpoint of ``step`` is complete and would survive this host."""
        now = time.time_ns() // 1000
        if self._end is not None:
            self._end.note_checkpoint()
        self._mark("checkpoint_durable", now, now, step=clamp(self._as_step(step)))

    def resume(self, folder: object = None) -> "Resumed | None":
        """The newest checkpoint of ``autocheckpoint`` that is whole, the same on all ranks; None where there is none.

        Its files are read and compared with its manifest; one that is damaged is passed over and shown on the run.

        Args:
            folder: where the checkpoints are, shared by all ranks; ``checkpoints/<run id>`` where None.
        """
        # Imported on use, as below: a run that does not checkpoint does not pay for it.
        from stepward.sdk import saving

        return saving.resume(self, folder)

    def autocheckpoint(
        self,
        save: Callable[[str], object],
        every: int | None = None,
        grace: float = 30.0,
        *,
        folder: object = None,
        keep: int = 2,
        signals: Sequence[str] = ("SIGTERM", "SIGUSR1", "SIGUSR2"),
    ) -> None:
        """Save at the boundaries of ``run.step``: every so many steps, and before the end that a signal asks for.

        After the last save the process ends with exit code 75, which says: start me again (docs/resume.md).

        Args:
            save: called with a folder into which this rank writes its part; what it raises comes out of ``run.step``.
            every: steps between saves; None saves only before the end.
            grace: seconds between the signal and the kill: a save that would not fit is not begun.
            folder: as for ``resume``.
            keep: complete checkpoints that stay.
            signals: which ask for the end; those but SIGTERM only where nobody else handles them.

        Raises:
            Unavailable: ``checkpoint_folder``: the folder cannot be written.
            UsageError: ``bad_argument``.
        """
        from stepward.sdk import saving

        self._auto = saving.begin(self, save, every=every, grace=grace, folder=folder, keep=keep, signals=signals)

    def event(self, type: str, title: str = "", **data: Any) -> None:
        """Mark that something happened now: shown on the run's charts."""
        now = time.time_ns() // 1000
        step = clamp(self._last_step) if self._last_step >= 0 else None
        tree = mask_tree(plain(data))
        self._mark(str(plain(type)), now, now, step=step, title=mask_text(str(plain(title))), data=tree)

    def finish(self, exit_code: int | None = None) -> None:
        """End the run and flush, at most 10 s; a second call does nothing.

        Args:
            exit_code: 0 = finished, else failed; what is no integer is 1, as for ``sys.exit``. None: failed with the
                exception that is being handled (as in a ``finally``), else 0.
        """
        if self._finished or os.getpid() != self._pid:
            self._finish_child()
            return
        error = _current_error()
        if exit_code is None and error is not None and error is not self._error_at_start:
            self._finish(self._by_error(error), EXIT_FLUSH_S)
        elif exit_code is None and self._cells is not None and self._cells.error is not None:
            self._finish(self._by_error(self._cells.error), EXIT_FLUSH_S)
        else:
            self._finish(self._how().by_code(plain(exit_code)), EXIT_FLUSH_S)

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        elif not self._finished and os.getpid() == self._pid:
            self._finish(self._by_error(error), EXIT_FLUSH_S)

    def __repr__(self) -> str:
        label = f"{self.name} " if self.name else ""
        return f"<stepward run {label}{self._presence.run} rank {self.rank}{' finished' if self._finished else ''}>"

    def _repr_html_(self) -> str:
        # Imported on use: notebooks alone ask.
        from html import escape

        label, url = escape(self.name or self._presence.run), self.url
        link = f'<a href="{escape(url)}" target="_blank">{label}</a>' if url else f"<code>{label}</code>"
        return f"stepward run {link}{' (finished)' if self._finished else ''}"

    # The sink of the timer.

    def step_begins(self, number: int) -> None:
        """Progress."""
        presence = self._presence
        if not self._stepped:
            self._stepped = True
            self._probe()
        self._last_step = presence.step = number
        presence.progress_at = time.time_ns() // 1000
        if not self._nudged:
            self._settle()
        if self._rehook:
            self._rehook = False
            hook_signals()

    def step_row(self, number: int, start_us: int, duration_s: float, columns: Columns, seconds: list[float]) -> None:
        """A step is complete."""
        if not self._finished:
            self._journal.step_row(number, start_us, duration_s, columns, seconds)

    def phase_is(self, name: str | None) -> None:
        """The innermost phase."""
        self._presence.phase = name

    def phase_event(self, name: str, start_us: int, end_us: int) -> None:
        """A phase outside of any step."""
        self._mark("phase", start_us, end_us, title=name, data={"name": name, "clock": "host"})

    # Inner parts.

    def ends_with_process(self, exit: Exit, flush_s: float) -> None:
        """The process ends, and with it the run."""
        if self._cells is not None and self._cells.error is not None and exit.exit_code == 0:
            exit = self._by_error(self._cells.error)
        self._finish(exit, flush_s)

    def thread_failed(self, last_line: str, trace: str) -> None:
        """A thread of the script ended by an exception; the process goes on."""
        now = time.time_ns() // 1000
        self._mark("thread_exception", now, now, title=last_line, data={"traceback": trace})

    def _finish(self, exit: Exit, flush_s: float) -> None:
        if self._finished:
            self._presence.end(exit, flush_s)
            return
        if self._auto is not None:
            self._auto.close()
        self._finished = True
        until = time.monotonic() + flush_s
        self._settle()
        if self._presence.settled:
            self._gatherer.described.wait(min(flush_s / 4, DESCRIBE_S))
        self._threads.stop()
        if self._output is not None:
            self._output.restore()
            exit = _with_tail(exit, self._output.tail())
        if isinstance(self.timer.device, cuda.CudaClock):
            self.timer.device.settle(last=True)
        if self._presence.me.rank == 0:
            self._gatherer.frameworks()
        if not self._presence.end(exit, max(until - time.monotonic(), 0.0)) and self._server and self.rank == 0:
            warn(f"{self!r}: not all of it has reached {self._server}; `stepward sync` sends what is left")
        self._presence.close()
        if self._cells is not None:
            self._cells.close()

    def _finish_child(self) -> None:
        """In a forked child the run goes on; what the child wrote is handed to who ships."""
        if not self._finished and os.getpid() != self._pid:
            self._finished = True
            self._recorder.drain(1.0)
            self._presence.close()

    def _by_error(self, error: BaseException) -> Exit:
        return self._how().by_error(error)

    def _how(self) -> ProcessEnd:
        return self._end or ProcessEnd()

    def _beat(self) -> float:
        if self._output is not None:
            self._output.flush()
        if self.timer.device is None:
            self.timer.device = cuda.find()
        elif isinstance(self.timer.device, cuda.CudaClock):
            self.timer.device.settle()
        self._rehook = self._rehook or signals_replaced()
        return self._presence.beat()

    def _settle(self) -> None:
        """The first step or points of a run that looks alone settle who writes; after that, the heartbeat looks."""
        self._nudged = True
        try:
            self._presence.look(now=True)
        except Exception:
            return

    def _probe(self) -> None:
        """Listen to the frameworks that are loaded by now."""
        if "jax" in sys.modules:
            # Imported on use: it needs a loaded JAX.
            from stepward.sdk.frameworks.jax import watch

            watch()

    def _send_config(self, tree: dict[str, Any]) -> None:
        if self._finished:
            self._note_late("config")
        else:
            self._journal.emit("config", Config(user=tree))

    def checkpointed(self, step: int, path: str | None, start_us: int, end_us: int, durable: bool = True) -> None:
        """A checkpoint that held the loop up from ``start_us`` to ``end_us`` is written."""
        data = {"path": path, "blocking_s": (end_us - start_us) / 1e6}
        self._mark("checkpoint", start_us, end_us, step=clamp(step), data=data)
        if durable:
            self.checkpoint_durable(step)

    def saved_part(self, step: int, path: str, start_us: int, end_us: int) -> None:
        """This rank's part of a checkpoint is written; the whole is not complete yet."""
        self.checkpointed(step, path, start_us, end_us, durable=False)

    def _mark(self, type: str, start_us: int, end_us: int, **more: Any) -> None:
        if self._finished:
            self._note_late("event")
            return
        rank = self._presence.me.rank
        event = Event(id=ulid(), type=type, started_at=start_us, ended_at=end_us, rank=rank, **more)
        self._journal.emit("events", Events([event]))

    def _next_step(self) -> int:
        step = self.timer.open.step
        if step is not None:
            return step.number
        return self._last_step if self._stepped else self._last_step + 1

    def _as_step(self, step: Any) -> int:
        # Arrays raise errors of their own kinds; so does whatever else pretends to be a number.
        with contextlib.suppress(Exception):
            return int(step) if isinstance(step, float) and step.is_integer() else index(step)
        self._misuse(UsageError(f"a step is an integer, not {plain(step)!r:.80}", code="bad_step", hint="step=i"))
        return max(self._last_step, 0)

    def _note_late(self, what: str) -> None:
        self._late += 1
        self._misuse(
            UsageError(f"{what}() after finish() is not recorded", code="run_finished", hint="call init() again")
        )

    def _misuse(self, error: UsageError) -> None:
        if self._strict:
            raise error
        if error.code not in self._said:
            self._said.add(error.code)
            warn(f"{error} (said once)")


def _label(name: object) -> str:
    """A name that a frame can carry: one bad name must not cost the step its row."""
    if type(name) is str and name.isascii() and 0 < len(name) <= MAX_NAME:
        return name
    return str(plain(name))[:MAX_NAME] or "unnamed"


def _current_error() -> BaseException | None:
    return sys.exc_info()[1]


def _with_tail(exit: Exit, tail: list[str]) -> Exit:
    return msgspec.structs.replace(exit, tail=[mask_text(line[:2000]) for line in tail])
