"""What a scheduler knows of a job, whichever scheduler it is: the common result of the Slurm and Kubernetes readers.

Not the orchestrators' own state model: those ask a living scheduler, this reads text that a person pasted.
"""

from typing import Literal

import msgspec

from stepward.diagnose.clues import Clue

End = Literal["completed", "failed", "taken", "running", "pending"]


class SchedulerVerdict(msgspec.Struct):
    """State of the job. ``taken``: ended by the scheduler; ``says_oom``: whether it knows of a memory kill; ``elapsed_s``: how
    long it was the scheduler's, where that is known."""

    end: End | None = None
    says_oom: bool = False
    knows_exits: bool = False
    elapsed_s: float = 0.0
    nodes: list[str] = []
    pod_nodes: dict[str, str] = {}
    clues: list[Clue] = []

    def settle(self, end: End) -> None:
        """Take an end, unless a weightier one is known."""
        order: list[End | None] = [None, "pending", "running", "completed", "failed", "taken"]
        if order.index(end) > order.index(self.end):
            self.end = end
