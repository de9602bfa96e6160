"""Serving: the socket, the state file that tells where, uvicorn around the application, and an end within 10 s."""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
import threading

import msgspec
import uvicorn

import stepward
from stepward.errors import UsageError
from stepward.server.app import Server, ServerSettings
from stepward.server.log import Log, log_to_stderr
from stepward.settings import ServerFile, server_files

GRACEFUL_S = 4
"""Seconds that open requests have at the end."""
END_S = 8.5
"""After so long a shutdown is over whatever still works: what was acknowledged is on disk, and the next start catches up."""
_log = logging.getLogger("stepward.server")


def serve(settings: ServerSettings) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        StepwardError: ``port_taken``, ``bad_host``, and what data folder and stores raise, before anything is announced.
    """
    # uvicorn ends gracefully and then raises the signal again: it must not end us before the state file is gone.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    log = log_to_stderr()
    with contextlib.ExitStack() as undo:
        listening = _listen(settings)
        undo.callback(listening.close)
        server = Server(msgspec.structs.replace(settings, port=listening.getsockname()[1]))
        undo.callback(server.close)
        asyncio.run(server.parts.ingestor.start())
        server.finish_deletions()
        undo.pop_all()
    state = _write_state(server)
    try:
        _announce(server)
        Uvicorn(server, state, log).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        with contextlib.suppress(OSError):
            os.unlink(state)


class Uvicorn(uvicorn.Server):
    """Ends the streams of live updates before it waits for open requests, which they would hold up."""

    def __init__(self, server: Server, state: str, log: Log) -> None:
        self._state, self._log = state, log
        super().__init__(
            uvicorn.Config(
                server.door(),
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_graceful_shutdown=GRACEFUL_S,
                timeout_keep_alive=30,
                ws="none",
            )
        )
        self._live = server.parts.live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the rest, and both in time."""
        limit = threading.Timer(END_S, self._end_now)
        limit.daemon = True
        limit.start()
        await self._live.stop()
        await super().shutdown(sockets)

    def _end_now(self) -> None:
        """End although something hangs: a Slurm that does not answer, a long replay."""
        _log.warning("the shutdown took longer than %s s and was cut short", END_S)
        with contextlib.suppress(OSError):
            os.unlink(self._state)
        self._log.close()
        os._exit(0)


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        listening.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise UsageError(
                f"port {settings.port} of {settings.host} is taken",
                code="port_taken",
                hint="another server may run there; name another port by --port",
            ) from error
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port}: {error}", code="bad_host", hint="--host, --port"
        ) from error
    listening.listen(512)
    return listening


def _write_state(server: Server) -> str:
    folder = server_files()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = f"{folder}/{server.settings.port}.json"
    content = msgspec.json.encode(ServerFile(url=server.url, data=server.folder.path, pid=os.getpid()))
    descriptor = os.open(f"{path}.partial", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(f"{path}.partial", path)
    return path


def _announce(server: Server) -> None:
    settings = server.settings
    print(f"stepward {stepward.__version__} serves {server.url} (data: {server.folder.path})")
    print(f"Sign in: {server.login_link()}", flush=True)
    if not settings.loopback and not settings.allowed_hosts:
        print(
            f"Warning: {settings.host} is reachable from other machines and traffic is not encrypted; "
            "put a proxy with TLS before it and name its host by --allowed-host.",
            file=sys.stderr,
            flush=True,
        )
