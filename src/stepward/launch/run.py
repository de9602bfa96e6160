"""``stepward run``: attempts in a row, until one ends well, none is left or somebody asks for the end."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial

from stepward.collect.kernel_log import KernelLog, is_first_pid_namespace
from stepward.launch import signals as sig
from stepward.launch.attempt import Attempt, Context
from stepward.launch.exits import End
from stepward.launch.heir import Heir
from stepward.launch.notes import guarded, say
from stepward.launch.output import Positions
from stepward.launch.plan import Options, Plan, make_plan
from stepward.launch.record import now_us
from stepward.launch.shipping import Shipping
from stepward.launch.signals import Signals
from stepward.launch.spawn import NOT_EXECUTABLE, NOT_FOUND
from stepward.model.frames import Config
from stepward.model.words import HEARTBEAT_S
from stepward.orchestrators.local.proc import read_facts
from stepward.spool import roots

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""Pause before the first restart, doubled at each, up to the longest."""


def launch(options: Options) -> int:
    """Run the command to its end; the exit code as a shell reports it (128 + n for signal n).

    Whatever fails in here before the command has started, it starts all the same, unwatched.
    """
    _open_standard_descriptors()
    signals = Signals()
    try:
        plan = make_plan(options, os.environ, read_facts())
        if plan.adds_nothing:
            if options.name:
                say("--name is left to the `stepward run` around this one, whose run it is")
            _replace_self(options.command, signals)
        context = _context(plan, signals)
    except Exception as error:
        say(f"{type(error).__name__}: {error}; the command runs unwatched")
        _replace_self(options.command, signals)
    shipping = Shipping(plan.settings, context.root, plan.run)
    try:
        return _attempts(context, shipping).shell_code
    finally:
        if context.heir is not None:
            context.heir.dismiss()
        context.kernel_log.close()
        signals.release()
        with contextlib.suppress(KeyboardInterrupt):
            shipping.finish()


def _open_standard_descriptors() -> None:
    """Where a caller has closed 0, 1 or 2, a pipe of ours must not get that number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _context(plan: Plan, signals: Signals) -> Context:
    heir: Heir | None = None
    if sys.platform == "linux":
        heir = guarded("starting the heir of the output", lambda: Heir(signals.before), None)
    positions = Positions(heir.positions_file) if heir is not None else None
    root = roots.resolve(plan.settings.spool) or plan.settings.spool
    # Inside a container the kernel's numbers are those of other processes.
    kernel_log = KernelLog() if is_first_pid_namespace() else KernelLog(os.devnull)
    return Context(plan, root, signals, heir, positions, kernel_log)


def _replace_self(command: Sequence[str], signals: Signals) -> None:
    """Become the command."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signals.before)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")
        sys.exit(NOT_EXECUTABLE if isinstance(error, PermissionError) else NOT_FOUND)


def _attempts(context: Context, shipping: Shipping) -> End:
    restart = 0
    while True:
        attempt = Attempt(context, restart)
        attempt.record.config(_config(context.plan))
        attempt.record.status()
        if restart == 0:
            shipping.start()
        end = attempt.run()
        restart += 1
        again = attempt.will_restart and _pause(context, attempt, restart)
        attempt.record.close()
        if not again:
            return end


def _pause(context: Context, attempt: Attempt, restart: int) -> bool:
    """Announce the next attempt and wait; False when somebody asked for the end meanwhile."""
    following = context.plan.attempt_key(restart)
    until = time.monotonic() + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (restart - 1))
    say(f"attempt {restart} of {context.plan.options.restarts + 1} ended badly; the next begins in a moment")
    beat_at = 0.0
    while (now := time.monotonic()) < until:
        if now >= beat_at:
            attempt.record.status(next_attempt=following)
            beat_at = now + HEARTBEAT_S
        received = context.signals.wait(min(until, beat_at) - now)
        if received is not None and received.number in sig.ENDING:
            return False
    return True


def _config(plan: Plan) -> Config:
    command: list[str] = guarded("masking the command line", partial(_masked, plan.options.command), [])
    return Config(
        key=plan.key,
        name=plan.options.name,
        software={"command": command},
        system={"host": plan.node},
        job=plan.job,
        ranks=plan.world,
        started_at=now_us(),
    )


def _masked(command: Sequence[str]) -> list[str]:
    from stepward.sdk.secrets import mask_argv

    return mask_argv(command)
