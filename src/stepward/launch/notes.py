"""What the wrapper itself says: one line each on stderr, each thing once, never an error of its own."""

import contextlib
import os
from collections.abc import Callable
from typing import TypeVar

_said: set[str] = set()
T = TypeVar("T")


def say(text: str) -> None:
    """Write a line to stderr, unless it was written before."""
    if text not in _said:
        _said.add(text)
        with contextlib.suppress(OSError):
            os.write(2, f"stepward: {text}\n".encode("utf-8", "replace"))


def guarded(what: str, act: Callable[[], T], otherwise: T) -> T:
    """What ``act`` returns; when it raises, ``otherwise``, and the failure is said."""
    try:
        return act()
    except Exception as error:
        say(f"{what} failed and is left out: {type(error).__name__}: {error}")
        return otherwise
