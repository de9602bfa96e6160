"""The table of errors is total, and the client raises again what the server raised."""

import pytest

from stepward import errors
from stepward.errors import OUTCOMES, MissingExtra, StepwardError, exit_code, from_problem, http_status

CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, StepwardError)]


def make(kind: type[StepwardError]) -> StepwardError:
    return MissingExtra("jax", "demo") if kind is MissingExtra else kind("it broke", code="it_broke", hint="mend it")


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_has_a_status_and_an_exit_code(kind: type[StepwardError]) -> None:
    error = make(kind)
    assert 400 <= http_status(error) < 600 and exit_code(error) in (1, 2, 75)
    assert error.code and error.hint and error.hint in str(error)


def test_the_table_has_no_other_rows() -> None:
    assert set(OUTCOMES) == set(CLASSES)


def test_the_tree_at_the_head_of_the_module_is_complete() -> None:
    assert errors.__doc__ is not None
    assert [kind.__name__ for kind in CLASSES if kind.__name__ not in errors.__doc__] == []


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind is not MissingExtra])
def test_the_client_raises_the_same_class(kind: type[StepwardError]) -> None:
    error = make(kind)
    problem = {
        "status": http_status(error),
        "detail": error.message,
        "code": error.code,
        "hint": error.hint,
        "extra": 1,
    }
    again = from_problem(http_status(error), problem)
    assert type(again) is kind
    assert (again.message, again.code, again.hint, again.context) == (
        error.message,
        error.code,
        error.hint,
        {"extra": 1},
    )


@pytest.mark.parametrize("status", [400, 500, 501, 503])
@pytest.mark.parametrize("member", ["message", "self", "hint", "context", "retry_after_s", "module"])
def test_no_member_of_a_document_breaks_the_client(status: int, member: str) -> None:
    error = from_problem(status, {"code": "odd", member: {"of": 1}})
    assert error.code == "odd"
    assert isinstance(error.hint, str | None)
    assert isinstance(getattr(error, "retry_after_s", 1.0), float)


def test_a_status_of_a_newer_server_is_still_an_error_of_ours() -> None:
    assert from_problem(418, {}).code == "http_418"
