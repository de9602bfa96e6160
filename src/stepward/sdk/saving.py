"""What ``run.resume`` and ``run.autocheckpoint`` do: a run's own folder of checkpoints, and what its record hears of them."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stepward.errors import UsageError
from stepward.model.words import Phase
from stepward.sdk.autocheckpoint import AutoCheckpoint, Told
from stepward.sdk.checkpoint_folder import CheckpointFolder, check_root
from stepward.sdk.config import plain
from stepward.sdk.meeting import find_group
from stepward.sdk.resume import Resumed, newest_whole
from stepward.spool.roots import warn

if TYPE_CHECKING:
    from stepward.sdk.run import Run


def resume(run: "Run", folder: object) -> Resumed | None:
    """Find where to go on, and say what was passed over."""
    with run.phase(Phase.RESTORE.value):
        found, damaged = newest_whole(_folder(run, folder, keep=1), run.rank, world(run))
    for damage in damaged:
        warn(f"checkpoint of step {damage.step} is damaged and passed over: {damage.why}")
        run.event("checkpoint_damaged", f"step {damage.step}: {damage.why}", step=damage.step, path=damage.path)
    if found is not None:
        run.event("resumed", f"from step {found.step}", step=found.step, path=found.path)
    return found


def begin(
    run: "Run",
    save: Callable[[str], object],
    *,
    every: int | None,
    grace: float,
    folder: object,
    keep: int,
    signals: Sequence[str],
) -> AutoCheckpoint:
    """Arm the boundaries of a run.

    Raises:
        UsageError: ``bad_argument``.
        Unavailable: ``checkpoint_folder``.
    """
    if not callable(save) or keep < 1 or (every is not None and every < 1) or grace < 0:
        raise UsageError(
            "autocheckpoint() takes a callable, every >= 1, keep >= 1 and grace >= 0 seconds",
            code="bad_argument",
            hint="run.autocheckpoint(save, every=500, grace=30)",
        )
    place = _folder(run, folder, keep=keep)
    check_root(place.root)
    if run.rank == 0:
        place.take_back("stop")
        place.sweep()
    group_world = world(run)
    auto = AutoCheckpoint(
        save,
        place,
        rank=lambda: run.rank,
        world=lambda: group_world,
        every=every,
        grace=grace,
        told=Told(run.saved_part, run.checkpoint_durable, lambda type, title, data: run.event(type, title, **data)),
    )
    auto.catch(signals)
    if group_world > 1:
        auto.watch()
    return auto


def world(run: "Run") -> int:
    """Ranks of the run: those of the group that a framework has formed, else what the launcher says, else one."""
    group = find_group()
    return group.world if group is not None else run.announced_ranks or 1


def _folder(run: "Run", folder: object, *, keep: int) -> CheckpointFolder:
    root = os.path.abspath(str(plain(folder)) if folder is not None else f"checkpoints/{run.id}")
    return CheckpointFolder(root, run=run.id, attempt=run.attempt, keep=keep)
