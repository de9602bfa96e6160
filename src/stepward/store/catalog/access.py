"""Who may do what: tokens, browser sessions, one-time login links. Only hashes of secrets are kept.

A secret has 256 random bits, so one round of SHA-256 is enough at rest, and looking its hash up tells nothing through
time. All live credentials are also held in memory: this process is the only one that changes them.
"""

import hashlib
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from stepward.errors import NotFound, PermissionDenied, Unauthenticated, UsageError
from stepward.model.identity import ulid
from stepward.model.resources import NewToken, Token, instant
from stepward.model.words import TokenKind
from stepward.store.catalog.bounds import text
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.reading import maybe_instant
from stepward.store.catalog.schema import login_links, sessions, tokens

LOCAL = "local"
"""Id of the token in ``<data>/token``."""
SESSION_S = 30 * 86_400
LINK_S = 3600
_POWER = {TokenKind.VIEWER: 1, TokenKind.EDITOR: 2, TokenKind.ADMIN: 3}


class Principal(msgspec.Struct, frozen=True):
    """Who asks: a token, or a session that stands for one.

    Attributes:
        token: id of the token.
        projects: None means all.
    """

    token: str
    name: str
    kind: TokenKind
    projects: tuple[str, ...] | None

    def at_least(self, kind: TokenKind) -> bool:
        """Whether this may do what ``kind`` may. Ingest stands beside the others: only admin and editor include it."""
        if kind is TokenKind.INGEST:
            return self.kind is not TokenKind.VIEWER
        return _POWER.get(self.kind, 0) >= _POWER[kind]

    def sees(self, project: str) -> bool:
        """Whether the project is one of this principal's."""
        return self.projects is None or project in self.projects


class _Known(msgspec.Struct):
    principal: Principal
    expires_at: int | None


