"""What a cluster of the local provider does for the jobs on it, with the real daemons."""

import pytest

pytestmark = pytest.mark.integration


def test_a_job_runs_on_two_nodes_with_its_gpus(slurm_cluster):
    script = "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"
    said = slurm_cluster.run("srun", "-N2", "-n2", "--gres=gpu:2", "bash", "-c", script)
    assert sorted(said.splitlines()) == ["n-0 0,1", "n-1 0,1"]


def test_a_job_beyond_its_memory_ends_out_of_memory(slurm_cluster):
    job = slurm_cluster.submit("python3 -c 'x = bytearray(300 << 20)'", "--mem=60")
    slurm_cluster.wait(lambda: slurm_cluster.job_state(job) not in ("PENDING", "RUNNING", "COMPLETING"))
    assert slurm_cluster.job_state(job) == "OUT_OF_MEMORY"


def test_a_killed_node_leaves_nothing_behind_and_its_job_runs_again_elsewhere(slurm_cluster):
    job = slurm_cluster.submit("srun sleep 600", "-N2", "--requeue")
    slurm_cluster.wait(lambda: slurm_cluster.job_state(job) == "RUNNING")
    victim = slurm_cluster.run("squeue", "-h", "-j", job, "-o", "%N").strip()
    victim = slurm_cluster.run("scontrol", "show", "hostnames", victim).split()[1]
    slurm_cluster.provider.kill_node(victim)
    assert not slurm_cluster.provider.is_on(victim)
    slurm_cluster.provider.supervise()
    assert not slurm_cluster.provider.is_on(victim), "a node that was killed on purpose stays off"
    slurm_cluster.run("scontrol", "update", f"nodename={victim}", "state=down", "reason=gone")
    slurm_cluster.wait(lambda: slurm_cluster.job_state(job) == "RUNNING")
    assert victim not in slurm_cluster.run(
        "scontrol", "show", "hostnames", slurm_cluster.run("squeue", "-h", "-j", job, "-o", "%N").strip()
    )
