import subprocess
import sys

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from stepward import errors
from stepward.cli import app
from stepward.errors import OUTCOMES, MissingExtra, NotFound, StepwardError


def raising(error):
    def run(*_args, **_settings):
        raise error

    return run


def made(kind):
    if kind is MissingExtra:
        return MissingExtra("litestar", "server")
    return kind("what happened", code="some_code", hint="do this")


@pytest.mark.parametrize("kind", OUTCOMES)
def test_every_error_is_one_line_a_hint_and_its_exit_code(kind, monkeypatch, capsys):
    error = made(kind)
    monkeypatch.setattr(app, "app", raising(error))
    assert app.outcome(["ls"]) == OUTCOMES[kind][1]
    assert capsys.readouterr() == ("", f"error: {error.message} [{error.code}]\nhint: {error.hint}\n")


def test_the_pip_line_of_a_missing_extra_is_exact(capsys):
    assert app.report(MissingExtra("litestar", "server")) == 2
    assert "hint: pip install 'stepward[server]'\n" in capsys.readouterr().err


def test_what_a_server_says_cannot_steer_the_terminal(capsys):
    app.report(NotFound("\x1b[2J\nrm -rf", code="x\x9b", hint="\u202e"))
    assert capsys.readouterr().err == "error: \\x1b[2J\\nrm -rf [x\\x9b]\nhint: \\u202e\n"


@given(st.text(), st.text(), st.none() | st.text())
def test_a_report_is_two_lines_at_most(message, code, hint):
    import contextlib
    import io

    with contextlib.redirect_stderr(io.StringIO()) as err:
        app.report(errors.Conflict(message, code=code, hint=hint))
    assert err.getvalue().count("\n") <= 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), 130),
        (typer.Abort(), 130),
        (ZeroDivisionError("division"), 1),
        (PermissionError(13, "Permission denied", "/x"), 1),
    ],
)
def test_other_ends(error, status, monkeypatch, capsys):
    monkeypatch.setattr(app, "app", raising(error))
    assert app.outcome([]) == status
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert bool(err) is not isinstance(error, (KeyboardInterrupt, typer.Abort))


def test_a_fault_of_ours_can_be_traced(monkeypatch):
    monkeypatch.setenv("STEPWARD_TRACEBACK", "1")
    monkeypatch.setattr(app, "app", raising(StepwardError("x", code="y")))
    with pytest.raises(StepwardError):
        app.outcome([])


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["lss"], "Did you mean 'ls'"),
        (["ls", "--limit", "0"], "[usage]"),
        (["ls", "--format", "xml"], "[usage]"),
        (["show"], "RUN"),
        (["token", "nope"], "[usage]"),
    ],
)
def test_wrong_usage_exits_2_with_nothing_on_stdout(argv, says, capsys):
    assert app.outcome(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.startswith("error: ") and "hint: stepward" in err


def test_no_command_shows_the_help(capsys):
    assert app.outcome([]) == 2
    out, err = capsys.readouterr()
    assert "Usage: stepward" in out and err == ""


def test_help_knows_every_command(capsys):
    assert app.outcome(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f" {name} " in out for name in app.COMMANDS)


def test_a_command_loads_itself_alone():
    code = """
import sys
from stepward.cli.app import outcome
outcome(["version"])
others = {name for name in sys.modules if name.startswith("stepward.cli.")} - {"stepward.cli.app", "stepward.cli.text",
                                                                               "stepward.cli.version"}
heavy = {"litestar", "duckdb", "numpy", "sqlalchemy", "rich.console"} & sys.modules.keys()
sys.exit(f"{others} {heavy}" if others or heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("argv", [["up"], ["restore", "x", "--data", "y"]])
def test_a_server_that_is_not_installed_names_the_pip_line(argv):
    code = f"import sys; sys.modules['sqlalchemy'] = None; from stepward.cli.app import main; main({argv})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    says = "error: sqlalchemy is not installed [missing_extra]\nhint: pip install 'stepward[server]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)
