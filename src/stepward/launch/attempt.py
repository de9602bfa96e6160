"""One attempt: starts the ranks, waits for signals and ends, beats, and stops everybody when one ends badly.

One loop in the main thread does it all; the clock of the loop is the wait for a signal. Output and readings have threads
of their own. Nothing but reaping can keep the loop from its next turn.
"""

import os
import signal
import time
from functools import partial
from typing import NamedTuple

from stepward.collect.kernel_log import KernelLog, killed_for_memory
from stepward.errors import CommandFailed
from stepward.launch import signals as sig
from stepward.launch.exits import End, end_of, is_memory_kill, observations
from stepward.launch.heir import Heir
from stepward.launch.notes import guarded, say
from stepward.launch.output import STREAMS, Channel, Positions, StreamLog
from stepward.launch.plan import Plan, free_port
from stepward.launch.pump import Line, Pump
from stepward.launch.readings import Readings
from stepward.launch.record import Record, now_us, writer_meta
from stepward.launch.signals import Received, Signals
from stepward.launch.spawn import no_room, spawn
from stepward.launch.tail import Tail
from stepward.launch.terminal import Terminal
from stepward.launch.watch import Watch
from stepward.model.frames import LogChunk
from stepward.model.words import HEARTBEAT_S

LOOK_S = 1.0
"""Pause between two looks at cgroups and descendants."""
SETTLE_S = 0.5
"""Longest wait, at an end, for the last lines that were written before it."""


class Member:
    """One process of the attempt and what became of it.

    Args:
        rank: where it is known.
        shown_rank: rank to report it under while no ranks are seen below it.
    """

    def __init__(self, number: int, rank: int | None, shown_rank: int, pid: int, tail: Tail) -> None:
        self.number, self.rank, self.shown_rank = number, rank, shown_rank
        self.pid, self.tail, self.watch = pid, tail, Watch(pid)
        self.end: End | None = None
        self.memory: str | None = None


class Context(NamedTuple):
    """What attempts share."""

    plan: Plan
    root: str
    signals: Signals
    heir: Heir | None
    positions: Positions | None
    kernel_log: KernelLog


