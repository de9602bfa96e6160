"""Exit truth table, SDK rows: real processes, what the SDK says of their end, and the status that the parent sees."""

import signal

import pytest

from stepward.model.states import State, Witness, verdict

pytestmark = pytest.mark.integration

BEGIN = "run = sw.init(name='t'); run.log({'loss': 1.0})\n"
READY = "print('ready', flush=True); time.sleep(60)\n"


@pytest.mark.parametrize(
    ("source", "code", "state", "exit_code"),
    [
        ("pass", 0, State.FINISHED, 0),
        ("sys.exit()", 0, State.FINISHED, 0),
        ("sys.exit(0)", 0, State.FINISHED, 0),
        ("sys.exit(3)", 3, State.FAILED, 3),
        ("sys.exit('no data')", 1, State.FAILED, 1),
        ("exit(4)", 4, State.FAILED, 4),
        ("sys.exit(256 + 5)", 5, State.FAILED, 5),
        ("def main():\n    sys.exit(6)\nmain()", 6, State.FAILED, 6),
        ("try:\n    sys.exit(7)\nexcept SystemExit:\n    pass", 0, State.FINISHED, 0),
        ("sys.exit(130)", 130, State.CANCELLED, 130),
        ("run.finish(); sys.exit(9)", 9, State.FINISHED, 0),
        ("run.finish(2)", 0, State.FAILED, 2),
        ("run.finish('no data')", 0, State.FAILED, 1),
        ("import numpy; run.finish(numpy.int64(0))", 0, State.FINISHED, 0),
        ("with run:\n    pass\nsys.exit(3)", 3, State.FINISHED, 0),
    ],
)
def test_ends_with_a_code(script, source, code, state, exit_code):
    script.run(BEGIN + source, code=code)
    (writer,) = script.written()
    assert (writer.exit.by, writer.exit.exit_code, writer.exit.rank) == (Witness.SDK, exit_code, 0)
    assert verdict(writer.exit).state is state
    assert writer.value("loss") == [(0, 1.0)]
    assert writer.meta.closed


@pytest.mark.parametrize(
    "source",
    [
        "def train():\n    raise ValueError('bad batch token=hf_abcdefghijklmnopqrstuvwxyz')\ntrain()",
        "with run:\n    raise ValueError('bad batch token=hf_abcdefghijklmnopqrstuvwxyz')",
        "try:\n    raise ValueError('bad batch token=hf_abcdefghijklmnopqrstuvwxyz')\nfinally:\n    run.finish()",
    ],
)
def test_an_exception_is_kept_with_its_traceback_and_without_secrets(script, source):
    _, _, err = script.run(BEGIN + source, code=1)
    (writer,) = script.written()
    assert writer.exit.exception.startswith("ValueError: bad batch")
    assert "Traceback" in writer.exit.traceback
    assert "hf_abc" not in writer.exit.traceback + writer.exit.exception
    assert verdict(writer.exit).state is State.FAILED
    assert "ValueError" in err


def test_an_exception_handled_before_the_run_is_not_its_end(script):
    source = """
    try:
        raise KeyError('first try')
    except KeyError:
        run = sw.init()
        run.finish()
    """
    script.run(source, code=0)
    assert script.written()[0].exit.exit_code == 0


def test_keyboard_interrupt_is_cancelled(script, wait_for_line):
    process = script.start(BEGIN + READY)
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGINT
    (writer,) = script.written()
    assert writer.exit.signal == "SIGINT"
    assert "KeyboardInterrupt" in writer.exit.traceback
    assert verdict(writer.exit).state is State.CANCELLED


def test_sigterm_is_said_and_the_parent_sees_the_signal(script, wait_for_line):
    process = script.start(BEGIN + READY)
    wait_for_line(process, "ready")
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM
    (writer,) = script.written()
    assert (writer.exit.signal, writer.exit.checkpointed) == ("SIGTERM", False)
    assert verdict(writer.exit).state is State.CANCELLED


