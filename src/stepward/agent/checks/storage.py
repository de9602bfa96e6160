"""File systems: room, inodes, read-only by an I/O error, network mounts that do not answer.

``statfs`` of a dead disk or server never returns, so a child asks (``stat -f``), with a deadline. A child that is stuck
in the kernel cannot be killed: it is left alone, and no other is sent after it.
"""

import contextlib
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from stepward.agent.checks.protocol import Answer, Check, Severity, bad, ok, unknown
from stepward.collect.readings import read_text
from stepward.spool.roots import is_network

LEAST_BYTES, LEAST_SHARE = 500 << 20, 0.05
"""Room below which a file system counts as full, and the share of it that takes the place of that on small ones (gpud)."""
LEAST_INODES = 0.01
ANSWER_S = 5.0
"""Longest time that a file system may take to tell its size (gpud's NFS check)."""
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs"})
_MANY = 64
"""Mounts that are looked at: a container host may have thousands of them."""


class Mount(NamedTuple):
    """A mount: where, which type, which device, and whether the mount and the file system below it may be written."""

    point: str
    kind: str
    device: str
    writable: bool
    writable_below: bool


class Room(NamedTuple):
    """What ``stat -f`` says of a file system: bytes and inodes."""

    size: int
    available: int
    inodes: int
    inodes_free: int


def mounts(mountinfo: str) -> list[Mount]:
    """The mounts of ``/proc/self/mountinfo``, each device once, those with odd names left out."""
    found: dict[str, Mount] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, behind = before.split(), after.split()
        if len(fields) < 6 or len(behind) < 3 or "\\012" in fields[4]:
            continue
        own, below = fields[5].split(","), behind[2].split(",")
        point = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        one = Mount(point, behind[0], fields[2], "rw" in own, "ro" not in below and "emergency_ro" not in below)
        known = found.get(one.device)
        # Of several mounts of a device (bind mounts), one that may be written stands for it, else the first.
        if known is None or (one.writable and not known.writable):
            found[one.device] = one
    return list(found.values())


class Probe:
    """Asks file systems for their room by a child process."""

    def __init__(self, command: Sequence[str] = ("stat", "-f", "-c", "%b %a %S %c %d %n", "--")) -> None:
        self._command = list(command)
        self._stuck: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}

    def ask(self, points: Sequence[str], deadline_s: float = ANSWER_S) -> dict[str, Room] | None:
        """The room of each that answered; None when the child did not come back in time, or still has not.

        Raises:
            OSError: the child could not be started.
        """
        key = tuple(points)
        stuck = self._stuck.get(key)
        if stuck is not None and stuck.poll() is None:
            return None
        child = subprocess.Popen(
            [*self._command, *points],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )
        try:
            text, _ = child.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                # A child that is merely slow dies at once, and has to be reaped.
                child.wait(0.1)
            if child.stdout is not None:
                child.stdout.close()
            self._stuck[key] = child
            return None
        self._stuck.pop(key, None)
        return dict(filter(None, map(_room, text.decode("utf-8", "surrogateescape").splitlines())))


def _room(line: str) -> tuple[str, Room] | None:
    fields = line.split(" ", 5)
    if len(fields) < 6 or not all(field.isdigit() for field in fields[:5]):
        return None
    blocks, available, size, inodes, free = map(int, fields[:5])
    return fields[5], Room(blocks * size, available * size, inodes, free)


class Storage:
    """The checks of file systems.

    Args:
        root: where ``proc`` is, another folder in tests.
    """

    def __init__(self, root: str = "/", probe: Probe | None = None) -> None:
        self._root, self._probe = root.rstrip("/"), probe or Probe()
        self._rooms: dict[str, Room] | None = None

    def checks(self) -> list[Check]:
        """Those that this host has something for."""
        found = [
            # Inodes follow room, which asks for both.
            Check(name="disk_space", severity=Severity.HIGH, look=self.space, period_s=60.0),
            Check(name="disk_inodes", severity=Severity.HIGH, look=self.inodes, period_s=60.0),
            Check(name="fs_readonly", severity=Severity.FATAL, look=self.readonly),
        ]
        if self._mounts(network=True):
            deadline = ANSWER_S * 2
            found.append(
                Check(name="mount_hang", severity=Severity.FATAL, look=self.hang, deadline_s=deadline, confirm=2)
            )
        return found

    def space(self, now: float) -> Answer:
        """Whether every local file system that may be written has room."""
        points = [mount.point for mount in self._mounts(network=False) if mount.writable and mount.writable_below]
        self._rooms = self._probe.ask(points) if points else {}
        if self._rooms is None:
            return unknown(f"no answer in {ANSWER_S:g} s from one of {', '.join(points)}")
        full = [
            f"{point}: {room.available >> 20} MiB left"
            for point, room in self._rooms.items()
            if room.size and room.available < min(LEAST_BYTES, LEAST_SHARE * room.size)
        ]
        least = min((room.available for room in self._rooms.values() if room.size), default=None)
        return bad("; ".join(full), least) if full else self._whole(points, least)

    def inodes(self, now: float) -> Answer:
        """Whether every one of them can take new files."""
        if self._rooms is None:
            return unknown("the room of the file systems is not known")
        shares = {point: room.inodes_free / room.inodes for point, room in self._rooms.items() if room.inodes}
        full = [f"{point}: {share:.2%} of the inodes left" for point, share in shares.items() if share < LEAST_INODES]
        least = min(shares.values(), default=None)
        return bad("; ".join(full), least) if full else self._whole(list(self._rooms), least)

    def readonly(self, now: float) -> Answer:
        """Whether the kernel has stopped writing to a file system that is mounted to be written."""
        turned = [one.point for one in self._mounts(network=False) if one.writable and not one.writable_below]
        return bad(f"read-only: {', '.join(turned)}", len(turned)) if turned else ok(value=0)

    def hang(self, now: float) -> Answer:
        """Whether every network mount answers."""
        points = [mount.point for mount in self._mounts(network=True)]
        silent = [point for point in points if self._probe.ask([point], ANSWER_S / max(1, len(points))) is None]
        return bad(f"no answer from {', '.join(silent)}", len(silent)) if silent else ok(value=0)

    def _whole(self, points: Sequence[str], value: float | None) -> Answer:
        rooms = self._rooms or {}
        silent = [point for point in points if point not in rooms]
        return unknown(f"{', '.join(silent)} could not be asked", value) if silent else ok(value=value)

    def _mounts(self, *, network: bool) -> list[Mount]:
        # Those of the host: in a unit of systemd ours may be read-only for us alone.
        text = read_text(f"{self._root}/proc/1/mountinfo") or read_text(f"{self._root}/proc/self/mountinfo") or ""
        wanted = is_network if network else _LOCAL.__contains__
        return [mount for mount in mounts(text) if wanted(mount.kind)][:_MANY]
