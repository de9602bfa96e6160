"""Slurm's states in ours: the one place of the table in ARCHITECTURE.md (States of an attempt).

Words: ``JOB STATE CODES`` of Slurm's ``squeue`` manual, 22.05 to 25.05; newer releases add to them, so that a word that
is not known is an error with a name, never a guess.
"""

import re

from stepward.errors import ParseError
from stepward.model.states import State

_STATES = {
    "PENDING": State.QUEUED,
    "REQUEUE_HOLD": State.QUEUED,
    "SPECIAL_EXIT": State.QUEUED,
    "RESV_DEL_HOLD": State.QUEUED,
    "REQUEUE_FED": State.QUEUED,
    "CONFIGURING": State.STARTING,
    "POWER_UP_NODE": State.STARTING,
    "RUNNING": State.RUNNING,
    "COMPLETING": State.RUNNING,
    "SIGNALING": State.RUNNING,
    "STAGE_OUT": State.RUNNING,
    "RESIZING": State.RUNNING,
    "UPDATE_DB": State.RUNNING,
    "EXPEDITING": State.QUEUED,
    "SUSPENDED": State.RUNNING,
    "STOPPED": State.RUNNING,
    "COMPLETED": State.FINISHED,
    "FAILED": State.FAILED,
    "LAUNCH_FAILED": State.FAILED,
    "RECONFIG_FAIL": State.FAILED,
    "TIMEOUT": State.TIMEOUT,
    "DEADLINE": State.TIMEOUT,
    "NODE_FAIL": State.LOST,
    "BOOT_FAIL": State.LOST,
    "PREEMPTED": State.PREEMPTED,
    "OUT_OF_MEMORY": State.OOM,
    "CANCELLED": State.CANCELLED,
    "REVOKED": State.CANCELLED,
    "REQUEUED": State.CANCELLED,
}
SUSPENDED = frozenset({"SUSPENDED", "STOPPED"})
"""States in which the processes stand still: no hang is looked for."""
_WORD = re.compile(r"[A-Z_]+")
_NODE_FLAGS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""Marks behind a node's state in ``sinfo`` and ``scontrol`` (``NODE STATE CODES`` of Slurm's ``sinfo`` manual)."""
_NODE_WORDS = {"MAINT": "MAINTENANCE", "REBOOT": "REBOOT_ISSUED", "RES": "RESERVED"}


def slurm_word(text: str) -> str:
    """The state alone: ``CANCELLED`` of ``CANCELLED by 0``, ``OUT_OF_MEMORY`` of a column that cut it."""
    word = (_WORD.match(text.strip().upper()) or [""])[0]
    return "OUT_OF_MEMORY" if word.startswith("OUT_OF_ME") else word


def job_state(word: str, *, requeued_by_slurm: bool = False) -> State:
    """Our state for Slurm's.

    Args:
        requeued_by_slurm: whoever asks knows that Slurm, or our own policy, ended the attempt to start it again; a
            ``REQUEUED`` of anybody else is as good as cancelled.

    Raises:
        ParseError: ``slurm_malformed``.
    """
    state = _STATES.get(word)
    if state is None:
        raise ParseError(f"{word!r} is no state of a Slurm job that is known", code="slurm_malformed", sample=word)
    if word == "REQUEUED" and requeued_by_slurm:
        return State.PREEMPTED
    return state


def node_state(text: str) -> tuple[str, frozenset[str]]:
    """Base state and flags of a node's ``State``: ``IDLE*+DRAIN`` is IDLE with NOT_RESPONDING and DRAIN."""
    base, *words = text.upper().split("+")
    flags = {_NODE_FLAGS[mark] for mark in text if mark in _NODE_FLAGS}
    marks = "".join(_NODE_FLAGS)
    flags |= {_NODE_WORDS.get(word.strip(marks), word.strip(marks)) for word in words}
    return base.strip(marks), frozenset(flags - {""})
