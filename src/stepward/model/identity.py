"""Identities: run ids that every rank derives alike, and ULID-like ids that sort by time.

An id is derived where a key names the run (launcher, scheduler, user), so that all ranks, the wrapper and the agent
agree without talking to each other or to a server. See ARCHITECTURE.md, Identity.
"""

import os
import re
import time

CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
MAX_ATTEMPT_KEY = 1024
MAX_PROJECT_BYTES = 200
"""File systems end at 255 bytes a name."""
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
LOCAL_CLUSTER = "local"
"""Cluster of a node that belongs to none."""
RUN_ID = re.compile(r"run_[0-9a-z]{26}")


def derived_run_id(project: str, key: str) -> str:
    """``run_`` + base32(sha256(project NUL key))[:26]: the same key in the same project is always the same run."""
    # Imported on use: hashlib pulls OpenSSL into the training process (rule 4 of ARCHITECTURE.md).
    import hashlib
    from base64 import b32encode

    digest = hashlib.sha256(f"{project}\0{key}".encode()).digest()
    return "run_" + b32encode(digest).decode("ascii").lower()[:26]


def run_id(project: str, named: str) -> str:
    """The run that a user names: a run id stands for itself, any other string is a key."""
    return named if RUN_ID.fullmatch(named) else derived_run_id(project, named)


def node_key(cluster: str, node: str) -> str:
    """Key of the run that a node's agent writes, in the system project of nodes."""
    return f"node:{cluster}:{node}"


def attempt_key(named: str) -> str:
    """An attempt's key as every store keeps it: one that is too long is cut, and told apart by its digest."""
    clean = named.replace("\0", "\ufffd")
    if len(clean) <= MAX_ATTEMPT_KEY:
        return clean
    import hashlib

    digest = hashlib.sha256(named.encode(errors="surrogatepass")).hexdigest()[:32]
    return f"{clean[: MAX_ATTEMPT_KEY - len(digest) - 1]}…{digest}"


def is_project_name(name: str) -> bool:
    """Whether a project may be called so: its folder is, and there a byte that is no letter, digit, _ or - counts three."""
    try:
        size = sum(1 if byte in _PLAIN else 3 for byte in name.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= MAX_PROJECT_BYTES


def ulid() -> str:
    """26 characters, lower-case Crockford base32: 48 bits of milliseconds, then 80 random bits; sorts by time."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    return "".join(CROCKFORD[value >> shift & 31] for shift in range(125, -5, -5))


def random_run_id() -> str:
    """A run id for a run that nothing names."""
    return "run_" + ulid()
