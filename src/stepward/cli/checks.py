"""The checks of ``stepward doctor``: each looks at one thing, says what it found, and what to do where it is not well.

A check is a function without side effects on runs or server that returns one ``Check``; ``CHECKS`` is the list of them.
What needs the server shares one ``Visit``, so that a server that is away is waited for once.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import msgspec

from stepward import __version__
from stepward.cli.extra import EXTRAS
from stepward.cli.figures import lasting, seconds_of, size
from stepward.client.api import Client
from stepward.errors import StepwardError
from stepward.model.resources import Health, Session
from stepward.settings import Settings, local_server

Status = Literal["ok", "warn", "bad"]

SLOW_ROUND_TRIP_S = 1.0
"""A heartbeat is due every 4 s; a round trip of a quarter of that is worth a word."""
CLOCK_OFF_S = 1.0
LITTLE_SPACE_BYTES = 1 << 30
COUNTED_BYTES = 256 << 20
"""A spool below this is read to count what waits; that takes a few seconds at most."""


class Check(msgspec.Struct):
    """One answer of the doctor; ``advice`` is there unless all is well."""

    name: str
    status: Status
    found: str
    advice: str | None = None


class Visit(NamedTuple):
    """One visit to the server: what it said, and when by our clock (s since the epoch, before and after)."""

    settings: Settings
    health: Health | None = None
    session: Session | None = None
    before: float = 0.0
    after: float = 0.0
    error: StepwardError | None = None
    refused: StepwardError | None = None


def visit(settings: Settings) -> Visit:
    """Ask the server how it is and who we are."""
    try:
        client = Client.of(settings)
        client.ready()
        # Asked twice: the first answer pays for the connection, the second one times the way.
        before = time.time()
        health = client.ready()
        found = Visit(settings, health, before=before, after=time.time())
    except StepwardError as error:
        return Visit(settings, error=error)
    try:
        return found._replace(session=client.session())
    except StepwardError as error:
        return found._replace(refused=error)


def examine(settings: Settings) -> Iterator[Check]:
    """All checks, in the order of the list; one that fails itself is ``bad``, never the end of the others."""
    seen = visit(settings)
    for check in CHECKS:
        try:
            yield check(seen)
        except (OSError, ValueError, StepwardError) as error:
            yield Check(check.__name__.strip("_"), "bad", f"could not be checked: {error}")


def server(seen: Visit) -> Check:
    """Whether the server answers, and how fast."""
    if seen.error is not None or seen.health is None:
        error = seen.error
        return Check("server", "bad", error.message if error else "no answer", error.hint if error else None)
    trip = seen.after - seen.before
    where = f"{seen.settings.server}, round trip {lasting(trip)}"
    if seen.health.status != "ok":
        return Check("server", "warn", f"{where}; {', '.join(seen.health.problems)}", "look at the server's machine")
    if trip > SLOW_ROUND_TRIP_S:
        return Check("server", "warn", where, "the way to the server is slow; runs are not held up, pages are")
    return Check("server", "ok", where)


def token(seen: Visit) -> Check:
    """Whether the server knows our token."""
    if seen.session is None:
        return Check(
            "token",
            "warn" if seen.error else "bad",
            seen.refused.message if seen.refused else "not checked: no server",
            "stepward login" if seen.refused else None,
        )
    scope = "all projects" if seen.session.projects is None else ", ".join(seen.session.projects)
    return Check("token", "ok", f"{seen.session.name} ({seen.session.kind.value}), {scope}")


def versions(seen: Visit) -> Check:
    """Whether client and server are of one minor version; the previous one is accepted on the wire."""
    if seen.health is None:
        return Check("versions", "warn", f"here {__version__}; the server's is not known")
    theirs = seen.health.version
    found = f"here {__version__}, server {theirs}"
    if theirs.split(".")[:2] == __version__.split(".")[:2]:
        return Check("versions", "ok", found)
    return Check("versions", "warn", found, f"pip install 'stepward=={theirs}' here, or upgrade the server")


def clock(seen: Visit) -> Check:
    """Whether our clock is within a second of the server's, give or take half of the round trip."""
    told = seen.health.now if seen.health else None
    if told is None:
        return Check("clock", "warn", "not compared: " + ("no server" if seen.error else "the server tells no time"))
    off = (seen.before + seen.after) / 2 - seconds_of(told)
    unsure = (seen.after - seen.before) / 2
    found = f"{abs(off):.3f} s {'ahead of' if off > 0 else 'behind'} the server's, give or take {unsure:.3f} s"
    if abs(off) - unsure > CLOCK_OFF_S:
        return Check(
            "clock", "bad", found, "set the clock (chrony or ntpd); the server corrects order, stored times stay"
        )
    return Check("clock", "ok", found)


