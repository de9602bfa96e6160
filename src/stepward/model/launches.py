"""Attempt keys that lie inside each other: what a scheduler launches, and what is launched inside of it.

An attempt key is the launchers' restarts joined by ``/``. A watcher knows the outermost part alone (``slurm.0``); what
runs inside says the whole (``slurm.0/step.0/run.0``). For people both are one attempt: the outer key *covers* the inner
ones, and whatever is said of it is said of them. Pure.
"""

from collections.abc import Iterable, Iterator


def covers(outer: str, key: str) -> bool:
    """Whether what ``outer`` launched is, or contains, the attempt ``key``."""
    return key == outer or key.startswith(f"{outer}/")


def outer_keys(key: str) -> Iterator[str]:
    """The keys that cover ``key`` and are not it, the innermost first."""
    while "/" in key:
        key = key.rpartition("/")[0]
        yield key


def attempt_numbers(attempts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Attempt key -> number; a key that is no attempt but covers some has the number of the newest of them."""
    numbers: dict[str, int] = {}
    known = sorted(attempts, key=lambda attempt: -attempt[1])
    numbers.update(known)
    for key, number in known:
        for outer in outer_keys(key):
            numbers.setdefault(outer, number)
    return numbers
