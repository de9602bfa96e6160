"""A run whose node was lost, as a server knows it: the scheduler's state, the failed node, the job's own output."""

import pytest

from stepward.diagnose.engine import diagnose
from stepward.diagnose.sources import Source
from stepward.diagnose.standing import said_by_scheduler
from stepward.model.states import State

TOLD = """step 70: loss 0.0186
srun: error: Node failure on n-1
slurmstepd-n-0: error: *** JOB 2 ON n-0 CANCELLED AT 2026-12-01T11:48:56 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
slurmstepd-n-0: error: *** STEP 2.0 ON n-0 CANCELLED AT 2026-12-01T11:48:56 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
srun: Job step aborted: Waiting up to 4 seconds for job step to finish.
"""
LINES = TOLD.splitlines(keepends=True)


@pytest.mark.parametrize("lines", [LINES, LINES[:1], LINES[2:4], []])
def test_the_node_that_failed_is_named_not_the_one_that_reports(tmp_path, lines):
    path = tmp_path / "job.log"
    path.write_text("".join(lines))
    lost = said_by_scheduler(State.LOST, "node failed: n-1", 1_800_000_000_000_000, ["n-1"])
    found = diagnose([Source(str(path), "job.log", alone=True)], scheduler=lost, places={0: "n-0", 1: "n-1"})
    assert [(one.label, one.suspects.nodes) for one in found.causes] == [("node_failure", ["n-1"])]


def test_two_of_three_nodes_that_failed_are_both_named():
    lost = said_by_scheduler(State.LOST, "node failed: n-1, n-2", None, ["n-1", "n-2"])
    found = diagnose([], scheduler=lost, places={0: "n-0", 1: "n-1", 2: "n-2"})
    assert [(one.label, one.suspects.nodes) for one in found.causes] == [("node_failure", ["n-1", "n-2"])]