def spool(seen: Visit) -> Check:
    """Whether the spool is a local folder that takes more, and what waits in it."""
    from stepward.spool import roots
    from stepward.spool.journal import CAP_BYTES, spool_bytes

    root = roots.resolve(seen.settings.spool)
    if root is None:
        return Check(
            "spool", "bad", f"{seen.settings.spool} can't be used", "set STEPWARD_DIR to a local folder of yours"
        )
    free, used, waiting = shutil.disk_usage(root).free, spool_bytes(root), unshipped(root)
    found = f"{root} ({roots.file_system(root) or 'local'}), {size(used)} of {size(CAP_BYTES)}, {size(free)} free"
    found += f"; {waiting or 'all is shipped'}"
    if root != os.path.realpath(seen.settings.spool) and root != seen.settings.spool:
        return Check("spool", "warn", found, f"{seen.settings.spool} will not do; set STEPWARD_DIR to a local folder")
    if used > CAP_BYTES * 0.9 or free < LITTLE_SPACE_BYTES:
        return Check("spool", "bad", found, "stepward sync, or free space: what does not fit is dropped")
    return Check("spool", "warn" if waiting else "ok", found, "stepward sync" if waiting else None)


def unshipped(root: str) -> str:
    """What the server has not acknowledged, in words; counted to the byte where that does not take long."""
    from stepward.spool import writers
    from stepward.spool.journal import spool_bytes
    from stepward.spool.rounds import Rounds

    exact = spool_bytes(root) <= COUNTED_BYTES
    waiting: dict[str, int] = {}
    for run in writers.folders(root):
        if exact:
            waiting[run] = Rounds(f"{root}/{run}", run).left()
        else:
            segments = [
                s for name in writers.folders(f"{root}/{run}") for s in writers.segments(f"{root}/{run}/{name}")
            ]
            waiting[run] = sum(segment.size for segment in segments)
    runs = sum(1 for left in waiting.values() if left)
    return f"{'' if exact else 'up to '}{size(sum(waiting.values()))} of {runs} runs not shipped" if runs else ""


def data(seen: Visit) -> Check:
    """Whether the data folder of this user's local server is writable and has space."""
    from stepward.spool import roots

    local = local_server(seen.settings.server) if seen.settings.server else None
    if local is None:
        return Check("data", "ok", "no server of yours runs on this machine")
    free = shutil.disk_usage(local.data).free
    found = f"{local.data} ({roots.file_system(local.data) or 'local'}), {size(free)} free"
    if not os.access(local.data, os.W_OK | os.X_OK):
        return Check("data", "bad", f"{found}, not writable", "give the folder to the user of the server")
    if free < LITTLE_SPACE_BYTES:
        return Check("data", "bad", found, "free space: a full disk stops the server from taking data")
    return Check("data", "ok", found)


def extras(seen: Visit) -> Check:
    """Which optional parts are installed."""
    from importlib.util import find_spec

    missing = [name for name, modules in EXTRAS.items() if any(find_spec(module) is None for module in modules)]
    found = ", ".join(f"{name} {'missing' if name in missing else 'installed'}" for name in EXTRAS)
    if missing:
        return Check("extras", "warn", found, f"where you need it: pip install 'stepward[{','.join(missing)}]'")
    return Check("extras", "ok", found)


def devices(seen: Visit) -> Check:
    """Which accelerators can be read."""
    from stepward.collect.devices import Devices, load_nvml

    described = Devices(load_nvml()).describe()
    if described:
        return Check("devices", "ok", ", ".join(f"{one['device']}: {one['name']}" for one in described))
    if os.path.exists("/dev/nvidiactl"):
        return Check("devices", "warn", "a driver is there, but nothing can be read", "pip install 'stepward[agent]'")
    return Check("devices", "ok", "none seen")


def cgroup(seen: Visit) -> Check:
    """Which cgroup version holds this process, and its memory limit."""
    from stepward.collect.cgroup import locate, memory_limit

    here = locate(os.getpid())
    if here is None:
        return Check("cgroup", "warn", "none found", "memory kills can only be told from the kernel log")
    limit = memory_limit(here)
    return Check(
        "cgroup", "ok", f"version {here.version}, memory " + (f"limited to {size(limit)}" if limit else "unlimited")
    )


CHECKS: tuple[Callable[[Visit], Check], ...] = (
    server,
    token,
    versions,
    clock,
    spool,
    data,
    extras,
    devices,
    cgroup,
)
