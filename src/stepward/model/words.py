"""The words of the product, each with one meaning in code, database, API and UI (ARCHITECTURE.md, section Words)."""

from enum import StrEnum
from typing import Annotated

import msgspec

Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""MessagePack has integers up to 2^64 - 1; stores have not, so that such a number is refused at the door."""


class RunKind(StrEnum):
    """What a run does."""

    TRAINING = "training"
    RL = "rl"
    INFERENCE = "inference"
    EVALUATION = "evaluation"


class SourceKind(StrEnum):
    """What writes frames. Only a rank is a rank."""

    RANK = "rank"
    WRAPPER = "wrapper"
    AGENT = "agent"
    WATCHER = "watcher"


class Phase(StrEnum):
    """Named stretches of time that the ledger and the detectors know. Any other name only annotates."""

    PROVISION = "provision"
    INIT = "init"
    RESTORE = "restore"
    COMPILE = "compile"
    DATA_WAIT = "data_wait"
    FORWARD = "forward"
    BACKWARD = "backward"
    COLLECTIVE = "collective"
    OPTIMIZER = "optimizer"
    CHECKPOINT_SAVE = "checkpoint_save"
    EVALUATION = "evaluation"
    ROLLOUT = "rollout"
    REWARD = "reward"
    WEIGHT_SYNC = "weight_sync"
    PREFILL = "prefill"
    DECODE = "decode"
    IDLE = "idle"


class Clock(StrEnum):
    """Which clock measured a phase. A host clock is never sold as device time."""

    HOST = "host"
    DEVICE = "device"


class TokenKind(StrEnum):
    """What the bearer of a token may do, from most to least; ``ingest`` may only write frames."""

    ADMIN = "admin"
    EDITOR = "editor"
    VIEWER = "viewer"
    INGEST = "ingest"


DEFAULT_PROJECT = "default"
NODES_PROJECT = "_nodes"
"""The system project that owns the series of nodes; a run reads them by its allocation interval."""

HEARTBEAT_S = 4.0
MISSED_HEARTBEATS = 3
"""A source is lost after this many heartbeats did not come (ARCHITECTURE.md, states)."""

REQUEUE_EXIT = 75
"""Exit code of a program that saved before its end and asks to be started again: ``EX_TEMPFAIL`` of sysexits. Slurm's
``RequeueExit`` knows it on clusters made by stepward; elsewhere a line in the batch script does (docs/resume.md)."""
