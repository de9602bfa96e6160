"""``run.resume``: go on from the newest checkpoint that is whole, the same one on all ranks."""

import time
from typing import NamedTuple

import msgspec

from stepward.sdk.checkpoint_folder import CheckpointFolder, Damage

WORD_S = 600.0
"""How long the other ranks wait for rank 0 to have read a checkpoint; then they read for themselves."""
_NOTE = "resume"


class Resumed(NamedTuple):
    """Where to go on: ``step`` is in the checkpoint at ``path``; the one after it is the first to compute."""

    step: int
    path: str


class Choice(msgspec.Struct):
    """Rank 0's word; None where there is nothing to go on from."""

    resumed: Resumed | None


def newest_whole(folder: CheckpointFolder, rank: int, world: int) -> tuple[Resumed | None, list[Damage]]:
    """The newest checkpoint that is whole, and the newer ones that are not.

    Rank 0 reads them, whole, and puts damaged ones aside; the other ranks take its word.
    """
    if rank != 0:
        choice = _word_of_rank_0(folder)
        if choice is not None:
            return choice.resumed, []
    if rank == 0:
        folder.take_back(_NOTE)
    found, damaged = _read(folder)
    if rank == 0:
        damaged = [damage._replace(path=folder.put_aside(damage.step)) for damage in damaged]
    if rank == 0 and world > 1:
        folder.leave_note(_NOTE, msgspec.json.encode(Choice(found)))
    return found, damaged


def _word_of_rank_0(folder: CheckpointFolder) -> Choice | None:
    until = time.monotonic() + WORD_S
    while time.monotonic() < until:
        note = folder.read_note(_NOTE)
        if note is not None:
            return msgspec.json.decode(note, type=Choice)
        time.sleep(0.05)
    return None


def _read(folder: CheckpointFolder) -> tuple[Resumed | None, list[Damage]]:
    damaged: list[Damage] = []
    for step in folder.steps():
        damage = folder.verify(step)
        if damage is None:
            return Resumed(step, folder.path(step)), damaged
        damaged.append(damage)
    return None, damaged
