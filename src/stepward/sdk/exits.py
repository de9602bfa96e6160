"""How this process ends: what the interpreter lets it see, as one ``Exit``, said once.

Seen: a normal end, ``sys.exit(n)``, an uncaught exception with its traceback, KeyboardInterrupt, SIGTERM. Not seen:
``os._exit``, SIGKILL and crashes in C; then nothing is said and the server's lease decides. A bare ``raise
SystemExit(n)`` is seen as an end by exception, its code is not. Handlers that were there before are called; the exit
status stays what it would be without us. ``faulthandler`` is not touched.
"""

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from stepward.model.states import Exit, Witness

OnExit = Callable[[Exit, float], None]
"""Told once how the process ends, and how many seconds there are to flush."""

EXIT_FLUSH_S = 10.0
"""Seconds that a normal exit waits for a server that answers."""
SIGNAL_FLUSH_S = 2.0
"""Of the grace between SIGTERM and SIGKILL (Slurm's KillWait: 30 s, Kubernetes: 30 s) the user's handlers get the rest."""
MAX_TRACEBACK = 64 << 10
MAX_REASON = 4096
_UNSEEN = "SystemExit was raised without sys.exit: its code is not visible from inside the process"


class ProcessEnd:
    """What is known so far about the end of this process.

    Attributes:
        terminated: a SIGTERM has arrived.
        checkpointed: a checkpoint was completed after that.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.on_exit: OnExit | None = None
        self.terminated = False
        self.checkpointed = False
        self.error: BaseException | None = None
        self._code: object = None
        self._code_noted = False
        self._frame = _outermost_frame()

    def note_code(self, code: object) -> None:
        """``sys.exit(code)`` was called; whether it ends the process shows later."""
        self._code, self._code_noted = code, True

    def note_checkpoint(self) -> None:
        """A checkpoint was completed."""
        self.checkpointed = self.checkpointed or self.terminated

    def tell(self, exit: Exit, flush_s: float) -> None:
        """Say how the process ends, unless this is a forked child of it."""
        if self.on_exit is not None and self.pid == os.getpid():
            # A fault of ours, or a print inside a print (in a signal handler), must not change the exit status.
            with contextlib.suppress(Exception):
                self.on_exit(exit, flush_s)

    def at_end(self) -> Exit:
        """The end as it looks at ``atexit``."""
        if self.error is not None:
            return self.by_error(self.error)
        if self._frame is None or _returned(self._frame):
            return self.by_code(0)
        if self._code_noted:
            return self.by_code(self._code)
        return self._exit(reason=_UNSEEN)

    def by_error(self, error: BaseException) -> Exit:
        """The end that an exception means."""
        if isinstance(error, SystemExit):
            return self.by_code(error.code)
        told, trace = describe(error)
        if isinstance(error, KeyboardInterrupt):
            return self._exit(signal="SIGINT", exception=told, traceback=trace)
        return self._exit(exit_code=1, exception=told, traceback=trace)

    def by_code(self, code: object) -> Exit:
        """The end that ``sys.exit(code)`` means: None is 0, a text is 1, numbers are taken modulo 256."""
        if code is None or isinstance(code, int):
            return self._exit(exit_code=int(code or 0) & 255)
        # Imported on use: an end by a text is rare.
        from stepward.sdk.config import plain
        from stepward.sdk.secrets import mask_text

        return self._exit(exit_code=1, reason=mask_text(str(plain(code))[:MAX_REASON]))

    def by_signal(self, name: str) -> Exit:
        """The end by a signal that this process could still handle."""
        return self._exit(signal=name)

    def _exit(self, **facts: Any) -> Exit:
        return Exit(at=time.time_ns() // 1000, by=Witness.SDK, checkpointed=self.checkpointed, **facts)


_end: ProcessEnd | None = None
_hooked = False
_on_thread_error: Callable[[str, str], None] | None = None


def watch(on_exit: OnExit, on_thread_error: Callable[[str, str], None]) -> ProcessEnd:
    """Watch the end of this process for a run; a later call replaces the run."""
    global _end, _hooked, _on_thread_error
    if _end is None:
        _end = ProcessEnd()
        if not _hooked:
            _hooked = True
            _hook()
        _watch_child()
    _end.on_exit, _on_thread_error = on_exit, on_thread_error
    _end.checkpointed = _end.terminated = False
    hook_signals()
    return _end


def hook_signals() -> None:
    """Stand before whoever handles SIGTERM now; again when somebody replaced us. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    try:
        prior = signal.getsignal(signal.SIGTERM)
        ours = getattr(prior, "__module__", None) == __name__
        if not ours and (prior is signal.SIG_DFL or callable(prior)):
            signal.signal(signal.SIGTERM, _handler(prior))
    except (ValueError, OSError):  # an embedded interpreter without signals
        return


