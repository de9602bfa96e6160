"""Who has got a signal already."""

import signal

import pytest

from stepward.launch.signals import Received, already_delivered

STEP = {"SLURM_JOB_ID": "42", "SLURM_STEP_ID": "0"}
TERM = signal.SIGTERM


@pytest.mark.parametrize(
    ("received", "sender", "environ", "expected"),
    [
        (Received(TERM, 77), "slurmstepd", STEP, True),
        (Received(TERM, 77), "bash", STEP, False),
        (Received(TERM, 0, 0), "", STEP, True),
        (Received(signal.SIGINT, 0, 0x80), "", STEP, False),
        (Received(TERM, 77), "slurmstepd", {"SLURM_JOB_ID": "42"}, False),
        (Received(TERM, 77), "slurmstepd", {"SLURM_STEP_ID": "4294967291"}, False),
        (Received(TERM, 77), "slurmstepd", {}, False),
        (Received(TERM, 0, 0), "", {}, False),
    ],
    ids=["step", "person", "hidden-in-step", "terminal", "batch", "batch-step", "no-slurm", "hidden"],
)
def test_signals_of_a_job_step_are_not_sent_twice(received, sender, environ, expected):
    assert already_delivered(received, sender, environ) is expected
