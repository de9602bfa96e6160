"""Where a process of stepward finds its server, its token, its project and its spool: one typed ``Settings`` a process.

Order, first wins: arguments, ``STEPWARD_*`` environment, ``~/.config/stepward/config.toml`` (0600), a local server of the
same user (``~/.local/state/stepward/servers/<port>.json``, written by ``stepward up``). The token of a loopback server is
found through its state file, after checking that its process is the same user's.
"""

import json
import os
import re
import stat
import sys

import msgspec

from stepward.errors import UsageError
from stepward.model.identity import MAX_PROJECT_BYTES, is_project_name
from stepward.model.words import DEFAULT_PROJECT

_LOOPBACK = re.compile(r"http://(?:localhost|127\.0\.0\.1|\[::1\])(?=[:/]|$)", re.IGNORECASE)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of this process.

    Attributes:
        server: base URL without a trailing slash; None when no server is known (frames wait in the spool).
        token: bearer token for ``server``.
        project: project of new runs.
        run: run id or key that the environment names.
        spool: root folder of the spool.
    """

    server: str | None = None
    token: str | None = None
    project: str = DEFAULT_PROJECT
    run: str | None = None
    spool: str = ""


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of ``config.toml`` that are read; others are let be."""

    server: str | None = None
    token: str | None = None
    project: str | None = None


class ServerFile(msgspec.Struct, kw_only=True):
    """What a running local server writes about itself."""

    url: str
    data: str
    pid: int


def load(*, server: str | None = None, token: str | None = None, project: str | None = None) -> Settings:
    """The settings of this process; arguments outrank everything.

    Raises:
        UsageError: ``bad_config_file`` (not understood, or readable by others), ``bad_server_url``, ``bad_project_name``.
    """
    env, file = os.environ, _config_file()
    url = server or env.get("STEPWARD_SERVER") or file.server
    kept = file.token if url and file.server and _place(url) == _place(file.server) else None
    secret = token or env.get("STEPWARD_TOKEN") or kept
    local = local_server(url)
    if local is not None:
        url = url or local.url
        secret = secret or _read_token(local)
    return Settings(
        server=_checked_url(url) if url else None,
        token=secret,
        project=_checked_project(project or env.get("STEPWARD_PROJECT") or file.project or DEFAULT_PROJECT),
        run=env.get("STEPWARD_RUN") or None,
        spool=env.get("STEPWARD_DIR") or f"/var/tmp/stepward-{os.getuid()}",
    )


def config_path() -> str:
    """Path of the user's configuration file."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return f"{home}/stepward/config.toml"


def server_files() -> str:
    """Folder in which local servers of this user announce themselves."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return f"{home}/stepward/servers"


def _config_file() -> ConfigFile:
    path = config_path()
    try:
        with open(path, "rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise UsageError(
                    f"{path} holds a token and others may read it", code="bad_config_file", hint=f"chmod 600 {path}"
                )
            data = file.read()
    except OSError:
        return ConfigFile()
    # Imported on use: most training processes have no file (rule 4 of ARCHITECTURE.md).
    import tomllib

    try:
        return msgspec.convert(tomllib.loads(data.decode()), ConfigFile)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UsageError(
            f"{path} is not understood: {error}", code="bad_config_file", hint="mend or remove it"
        ) from None


def local_server(url: str | None) -> ServerFile | None:
    """The running local server of this user at ``url``; where no URL is given, the newest of all."""
    folder = server_files()
    try:
        paths = [entry.path for entry in sorted(os.scandir(folder), key=lambda entry: -entry.stat().st_mtime)]
    except OSError:
        return None
    wanted = None if url is None else _place(url)
    for path in paths:
        found = _read_server_file(path)
        if found is not None and wanted in (None, _place(found.url)):
            return found
    return None


def _place(url: str) -> str:
    """A URL without what does not matter: a slash at its end, and which of its names the loopback interface goes by."""
    return _LOOPBACK.sub("http://127.0.0.1", url.rstrip("/"), count=1)


def _read_server_file(path: str) -> ServerFile | None:
    try:
        with open(path, "rb") as file:
            found = msgspec.json.decode(file.read(), type=ServerFile)
        same_user = sys.platform != "linux" or os.stat(f"/proc/{found.pid}").st_uid == os.getuid()
    except (OSError, msgspec.MsgspecError):
        return None
    return found if same_user else None


def _read_token(local: ServerFile) -> str | None:
    try:
        with open(f"{local.data}/token") as file:
            return file.read().strip() or None
    except OSError:
        return None


def _checked_project(name: str) -> str:
    if not is_project_name(name):
        raise UsageError(
            f"{name[:80]!r} can't name a project",
            code="bad_project_name",
            hint=f"1 to {MAX_PROJECT_BYTES} letters, digits, _ and -; others count three a byte",
        )
    return name


def is_http_url(url: str) -> bool:
    """Whether a text is a URL of HTTP with a host."""
    # Imported on use: a process that knows no server needs none of it (rule 4 of ARCHITECTURE.md).
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _checked_url(url: str) -> str:
    if not is_http_url(url):
        raise UsageError(
            f"the server is {json.dumps(url)}, which is no URL", code="bad_server_url", hint="http://host:7070"
        )
    return url.rstrip("/")
