"""A wrapper below another one of the same run: both are one launch, so the inner one joins the attempt of the outer.

Where the outer wrapper is an ancestor, it has the inner one's whole process tree, output and end already. One that
lives elsewhere (``srun`` inside of a batch script that was wrapped) has the attempt alone in common with us.
"""

from enum import Enum
from typing import NamedTuple

from stepward.orchestrators.protocol import Environ, ProcFacts
from stepward.spool.writers import started

VARIABLE = "STEPWARD_WRAPPER"


class Above(Enum):
    """Where the wrapper lives that started us."""

    NOWHERE = "nowhere"
    """There is none, it has gone, or it is of another run."""
    ELSEWHERE = "elsewhere"
    HERE = "here"
    """It is an ancestor of this process."""


class Wrapper(NamedTuple):
    """A wrapper, named for good: boot id of its host, pid, start time, and the run that it records."""

    boot: str
    pid: int
    start: int
    run: str

    def __str__(self) -> str:
        return f"{self.boot}:{self.pid}:{self.start}:{self.run}"


def above(environ: Environ, facts: ProcFacts, run: str) -> Above:
    """Where the wrapper of ``run`` lives that started this process."""
    outer = _parse(environ.get(VARIABLE, ""))
    if outer is None or outer.run != run:
        return Above.NOWHERE
    if outer.boot != facts.boot:
        return Above.ELSEWHERE
    if any((one.pid, one.start) == (outer.pid, outer.start) for one in facts.ancestors):
        return Above.HERE
    return Above.ELSEWHERE if outer.start and started(outer.pid) == outer.start else Above.NOWHERE


def _parse(text: str) -> Wrapper | None:
    boot, pid, start, run = [*text.split(":"), "", "", ""][:4]
    if not (pid.isdigit() and start.isdigit()):
        return None
    return Wrapper(boot, int(pid), int(start), run)
