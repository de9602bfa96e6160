"""``run.autocheckpoint``: save on time and, when a signal asks for the end, once more at a step that all ranks agree on.

The boundary is the beginning of ``run.step(i)``: all before it is done and logged. When a signal asks for the end, the
ranks agree on one step: the first whose boundary comes names it, a second's worth of steps ahead, in a note in the
folder that all share; notes are made so that only the first stands. All save at that step, and the process ends with
``REQUEUE_EXIT`` once the checkpoint is complete, so that whoever launched it starts it again.
"""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

from stepward.model.words import REQUEUE_EXIT
from stepward.sdk import exits
from stepward.sdk.checkpoint_folder import CheckpointFolder
from stepward.spool.roots import warn

AGREE_S = 1.0
"""How far ahead, in seconds of steps, the common step lies: every rank must see the note before it gets there."""
LOOK_EVERY_S = 0.25
"""How often a rank that got no signal looks whether another did."""
PARTS_S = 600.0
"""How long rank 0 waits for the parts of the other ranks."""
SAVE_MARGIN = 1.5
"""A save is begun before the end only if this many times its longest time so far fits into the grace."""

Save = Callable[[str], object]


class Told(NamedTuple):
    """What happened, for the run's record.

    Attributes:
        checkpointed: (step, path, start µs, end µs): this rank's save held the loop up for that time.
        durable: a step whose checkpoint is complete.
        event: (type, title, data).
    """

    checkpointed: Callable[[int, str, int, int], None]
    durable: Callable[[int], None]
    event: Callable[[str, str, dict[str, Any]], None]


