"""A job that asks to be started again by its exit code, on a real Slurm."""

import pytest

from stepward.agent.watcher import observing
from stepward.model.words import REQUEUE_EXIT
from stepward.orchestrators.slurm.commands import Slurm

pytestmark = pytest.mark.integration


def test_exit_75_starts_the_job_again_under_its_id(slurm_cluster):
    script = f'[ "$SLURM_RESTART_COUNT" = 1 ] || exit {REQUEUE_EXIT}'
    job = slurm_cluster.submit(script, "-N1")
    slurm_cluster.wait(lambda: slurm_cluster.job_state(job) == "COMPLETED", 90)
    slurm = Slurm(slurm_cluster.conf)
    slurm_cluster.wait(lambda: [one.state.terminal for one in slurm.attempts(job)] == [True, True], 30)
    first, second = slurm.attempts(job)
    assert (first.slurm_state, first.exit_code) == ("REQUEUED", REQUEUE_EXIT)
    assert (second.slurm_state, second.exit_code) == ("COMPLETED", 0)
    assert [number for number, _ in observing.from_accounting(None, [first, second]).launches] == [0, 1]


def test_another_exit_code_does_not(slurm_cluster):
    job = slurm_cluster.submit("exit 74", "-N1")
    slurm_cluster.wait(lambda: slurm_cluster.job_state(job) == "FAILED", 60)
    assert Slurm(slurm_cluster.conf).job(job).restarts == 0
