"""What a cluster of the local provider does for the jobs on it, with the real daemons."""

import json
import os
import subprocess
import sys
import tempfile
import time

import pytest

from stepward.clusters.providers.local import daemons, processes

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


def test_two_clusters_of_one_name_live_side_by_side(slurm_cluster, new_slurm_cluster):
    other = new_slurm_cluster("lab", controller={"accounting": False, "rest": False})
    assert other.slurm_name != slurm_cluster.slurm_name
    kept = [cluster.submit("srun sleep 600", "-N4", "--mem=100") for cluster in (slurm_cluster, other)]
    for cluster, job in zip((slurm_cluster, other), kept, strict=True):
        cluster.wait(lambda cluster=cluster, job=job: cluster.job_state(job) == "RUNNING")
    doomed = other.submit("python3 -c 'x = bytearray(300 << 20)'", "--mem=60")
    other.wait(lambda: other.job_state(doomed) == "OUT_OF_MEMORY")
    operation = other.fleet.operations.wait(other.fleet.delete("lab").id)
    assert operation.state == "done", operation.error
    assert slurm_cluster.job_state(kept[0]) == "RUNNING"
    assert slurm_cluster.run("srun", "-n1", "hostname")


def test_a_daemon_that_dies_unasked_is_started_again(new_slurm_cluster):
    lab = new_slurm_cluster("dying", nodes=1, controller={"accounting": False, "rest": True})

    def pids():
        return {one.role: one.pid for one in processes.of_cluster(lab.slurm_name, lab.folder) if one.role}

    before = pids()
    assert set(before) >= {"munged", "slurmctld", "slurmrestd", "slurmd@n-0"}
    processes.end([one for one in processes.of_cluster(lab.slurm_name, lab.folder) if one.role], grace_s=0)
    assert pids() == {}
    lab.fleet.supervise()
    lab.wait(lambda: lab.run("sinfo", "-h", "-o", "%t", check=False).strip() == "idle")
    after = pids()
    assert set(after) == set(before) and not set(after.values()) & set(before.values())


def test_a_database_that_starts_leaves_the_temporary_files_of_others_alone(slurm_cluster):
    theirs = f"{tempfile.gettempdir()}/#sql-temptable-{os.getpid()}.MAI"
    with open(theirs, "wb"):
        pass
    try:
        lab, provider = slurm_cluster, slurm_cluster.provider
        processes.end(daemons.running(provider.record, provider.layout, "mariadbd"), grace_s=0)
        assert "mariadbd" in provider.supervise()
        asked = ("sacctmgr", "-n", "-P", "list", "cluster", "format=cluster")
        lab.wait(lambda: lab.slurm_name in lab.run(*asked, check=False, timeout=120))
        assert os.path.exists(theirs)
    finally:
        os.unlink(theirs)


def test_a_spare_comes_up_when_a_job_needs_it_and_a_node_reboots_when_asked(new_slurm_cluster, tmp_path):
    bare, soon = {"accounting": False, "rest": False}, {"kill_wait_s": 2, "suspend_after_s": 5}
    lab = new_slurm_cluster("spares", nodes=1, spares=1, controller=bare, slurm=soon, project="llm")
    assert not lab.provider.is_on("n-1")
    output, asked = tmp_path / "out", time.monotonic()
    lab.submit("srun -l echo $SLURM_JOB_NODELIST $STEPWARD_PROJECT", "-N2", "-o", str(output))
    lab.wait(lambda: output.exists() and output.read_text().count("\n") == 2, 120)
    print(f"\na batch job on a spare: {time.monotonic() - asked:.1f} s from submission to its first line")
    assert sorted(output.read_text().splitlines()) == ["0: n-[0-1] llm", "1: n-[0-1] llm"]
    assert lab.run("srun", "--export=ALL,STEPWARD_PROJECT=mine", "-n1", "printenv", "STEPWARD_PROJECT") == "mine\n"
    assert lab.provider.is_on("n-1")
    booted = lab.run("scontrol", "-o", "show", "node", "n-0").split("SlurmdStartTime=")[1].split()[0]
    lab.run("scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=test", "n-0")
    lab.wait(lambda: booted not in lab.run("scontrol", "-o", "show", "node", "n-0") and lab.node_state("n-0") == "idle")
    lab.wait(lambda: lab.node_state("n-1") in ("idle~", "idle%"), 90)
    lab.wait(lambda: not lab.provider.is_on("n-1"))


def test_the_doctor_finds_our_settings_well_and_says_what_it_asks(slurm_cluster):
    argv = [sys.executable, "-m", "stepward", "doctor", "--cluster", "host", "--format", "json"]
    done = subprocess.run(argv, env=slurm_cluster.env, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    found = {one["name"]: one["status"] for one in json.loads(done.stdout)}
    # The folder of the tests' clusters is below /tmp, which the doctor dislikes.
    assert {name for name, status in found.items() if status != "ok"} <= {"StateSaveLocation"}
    assert {"cred_expire", "SlurmdTimeout", "JobRequeue", "accounting", "ReturnToService", "memory_limit"} <= set(found)