class AutoCheckpoint:
    """Saves every so many steps, and at a common step when a signal asks for the end.

    Args:
        save: writes the rank's part into the folder that it is given.
        folder: the checkpoints on disk.
        rank, world: of this process, asked at each boundary (a rank may learn its number late).
        every: steps between saves; None saves only before the end.
        grace: seconds between the signal and the kill.
        told: hears what happened.
    """

    def __init__(
        self,
        save: Save,
        folder: CheckpointFolder,
        *,
        rank: Callable[[], int],
        world: Callable[[], int],
        every: int | None,
        grace: float,
        told: Told,
    ) -> None:
        self._save, self._folder, self._told = save, folder, told
        self._rank, self._world = rank, world
        self._every, self._grace = every, grace
        self._signal_at: float | None = None
        self._target: int | None = None
        self._saved: int | None = None
        self._longest_s = 0.0
        self._boundary: tuple[int, float] | None = None
        self._step_s = 0.0
        self._completing: threading.Thread | None = None
        self._watching: threading.Thread | None = None
        self._closed = threading.Event()

    # Asked for the end.

    def catch(self, names: Sequence[str]) -> None:
        """Let these signals ask for a checkpoint. Handlers of others are called too; main thread only."""
        for name in names:
            number = signal.Signals[name]
            prior = signal.getsignal(number)
            if name != "SIGTERM" and prior is not signal.SIG_DFL:
                continue  # somebody else uses it
            signal.signal(number, self._handler(prior))
        exits.hook_signals()

    def _handler(self, prior: Any) -> Callable[[int, FrameType | None], None]:
        # The SDK's own handler at SIGTERM ends the process; now the boundary does.
        chained = exits.behind(prior)

        def on_signal(number: int, frame: FrameType | None) -> None:
            exits.note_terminated()
            if self._signal_at is None:
                self._signal_at = time.monotonic()
            if chained is not None:
                chained(number, frame)

        return on_signal

    def watch(self) -> None:
        """Look in the background for the word of other ranks."""
        self._watching = threading.Thread(target=self._watch, name="stepward stop note", daemon=True)
        self._watching.start()

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            if self._target is None and self._world() > 1:
                self._read_target()

    def _read_target(self) -> None:
        try:
            note = self._folder.read_note("stop")
        except OSError:
            return
        if note is not None:
            self._target = int(note)
            if self._signal_at is None:
                self._signal_at = time.monotonic()

    # The boundary.

    def boundary(self, step: int) -> None:
        """``step`` is done and the next has not begun: save if it is time, end if that was asked for.

        Raises:
            SystemExit: ``REQUEUE_EXIT`` after the last checkpoint.
            Exception: what the user's save raises.
        """
        now = time.monotonic()
        if self._boundary is not None and step > self._boundary[0]:
            self._step_s = (now - self._boundary[1]) / (step - self._boundary[0])
        self._boundary = (step, now)
        if self._signal_at is not None:
            self._before_the_end(step)
        elif self._every is not None and step % self._every == 0 and step != self._saved and step > 0:
            self._take(step)

    def _before_the_end(self, step: int) -> None:
        world = self._world()
        if self._target is None:
            ahead = math.ceil(AGREE_S / self._step_s) if world > 1 and self._step_s > 0 else 0
            self._target = step + ahead
            if world > 1:
                self._target = int(self._folder.leave_note("stop", str(self._target).encode()))
        if step < self._target:
            if self._every is not None and step % self._every == 0 and step != self._saved:
                self._take(step)
            return
        left = self._grace - (time.monotonic() - (self._signal_at or 0.0))
        if step > self._target:
            self._told.event("checkpoint_missed", f"step {self._target} had passed when this rank heard of the end", {})
        elif step != self._saved and left < self._longest_s * SAVE_MARGIN:
            why = f"{left:.1f} s are left, a save took {self._longest_s:.1f} s"
            self._told.event("checkpoint_missed", f"no save before the end: {why}", {"left_s": left})
        elif step != self._saved:
            self._take(step)
        self._wait_complete(self._grace - (time.monotonic() - (self._signal_at or 0.0)))
        # Through sys.exit: the SDK notes its code there.
        sys.exit(REQUEUE_EXIT)

    def _take(self, step: int) -> None:
        self._wait_complete(PARTS_S)
        rank, world = self._rank(), self._world()
        stage = self._folder.stage(step)
        start_us, start = time.time_ns() // 1000, time.monotonic()
        self._save(stage)
        self._folder.part_done(step, rank)
        self._saved = step
        self._longest_s = max(self._longest_s, time.monotonic() - start)
        self._told.checkpointed(step, self._folder.path(step), start_us, time.time_ns() // 1000)
        self._completing = threading.Thread(
            target=self._complete, args=(step, rank, world), name="stepward checkpoint", daemon=True
        )
        self._completing.start()

    def _complete(self, step: int, rank: int, world: int) -> None:
        """Rank 0 makes the checkpoint complete; the others see that it is."""
        try:
            if self._until(lambda: self._is_complete(step, rank, world)):
                self._told.durable(step)
            else:
                missing = ", ".join(map(str, self._folder.parts_missing(step, world)))
                self._told.event("checkpoint_missed", f"step {step}: no part of rank {missing}", {"step": step})
        except OSError as error:
            warn(f"the checkpoint of step {step} is not complete: {error}")
            self._told.event("checkpoint_missed", f"step {step}: {error}", {"step": step})

    def _is_complete(self, step: int, rank: int, world: int) -> bool:
        if rank != 0:
            return os.path.exists(self._folder.path(step))
        if self._folder.parts_missing(step, world):
            return False
        self._folder.complete(step, world)
        return True

    def _until(self, done: Callable[[], bool]) -> bool:
        until = time.monotonic() + PARTS_S
        while not done():
            if time.monotonic() >= until or self._closed.wait(0.02):
                return False
        return True

    def _wait_complete(self, seconds: float) -> None:
        if self._completing is not None:
            self._completing.join(max(seconds, 0.0))

    def close(self) -> None:
        """The run ends: the checkpoint on its way may still be completed, then nothing waits any more."""
        self._wait_complete(PARTS_S if self._signal_at is None else 0.0)
        self._closed.set()
        if self._rank() == 0:
            self._folder.take_back("stop")
