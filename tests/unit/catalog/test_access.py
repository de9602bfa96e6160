"""Credentials with a fake clock: what opens what, for how long, and what ends with what."""

import pytest

from stepward.errors import NotFound, PermissionDenied, Unauthenticated, UsageError
from stepward.model.resources import NewToken
from stepward.model.words import TokenKind
from stepward.store.catalog import Access, Principal

from .conftest import S

VIEWER = NewToken(name="v", kind=TokenKind.VIEWER)


@pytest.fixture
def access(bench):
    return bench.access


def test_a_token_opens_until_it_expires(bench, access):
    made = access.create(NewToken(name="v", kind=TokenKind.VIEWER, projects=["p"], expires_in_s=60))
    who = access.by_token(made.secret)
    assert (who.kind, who.projects, who.sees("p"), who.sees("q")) == (TokenKind.VIEWER, ("p",), True, False)
    assert access.by_token(made.secret + "x") is None and access.by_token("") is None
    bench.now += 60 * S
    assert access.by_token(made.secret) is None


def test_credentials_outlive_the_process(bench, access):
    made = access.create(VIEWER)
    session, _ = access.login(made.secret)
    again = Access(bench.database, bench.clock)
    assert again.by_token(made.secret) == access.by_token(made.secret)
    assert again.by_session(session).token == made.id


def test_a_link_works_once_and_not_for_ever(bench, access):
    who = access.by_token(access.create(VIEWER).secret)
    secret, _ = access.new_link(who, 60)
    assert access.login(secret)[1] == who
    with pytest.raises(Unauthenticated):
        access.login(secret)
    late, _ = access.new_link(who, 60)
    bench.now += 61 * S
    with pytest.raises(Unauthenticated):
        access.login(late)


def test_another_token_file_ends_all_that_the_last_one_opened(bench, access):
    first = access.set_local("first", "me")
    session, _ = access.login("first")
    link, _ = access.new_link(first)
    access.set_local("first", "me")
    assert access.by_session(session) is not None
    access.set_local("second", "me")
    assert access.by_token("first") is None and access.by_session(session) is None
    with pytest.raises(Unauthenticated):
        access.login(link)
    assert Access(bench.database, bench.clock).by_session(session) is None
    assert access.by_token("second").at_least(TokenKind.ADMIN)


def test_sessions_end(bench, access):
    made = access.create(VIEWER)
    session, _ = access.login(made.secret)
    other, _ = access.login(made.secret)
    access.logout(session)
    assert access.by_session(session) is None and access.by_session(other) is not None
    access.delete(made.id)
    assert access.by_session(other) is None
    fresh, _ = access.login(access.create(VIEWER).secret)
    bench.now += 31 * 86_400 * S
    assert access.by_session(fresh) is None


def test_the_local_token_follows_its_file(access):
    who = access.set_local("first secret", "me")
    assert (who.kind, who.projects) == (TokenKind.ADMIN, None)
    access.set_local("second secret", "me")
    assert access.by_token("first secret") is None and access.by_token("second secret") == who
    assert [token.id for token in access.tokens()] == ["local"]
    with pytest.raises(PermissionDenied):
        access.delete("local")


def test_use_is_remembered_now_and_then(bench, access):
    made = access.create(VIEWER)
    assert access.tokens()[0].last_used_at is None
    access.by_token(made.secret)
    assert access.tokens()[0].last_used_at is not None


def test_bad_tokens_are_not_made(access):
    for bad in (
        NewToken(name=" ", kind=TokenKind.VIEWER),
        NewToken(name="x", kind=TokenKind.VIEWER, expires_in_s=0),
        NewToken(name="x", kind=TokenKind.VIEWER, expires_in_s=float("nan")),
    ):
        with pytest.raises(UsageError):
            access.create(bad)
    with pytest.raises(NotFound):
        access.delete("tok_none")


def test_no_secret_is_at_rest(bench, access):
    made = access.create(VIEWER)
    session, _ = access.login(made.secret)
    link, _ = access.new_link(access.by_token(made.secret))
    bench.database.close()
    with open(bench.database.path, "rb") as file:
        content = file.read()
    assert all(secret.encode() not in content for secret in (made.secret, session, link))


@pytest.mark.parametrize(
    ("kind", "may"),
    [
        (TokenKind.ADMIN, {"admin", "editor", "viewer", "ingest"}),
        (TokenKind.EDITOR, {"editor", "viewer", "ingest"}),
        (TokenKind.VIEWER, {"viewer"}),
        (TokenKind.INGEST, {"ingest"}),
    ],
)
def test_kinds(kind, may):
    who = Principal("t", "n", kind, None)
    assert {other.value for other in TokenKind if who.at_least(other)} == may
