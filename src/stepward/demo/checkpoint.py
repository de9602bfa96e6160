"""Checkpoints of the demo's trainer: parameters, optimizer and step in one file, whole or not at all.

A file is written beside its name, synced and renamed; the newest file that reads back whole is resumed from.
"""

import contextlib
import os
import zipfile
from typing import NamedTuple

import numpy as np

from stepward.demo.models import Vector

KEEP = 2
_PREFIX, _SUFFIX, _PARTIAL = "step-", ".npz", ".tmp"


class State(NamedTuple):
    """Everything that training goes on from; ``step`` is the next step."""

    step: int
    parameters: Vector
    first_moment: Vector
    second_moment: Vector


def path_of(folder: str, step: int) -> str:
    """Where the checkpoint is that continues with ``step``."""
    return f"{folder}/{_PREFIX}{step:06d}{_SUFFIX}"


def save(folder: str, state: State) -> None:
    """Write a checkpoint and delete all but the newest ``KEEP``.

    Raises:
        OSError: no space or no right; the older checkpoints are untouched.
    """
    path = path_of(folder, state.step)
    with open(path + _PARTIAL, "wb") as file:
        np.savez(file, **state._asdict())
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + _PARTIAL, path)
    for name in _newest_first(folder)[KEEP:]:
        os.remove(f"{folder}/{name}")


def newest(folder: str) -> State | None:
    """The newest checkpoint that is whole, None where there is none; leftovers of broken writes are ignored."""
    for name in _newest_first(folder):
        try:
            with np.load(f"{folder}/{name}") as arrays:
                return State(int(arrays["step"]), *(arrays[field] for field in State._fields[1:]))
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
            continue
    return None


def sweep(folder: str) -> None:
    """Delete what broken writes left, so that its space is free again. For one rank alone, before training."""
    for name in os.listdir(folder):
        if name.endswith(_PARTIAL):
            with contextlib.suppress(OSError):
                os.remove(f"{folder}/{name}")


def _newest_first(folder: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.startswith(_PREFIX) and name.endswith(_SUFFIX))[::-1]
