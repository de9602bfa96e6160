"""Whose project a run is in: under a wrapper the wrapper's, since its frames are there already."""

import pytest

from stepward.sdk import session


@pytest.mark.parametrize(
    ("wrapper", "exported", "asked", "taken"),
    [
        (None, None, "mine", "mine"),
        (None, "theirs", "mine", "mine"),
        ("7", "theirs", None, "theirs"),
        ("7", "theirs", "theirs", "theirs"),
        ("7", "theirs", "mine", "theirs"),
    ],
)
def test_the_wrapper_decides(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wrapper: str | None,
    exported: str | None,
    asked: str | None,
    taken: str,
) -> None:
    for name, value in (("STEPWARD_WRAPPER", wrapper), ("STEPWARD_PROJECT", exported)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert session._wrapped_project(asked) == taken
    overruled = asked is not None and asked != taken
    assert ("stepward run --project mine" in capsys.readouterr().err) is overruled
