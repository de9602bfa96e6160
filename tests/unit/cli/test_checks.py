import os

import msgspec
import pytest

from stepward import __version__
from stepward.cli import checks
from stepward.cli.checks import Visit
from stepward.errors import Unauthenticated, Unavailable
from stepward.model.resources import Health, Session, instant
from stepward.model.words import TokenKind
from stepward.settings import ServerFile, Settings, server_files

NOW = 1_800_000_000.0


def seen(*, off=0.0, trip=0.01, **other):
    """A visit to a server whose clock is ``off`` seconds behind ours."""
    health = Health("ok", __version__, now=instant(int((NOW - off) * 1e6)))
    session = Session(kind=TokenKind.VIEWER, name="me", projects=["llm"], version=__version__, started_at=instant(0))
    found = Visit(Settings(server="http://h"), health, session, before=NOW - trip / 2, after=NOW + trip / 2)
    return found._replace(**other)


AWAY = Visit(Settings(server="http://h"), error=Unavailable("http://h is out of reach", code="x", hint="start it"))


@pytest.mark.parametrize(
    ("off", "trip", "status"),
    [
        (0.0, 0.01, "ok"),
        (0.9, 0.01, "ok"),
        (-0.9, 0.01, "ok"),
        (1.1, 0.01, "bad"),
        (-3600, 0.01, "bad"),
        (1.1, 4.0, "ok"),
    ],
)
def test_a_clock_is_off_only_where_the_round_trip_cannot_be_the_reason(off, trip, status):
    found = checks.clock(seen(off=off, trip=trip))
    assert found.status == status
    assert (f"{abs(off):.3f} s {'ahead of' if off > 0 else 'behind'}" in found.found) or off == 0


def test_a_server_without_a_clock_is_not_compared():
    assert checks.clock(seen(health=Health("ok", __version__))).status == "warn"


def test_a_server_that_is_away_is_bad_once_and_the_rest_unknown():
    assert checks.server(AWAY).status == "bad" and checks.server(AWAY).advice == "start it"
    assert [check(AWAY).status for check in (checks.token, checks.versions, checks.clock)] == ["warn"] * 3


def test_a_slow_or_troubled_server_is_worth_a_word():
    assert checks.server(seen()).status == "ok"
    assert checks.server(seen(trip=2.0)).status == "warn"
    troubled = checks.server(seen(health=Health("degraded", __version__, ["disk full"])))
    assert troubled.status == "warn" and "disk full" in troubled.found


def test_a_token_that_is_refused_is_bad():
    refused = seen(session=None, refused=Unauthenticated("no such token", code="bad_token"))
    assert checks.token(refused).status == "bad" and checks.token(refused).advice == "stepward login"
    assert checks.token(seen()).found == "me (viewer), llm"


def test_minor_versions_must_agree():
    assert checks.versions(seen()).status == "ok"
    assert checks.versions(seen(health=Health("ok", "99.1.0"))).status == "warn"


def test_a_spool_is_found_and_what_waits_in_it(tmp_path):
    found = checks.spool(seen(settings=Settings(spool=str(tmp_path / "spool"))))
    assert found.status in ("ok", "bad") and "all is shipped" in found.found and str(tmp_path) in found.found


def test_the_data_folder_of_a_local_server(tmp_path):
    assert "no server of yours" in checks.data(seen()).found
    os.makedirs(server_files())
    with open(f"{server_files()}/1.json", "wb") as file:
        file.write(msgspec.json.encode(ServerFile(url="http://h/", data=str(tmp_path), pid=os.getpid())))
    assert str(tmp_path) in checks.data(seen()).found


def test_a_check_that_fails_itself_ends_no_other(monkeypatch):
    def broken(_seen):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(checks, "CHECKS", (broken, checks.extras))
    found = list(checks.examine(Settings()))
    assert found[0].status == "bad" and len(found) == 2
    assert "Input/output error" in found[0].found


def test_what_is_not_well_says_what_to_do(monkeypatch):
    monkeypatch.setattr(checks, "visit", lambda _settings: AWAY)
    assert all(check.advice for check in checks.examine(Settings(spool="/proc/none")) if check.status == "bad")