class Attempt:
    """Attempt number ``restart`` of this launch.

    Attributes:
        record: stays open after the attempt, for the announcement of the next one; the caller closes it.
        ended: whether somebody has asked for the end of everything.
    """

    def __init__(self, context: Context, restart: int) -> None:
        self._context, self._plan, self._restart = context, context.plan, restart
        self._meta = writer_meta(context.plan, restart)
        self.record = Record(context.root, self._meta)
        self.ended = False
        self._asked = 0
        self._senders: dict[int, str] = {}
        self._members: list[Member] = []
        self._lines: list[Line] = []
        self._first_bad: Member | None = None
        self._kernel: dict[int, str] = {}
        self._kill_at: float | None = None
        self._killed_as_asked = False
        self._beat_at = self._look_at = 0.0

    def run(self) -> End:
        """Start, supervise to the end, and record it; the end that stands for the whole attempt."""
        failed = self._start()
        if failed is not None:
            return failed
        pump = Pump(self._lines, Terminal(prefixed=self._plan.count > 1), self._context.positions)
        pump.start()
        watches = {member.shown_rank: member.watch for member in self._members}
        self._entrust({rank: watch.pid for rank, watch in watches.items()})
        keeps = self._plan.keeps_output(self._restart)
        readings = Readings(self.record, watches, launcher=self._plan.options.ranks is None, samples=keeps)
        readings.start()
        while self._living():
            self._turn(pump)
        readings.stop()
        if self.will_restart:
            self._clear_leftovers()
        all_closed = pump.finish()
        if self._context.heir is not None and all_closed:
            self._context.heir.release()
        return self._conclude()

    @property
    def will_restart(self) -> bool:
        """Whether a bad end is followed by another attempt."""
        return not self.ended and self._first_bad is not None and self._restart < self._plan.options.restarts

    def _start(self) -> End | None:
        """Start all ranks; the end of the attempt when one cannot be started."""
        port = free_port() if self._plan.options.ranks is not None else 0
        for number in range(self._plan.count):
            tail, channels = Tail(), list[Channel]()
            try:
                channels += map(Channel, STREAMS)
                pid = self._spawn(number, channels, port)
            except OSError as error:
                return self._not_started(no_room(number, self._plan.count, error))
            except CommandFailed as error:
                return self._not_started(error)
            finally:
                for channel in channels:
                    channel.started()
            rank, shown_rank = self._plan.rank_of(number), self._plan.presumed_rank(number)
            member = Member(number, rank, shown_rank, pid, tail)
            self._members.append(member)
            for channel in channels:
                log = StreamLog(channel.stream, member.rank, self._keep)
                self._lines.append(Line(channel, log, tail, number, len(self._lines)))
        return None

    def _keep(self, chunk: LogChunk) -> bool:
        return self.record.logs(chunk) if self._plan.keeps_output(self._restart) else True

    def _spawn(self, number: int, channels: list[Channel], port: int) -> int:
        environ = self._plan.child_environ(number, self._restart, port=port)
        if not all(channel.terminal for channel in channels):
            environ.setdefault("PYTHONUNBUFFERED", "1")
        out, err = channels
        stdin = 0 if number == 0 else None
        command, mask = self._plan.options.command, self._context.signals.before
        return spawn(command, environ, stdin=stdin, stdout=out.child, stderr=err.child, mask=mask)

    def _not_started(self, error: CommandFailed) -> End:
        say(error.message)
        for member in self._members:
            sig.send(member.pid, signal.SIGKILL)
            os.waitpid(member.pid, 0)
        # What is left of descriptors is for those who send the records.
        for line in self._lines:
            line.channel.close()
        self._lines.clear()
        end = End(code=int(error.context["exit_code"]))
        for seen in observations(end, at=now_us(), rank=None, tail=[], final=True, reason=error.message):
            self.record.exit(seen)
        self.ended = True
        return end

    def _entrust(self, pids: dict[int, int]) -> None:
        if self._context.heir is not None:
            channels = [
                (line.channel.stream, self._plan.rank_of(line.number), line.channel.ours) for line in self._lines
            ]
            self._context.heir.entrust(self._context.root, self._meta, channels, pids)

    def _living(self) -> list[Member]:
        return [member for member in self._members if member.end is None]

    def _turn(self, pump: Pump) -> None:
        due = min(at for at in (self._beat_at, self._look_at, self._kill_at) if at is not None)
        received = self._context.signals.wait(due - time.monotonic())
        if received is not None:
            guarded("passing a signal on", lambda: self._on_signal(received), None)
        for member in self._living():
            status = self._reap(member)
            if status is not None:
                member.end = end_of(status)
                guarded("recording an end", partial(self._on_end, member, member.end, pump), None)
        guarded("watching", self._on_time, None)

    def _reap(self, member: Member) -> int | None:
        try:
            pid, status = os.waitpid(member.pid, os.WNOHANG)
        except ChildProcessError:
            # Somebody else has waited for our child: how it ended is not known.
            return 1 << 8
        return status if pid else None

    def _on_time(self) -> None:
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._killed_as_asked = self._asked > 1
            self._signal_all(signal.SIGKILL)
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            for member in self._living():
                member.watch.look()
        if now >= self._beat_at:
            self._beat_at = now + HEARTBEAT_S
            self._beat()

    def _beat(self) -> None:
        states: dict[int, bool] = {}
        for member in self._living():
            states.update(member.watch.states(member.shown_rank))
        stopped = [rank for rank, is_stopped in states.items() if is_stopped]
        self.record.status([rank for rank in states if rank not in stopped], stopped)

    def _on_signal(self, received: Received) -> None:
        number = received.number
        if number == signal.SIGTSTP:
            self._pause()
        elif number == signal.SIGWINCH:
            for line in self._lines:
                line.channel.resize()
            self._signal_all(number)
        elif number in sig.FORWARDED:
            sender = received.sender_name()
            self._senders[number] = f"{number.name} from {sender or 'outside'}" if received.sender else number.name
            if number in sig.ENDING:
                self._ask_for_end()
            if not sig.already_delivered(received, sender, self._plan.environ):
                self._signal_all(number)

    def _ask_for_end(self) -> None:
        """Somebody wants the end: no attempt follows. Asked twice, ranks get the grace time; thrice, none."""
        self.ended = True
        self._asked += 1
        if self._asked > 1:
            grace = self._plan.options.grace_s if self._asked == 2 else 0.0
            self._kill_at = time.monotonic() + grace

    def _pause(self) -> None:
        """Ctrl-Z: the ranks stop first, since their sessions do not see the terminal; all go on together."""
        self._signal_all(signal.SIGSTOP)
        self.record.status([], [member.shown_rank for member in self._living()])
        sig.stop_self()
        self._signal_all(signal.SIGCONT)
        self._beat_at = 0.0

    def _signal_all(self, number: signal.Signals) -> None:
        for member in self._living():
            sig.send(member.pid, number)

    def _on_end(self, member: Member, end: End, pump: Pump) -> None:
        member.memory = self._memory_words(member, end)
        first = end.bad and self._first_bad is None
        if first:
            self._first_bad = member
            self._stop_others()
        pump.settle(SETTLE_S)
        if self._is_rank(member):
            self._record_end(member, member.shown_rank, None if first or not end.bad else self._stopped_since())

    def _is_rank(self, member: Member) -> bool:
        """Whether its end is the end of a rank, not of a launcher that had ranks below."""
        return member.rank is not None or not member.watch.ranks

    def _stopped_since(self) -> str | None:
        first = self._first_bad
        return None if first is None else f"stopped after rank {first.shown_rank} ended with {first.end}"

    def _stop_others(self) -> None:
        others = self._living()
        if others and self._kill_at is None:
            self._kill_at = time.monotonic() + self._plan.options.grace_s
        for member in others:
            sig.send(member.pid, signal.SIGTERM)
            # A stopped process takes its signal only when it goes on.
            sig.send(member.pid, signal.SIGCONT)

    def _memory_words(self, member: Member, end: End) -> str | None:
        for line in self._context.kernel_log.lines():
            pid = killed_for_memory(line)
            if pid is not None:
                self._kernel[pid] = line
        named = next((self._kernel[pid] for pid in member.watch.pids if pid in self._kernel), None)
        counted = member.watch.killed_in_cgroup()
        if not is_memory_kill(end, counted=counted, named=named is not None):
            return None
        return named or "the cgroup counted an out-of-memory kill"

    def _clear_leftovers(self) -> None:
        """Before the next attempt: what the ranks left behind holds ports and devices."""
        until = time.monotonic() + self._plan.options.grace_s
        left = [member.pid for member in self._members if sig.send(member.pid, signal.SIGTERM)]
        while left and time.monotonic() < until:
            received = self._context.signals.wait(0.1)
            if received is not None and received.number in sig.ENDING:
                self.ended = True
                break
            left = [group for group in left if sig.is_inhabited(group)]
        for group in left:
            sig.send(group, signal.SIGKILL)

    def _conclude(self) -> End:
        """Record the end of the whole attempt: that of the first rank that ended badly, else of the first."""
        decisive = self._first_bad or self._members[0]
        end = decisive.end or End(code=1)
        self._record_end(decisive, None, self._senders.get(end.shell_code - 128))
        return end

    def _record_end(self, member: Member, rank: int | None, reason: str | None) -> None:
        assert member.end is not None
        for seen in observations(
            member.end,
            at=now_us(),
            rank=rank,
            tail=member.tail.lines(),
            final=not (member.end.bad and self.will_restart),
            reason=reason,
            memory=member.memory,
            as_asked=self._killed_as_asked,
        ):
            self.record.exit(seen)