HANDLER = """
def on_term(number, frame):
    with run.checkpoint(5, '/ckpt'): pass
    sys.exit({code})
"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_the_users_sigterm_handler_runs_and_a_checkpoint_makes_it_preempted(script, wait_for_line, order):
    handler = "signal.signal(signal.SIGTERM, lambda n, f: on_term(n, f))\n"
    define = HANDLER.format(code=0)
    begin = define + (handler + BEGIN if order == "before" else BEGIN + handler)
    # A handler that was installed after init is found by the heartbeat and stood before at a later step.
    loop = """
for i in range(10**6):
    with run.step(i): time.sleep(0.01)
    if run._rehook or signal.getsignal(signal.SIGTERM).__module__ == 'stepward.sdk.exits':
        if not run._rehook: print('ready', flush=True)
"""
    process = script.start(begin + loop)
    wait_for_line(process, "ready")
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode == 0
    (writer,) = script.written()
    assert (writer.exit.exit_code, writer.exit.checkpointed) == (0, True)
    assert verdict(writer.exit).state is State.PREEMPTED
    assert [e.step for e in writer.events("checkpoint_durable")] == [5]


def test_a_loop_that_stops_for_sigterm_saves_and_finishes_is_preempted(script, wait_for_line):
    source = """
flag = []
signal.signal(signal.SIGTERM, lambda n, f: flag.append(n))
run = sw.init()
print('ready', flush=True)
while not flag: time.sleep(0.01)
with run.checkpoint(7): pass
run.finish()
"""
    process = script.start(source)
    wait_for_line(process, "ready")
    process.terminate()
    process.communicate(timeout=120)
    (writer,) = script.written()
    assert (process.returncode, writer.exit.exit_code) == (0, 0)
    assert verdict(writer.exit).state is State.PREEMPTED


def test_an_end_by_a_text_keeps_no_secret(script):
    script.run(BEGIN + "sys.exit('cannot reach https://me:hunter22@host/ with token=abcdefgh12345')", code=1)
    (writer,) = script.written()
    assert "cannot reach" in writer.exit.reason
    assert "hunter22" not in writer.exit.reason and "abcdefgh12345" not in writer.exit.reason


def test_a_user_that_ignores_sigterm_goes_on(script, wait_for_line):
    source = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + BEGIN
    process = script.start(source + "print('ready', flush=True); time.sleep(0.5); sys.exit(0)")
    wait_for_line(process, "ready")
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert script.written()[0].exit.exit_code == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_what_kills_at_once_leaves_all_accepted_points_and_no_word(script, wait_for_line, number):
    source = BEGIN + "for i in range(100): run.log({'loss': float(i)}, step=i)\n" + READY
    process = script.start(source)
    wait_for_line(process, "ready")
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == -number
    (writer,) = script.written()
    assert writer.exit is None
    assert [step for step, _ in writer.value("loss")] == [0, *range(100)]


def test_os_exit_says_nothing(script):
    script.run(BEGIN + "os._exit(3)", code=3)
    assert script.written()[0].exit is None


def test_a_bare_system_exit_does_not_claim_a_code(script):
    script.run(BEGIN + "raise SystemExit(3)", code=3)
    (writer,) = script.written()
    assert writer.exit.exit_code is None
    assert "SystemExit" in writer.exit.reason


def test_modules_run_by_dash_m_and_code_run_by_dash_c(script, tmp_path):
    (tmp_path / "job.py").write_text("import sys, stepward\nstepward.init()\nsys.exit(3)\n")
    process = script.start("", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import job")
    process.communicate(timeout=120)
    assert process.returncode == 3
    assert script.written()[0].exit.exit_code == 3


def test_a_thread_that_fails_is_noted_and_the_run_goes_on(script):
    source = """
    import threading
    def work(): raise OSError('gone')
    run = sw.init()
    thread = threading.Thread(target=work); thread.start(); thread.join()
    """
    script.run(source, code=0)
    (writer,) = script.written()
    (event,) = writer.events("thread_exception")
    assert event.title == "OSError: gone"
    assert writer.exit.exit_code == 0


def test_excepthooks_and_handlers_of_others_are_called(script):
    source = """
    sys.excepthook = lambda *a: print('theirs', a[0].__name__)
    run = sw.init()
    raise ValueError('x')
    """
    _, out, _ = script.run(source, code=1)
    assert "theirs ValueError" in out
    assert script.written()[0].exit.exception == "ValueError: x"