class Access:
    """The credentials of a server.

    Args:
        clock: µs since the epoch.
    """

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, _Known] = {}
        self._sessions: dict[str, tuple[str, int]] = {}
        self._used: dict[str, int] = {}
        self._load()

    def _load(self) -> None:
        now = self._clock()
        with self._database.write() as connection:
            for table in (sessions, login_links):
                connection.execute(sa.delete(table).where(table.c.expires_at < now))
            for row in connection.execute(sa.select(tokens)).mappings():
                self._tokens[row["sha256"]] = _known(dict(row))
            for session in connection.execute(sa.select(sessions)):
                self._sessions[session.sha256] = (session.token, session.expires_at)

    # ── who is it ──

    def by_token(self, secret: str) -> Principal | None:
        """The bearer of a token; None for one that is unknown, revoked or expired."""
        known = self._tokens.get(_hash(secret))
        if known is None or (known.expires_at is not None and known.expires_at <= self._clock()):
            return None
        self._used[known.principal.token] = self._clock()
        return known.principal

    def by_session(self, secret: str) -> Principal | None:
        """The browser of a session cookie; a session ends with its token."""
        token, expires_at = self._sessions.get(_hash(secret), ("", 0))
        return self._token(token) if expires_at > self._clock() else None

    def _token(self, id: str) -> Principal | None:
        now = self._clock()
        for known in list(self._tokens.values()):
            if known.principal.token == id and (known.expires_at is None or known.expires_at > now):
                return known.principal
        return None

    # ── sessions ──

    def login(self, secret: str) -> tuple[str, Principal]:
        """Begin a session with the secret of a one-time link, which is used up, or of a token.

        Raises:
            Unauthenticated: ``bad_login``.
        """
        principal = self._use_link(secret) or self.by_token(secret)
        if principal is None:
            raise Unauthenticated(
                "this link or token is not known, was used, or has expired",
                code="bad_login",
                hint="stepward login prints a new link",
            )
        session, expires_at = secrets.token_urlsafe(32), self._clock() + SESSION_S * 1_000_000
        digest = _hash(session)
        with self._database.write() as connection:
            upsert(connection, sessions, [{"sha256": digest, "token": principal.token, "expires_at": expires_at}])
        self._sessions[digest] = (principal.token, expires_at)
        return session, principal

    def _use_link(self, secret: str) -> Principal | None:
        used = sa.delete(login_links).where(login_links.c.sha256 == _hash(secret))
        with self._database.write() as connection:
            row = connection.execute(used.returning(login_links.c.token, login_links.c.expires_at)).first()
        return self._token(row.token) if row is not None and row.expires_at > self._clock() else None

    def logout(self, secret: str) -> None:
        """End a session."""
        with self._database.write() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.sha256 == _hash(secret)))
        self._sessions.pop(_hash(secret), None)

    def new_link(self, principal: Principal, valid_s: float = LINK_S) -> tuple[str, int]:
        """Secret and expiry (µs) of a one-time link that signs a browser in as ``principal``."""
        secret, expires_at = secrets.token_urlsafe(32), self._clock() + int(valid_s * 1e6)
        row = {"sha256": _hash(secret), "token": principal.token, "expires_at": expires_at}
        with self._database.write() as connection:
            upsert(connection, login_links, [row])
        return secret, expires_at

    # ── tokens ──

    def tokens(self) -> list[Token]:
        """All tokens, oldest first, without secrets."""
        self.remember_use()
        with self._database.read() as connection:
            rows = connection.execute(sa.select(tokens).order_by(tokens.c.created_at, tokens.c.id)).mappings()
            return [_resource(dict(row)) for row in rows]

    def create(self, new: NewToken) -> Token:
        """A new token with its secret, which is told this once.

        Raises:
            UsageError: ``bad_new_token``.
        """
        if not new.name.strip():
            raise UsageError("a token needs a name", code="bad_new_token")
        if new.expires_in_s is not None and not 0 < new.expires_in_s < 1e10:
            raise UsageError("expires_in_s is a number of seconds above 0", code="bad_new_token")
        secret, now = f"sw_{secrets.token_urlsafe(32)}", self._clock()
        row = {
            "id": f"tok_{ulid()}",
            "name": text(new.name.strip()),
            "kind": new.kind.value,
            "projects": None if new.projects is None else [text(name) for name in new.projects],
            "sha256": _hash(secret),
            "created_at": now,
            "last_used_at": None,
            "expires_at": None if new.expires_in_s is None else now + int(new.expires_in_s * 1e6),
        }
        self._keep(row)
        return msgspec.structs.replace(_resource(row), secret=secret)

    def set_local(self, secret: str, name: str) -> Principal:
        """Make the secret of ``<data>/token`` the admin token ``local``; an earlier one, and what it opened, ends."""
        if _hash(secret) not in self._tokens:
            self._forget(LOCAL)
        row = {
            "id": LOCAL,
            "name": name,
            "kind": TokenKind.ADMIN.value,
            "projects": None,
            "sha256": _hash(secret),
            "created_at": self._clock(),
            "last_used_at": None,
            "expires_at": None,
        }
        self._keep(row)
        return _known(row).principal

    def _keep(self, row: dict[str, Any]) -> None:
        with self._database.write() as connection:
            upsert(connection, tokens, [row], keep=("created_at", "last_used_at"))
        with self._lock:
            self._tokens[row["sha256"]] = _known(row)

    def delete(self, id: str) -> None:
        """Revoke a token; its sessions and links end with it.

        Raises:
            NotFound: ``no_such_token``.
            PermissionDenied: ``local_token``: the token file's own.
        """
        if id == LOCAL:
            raise PermissionDenied(
                "the local token is that of the data folder's token file",
                code="local_token",
                hint="remove <data>/token and restart the server to change it",
            )
        if not self._forget(id):
            raise NotFound(f"there is no token {id!r}", code="no_such_token")

    def _forget(self, id: str) -> bool:
        """End a token with its sessions and links; whether there was one."""
        with self._database.write() as connection:
            for table in (sessions, login_links):
                connection.execute(sa.delete(table).where(table.c.token == id))
            known = connection.execute(sa.delete(tokens).where(tokens.c.id == id)).rowcount > 0
        with self._lock:
            self._tokens = {key: known for key, known in self._tokens.items() if known.principal.token != id}
            self._sessions = {key: session for key, session in self._sessions.items() if session[0] != id}
        return known

    def remember_use(self) -> None:
        """Write down when tokens were last used; called now and then, never on a request's way."""
        used, self._used = self._used, {}
        if not used:
            return
        with self._database.write() as connection:
            for id, at in used.items():
                connection.execute(sa.update(tokens).where(tokens.c.id == id).values(last_used_at=at))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _known(row: Mapping[str, Any]) -> _Known:
    projects = None if row["projects"] is None else tuple(row["projects"])
    return _Known(Principal(row["id"], row["name"], TokenKind(row["kind"]), projects), row["expires_at"])


def _resource(row: Mapping[str, Any]) -> Token:
    return Token(
        id=row["id"],
        name=row["name"],
        kind=TokenKind(row["kind"]),
        projects=row["projects"],
        created_at=instant(row["created_at"]),
        last_used_at=maybe_instant(row["last_used_at"]),
        expires_at=maybe_instant(row["expires_at"]),
    )