def note_terminated() -> None:
    """A signal has asked for the end and is being handled: a checkpoint that follows makes it a preemption."""
    if _end is not None:
        _end.terminated = True


def behind(handler: Any) -> Callable[..., Any] | None:
    """The handler of a signal that is not ours: itself, or what it stands before; None where there is none."""
    found = getattr(handler, "prior", None) if getattr(handler, "__module__", None) == __name__ else handler
    return found if callable(found) else None


def signals_replaced() -> bool:
    """Whether somebody has replaced our SIGTERM handler; may be asked in any thread."""
    return getattr(signal.getsignal(signal.SIGTERM), "__module__", None) != __name__


def describe(error: BaseException) -> tuple[str, str]:
    """Last line and whole traceback, masked, the middle cut out of one that is too long."""
    # Imported on use: an end by exception is rare, and linecache and tokenize come along.
    import traceback

    from stepward.sdk.secrets import mask_text

    last = "".join(traceback.format_exception_only(type(error), error)).strip()
    whole = mask_text("".join(traceback.format_exception(error)))
    if len(whole) > MAX_TRACEBACK:
        half = MAX_TRACEBACK // 2
        whole = f"{whole[:half]}\n[...]\n{whole[-half:]}"
    return mask_text(last[:MAX_REASON]), whole


def _hook() -> None:
    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_forget)
    _hook_exceptions()
    _hook_exit()


def _at_exit() -> None:
    if _end is None:
        return
    _end.tell(_end.at_end(), EXIT_FLUSH_S)
    if isinstance(_end.error, KeyboardInterrupt):
        _die_of_interrupt()


def _die_of_interrupt() -> None:
    """Let the interpreter still end by SIGINT: any ``exec`` of a text, as in modules imported at exit, makes it forget."""
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")


def _forget() -> None:
    """A forked child has its own end, and only when it begins a run of its own."""
    global _end, _on_thread_error
    _end = _on_thread_error = None


def _hook_exceptions() -> None:
    prior, prior_of_threads = sys.excepthook, threading.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if _end is not None:
            _end.error = error
        prior(kind, error, trace)

    def thread_excepthook(args: threading.ExceptHookArgs) -> None:
        if _on_thread_error is not None and args.exc_value is not None and args.exc_type is not SystemExit:
            _on_thread_error(*describe(args.exc_value))
        prior_of_threads(args)

    sys.excepthook, threading.excepthook = excepthook, thread_excepthook


def _hook_exit() -> None:
    """Note the code of ``sys.exit`` and of the shell's ``exit``: the interpreter forgets it before ``atexit``."""
    prior = sys.exit

    def exit(status: Any = None, /) -> Any:
        """As ``sys.exit``."""
        if _end is not None and threading.current_thread() is threading.main_thread():
            _end.note_code(status)
        return prior(status)

    sys.exit = exit
    quitter = type(getattr(sys.modules["builtins"], "exit", None))
    if quitter.__name__ == "Quitter":
        call = quitter.__call__

        def quit(self: Any, code: Any = None) -> Any:
            if _end is not None:
                _end.note_code(code)
            return call(self, code)

        quitter.__call__ = quit  # type: ignore[method-assign]


def _handler(prior: Any) -> Callable[[int, FrameType | None], Any]:
    def on_terminate(number: int, frame: FrameType | None) -> Any:
        end = _end
        if end is not None:
            end.terminated = True
        if callable(prior):
            return prior(number, frame)
        if end is not None:
            end.tell(end.by_signal("SIGTERM"), SIGNAL_FLUSH_S)
        # The default action, so that the parent sees the truth.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return None

    on_terminate.prior = prior  # type: ignore[attr-defined]
    return on_terminate


def _watch_child() -> None:
    """A process of ``multiprocessing`` ends without ``atexit``; its finalizers run while its exception is at hand."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:
        return
    # Loaded already in any child of multiprocessing.
    from multiprocessing.util import Finalize

    def finalize() -> None:
        if _end is not None:
            error = sys.exc_info()[1]
            _end.tell(_end.by_error(error) if error is not None else _end.by_code(0), EXIT_FLUSH_S)

    Finalize(None, finalize, exitpriority=100)


def _outermost_frame() -> FrameType | None:
    """The frame in which the main program runs: how it was left tells an end by SystemExit from a normal one."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _returned(frame: FrameType) -> bool:
    """Whether the frame was left by returning (its last instruction says so), not by an exception."""
    # Imported on use: opcode numbers change from version to version.
    from opcode import opname

    code = frame.f_code.co_code
    return frame.f_lasti < 0 or opname[code[frame.f_lasti]].startswith("RETURN")
