"""Which processes belong to which job, and what each job uses."""

import pytest

from stepward.agent.jobs import Jobs
from stepward.collect.process import PAGE_BYTES, TICKS_PER_S
from stepward.collect.readings import Sample


def environ(job, node="n1", **more):
    return {"SLURM_JOB_ID": job, "SLURMD_NODENAME": node, **more}


@pytest.fixture
def jobs(host):
    made = Jobs("n1", host.root)
    return made


def scan(jobs, now):
    jobs._not_before = 0.0
    assert jobs.scan(now)
    return jobs.jobs


def readings(jobs, now):
    sample = Sample()
    jobs.sample(sample, now)
    return {reading.metric: reading.value for reading in sample.readings}


def test_processes_are_told_apart_by_environment_parent_and_node(host, jobs):
    host.process(10, environ={"HOME": "/"})
    host.process(11, parent=10, environ=environ("42", SLURM_JOB_GPUS="0,1"))
    host.process(12, parent=11, environ=None)  # of another user: not readable, but its parent is
    host.process(13, environ=environ("43", node="n2"))
    host.process(14, environ=environ("44", SLURM_ARRAY_JOB_ID="40", SLURM_ARRAY_TASK_ID="3"))
    host.process(15, environ={}, cgroup="4:memory:/slurm_n1/uid_0/job_50/step_0\n")
    found = scan(jobs, 0.0)
    assert {id: job.pids for id, job in found.items()} == {"42": [11, 12], "44": [14], "50": [15]}
    assert found["42"].devices == "0,1"
    assert found["44"].name == "40_3"
    assert jobs.job_of(12) is found["42"]
    assert jobs.job_of(13) is None


def test_a_task_that_slurmstepd_has_not_moved_yet_is_asked_again(host, jobs):
    host.process(11, environ={"HOME": "/"})
    assert not scan(jobs, 0.0)
    host.process(11, environ=environ("42"))
    assert list(scan(jobs, 10.0)) == ["42"]


def test_a_reused_pid_is_another_process(host, jobs):
    host.process(11, environ=environ("42"))
    scan(jobs, 0.0)
    host.process(11, environ=environ("43"), started=900)
    assert list(scan(jobs, 10.0)) == ["43"]


def test_use_is_summed_over_the_processes_of_a_job_without_a_cgroup(host, jobs):
    host.process(11, environ=environ("42"), ticks=100, rss=5)
    host.process(12, environ=environ("42"), ticks=0, rss=7)
    scan(jobs, 0.0)
    assert "system/job/42/cpu" not in readings(jobs, 0.0)
    host.process(11, environ=environ("42"), ticks=100 + 5 * TICKS_PER_S, rss=5)
    host.process(12, environ=environ("42"), ticks=10 * TICKS_PER_S, rss=7)
    scan(jobs, 10.0)
    assert readings(jobs, 10.0) == {
        "system/job/42/processes": 2,
        "system/job/42/cpu": pytest.approx(150.0),
        "system/job/42/memory": 12 * PAGE_BYTES,
    }
    host.gone(11)
    host.gone(12)
    assert not scan(jobs, 20.0)
    assert not readings(jobs, 20.0)


def test_a_cgroup_of_the_job_counts_more_than_its_processes(host, jobs):
    host.write("/proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    top = "/sys/fs/cgroup/memory/slurm_n1/uid_0/job_42"
    host.write(f"{top}/memory.usage_in_bytes", "123456789\n")
    host.write(f"{top}/memory.limit_in_bytes", "200000000\n")
    host.write(f"{top}/step_0/memory.usage_in_bytes", "5\n")
    host.process(11, environ=environ("42"), cgroup="4:memory:/slurm_n1/uid_0/job_42/step_0\n1:cpu:/\n")
    scan(jobs, 0.0)
    assert readings(jobs, 0.0)["system/job/42/memory"] == 123456789


def test_state_d_is_timed_and_zombies_are_counted(host, jobs):
    host.process(11, state="D")
    host.process(12, state="Z")
    scan(jobs, 0.0)
    scan(jobs, 400.0)
    assert jobs.stuck == [(11, 400.0)]
    assert jobs.zombies == 1
    host.process(11, state="S")
    scan(jobs, 410.0)
    assert jobs.stuck == []


def test_a_dear_scan_spaces_the_next_one(host):
    host.process(11)
    jobs = Jobs("n1", host.root)
    assert jobs.scan(0.0)
    assert not jobs.scan(1e-9)
    assert jobs.scan(1e6)
