"""The link from a job to its run, written into the job's AdminComment: once a job, a few a turn, and no harm where it fails."""

import re
import time
from collections.abc import Iterable, Iterator

from stepward.agent.watcher.known import Job
from stepward.errors import StepwardError
from stepward.launch.notes import say
from stepward.orchestrators.slurm.commands import Slurm

LINKS_A_TURN = 5
"""Each is a command of Slurm."""
REFUSALS = 3
_LINK = re.compile(r"\S+/runs/run_[0-9a-z]+")
"""A link of ours may be replaced; what an administrator has written stays."""
PAUSE_S = 600.0
"""After so many refusals in a row (no operator's rights, most likely) it is left for so long."""


class Linking:
    """Writes links."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._refused, self._again_at, self._said = 0, 0.0, False

    def turn(self, jobs: Iterable[Job], server: str) -> Iterator[Job]:
        """Link some jobs that live and are not linked; gives those whose ``link`` has changed."""
        left = LINKS_A_TURN
        for job in jobs:
            link = f"{server}/runs/{job.run}"
            if job.link == link or job.ended or not job.launches:
                continue
            if job.comment and not _LINK.fullmatch(job.comment):
                continue
            if left == 0 or time.monotonic() < self._again_at:
                return
            left -= 1
            job.link = link
            self._write(job.name, link)
            yield job

    def _write(self, name: str, link: str) -> None:
        try:
            self._slurm.set_admin_comment(name, link)
            self._refused = 0
        except StepwardError as error:
            self._refused += 1
            if self._refused >= REFUSALS:
                self._again_at = time.monotonic() + PAUSE_S
                if not self._said:
                    self._said = True
                    say(f"jobs get no link to their runs: {error.message}")
