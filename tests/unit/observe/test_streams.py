"""Whose memory kill a kernel's log tells of."""

import pytest

from stepward.observe.streams import MOST_HELD, JobGroup, own_kills
from stepward.store.logs.read import RawLine

GROUP = JobGroup("lab_a1b2c3", "n-1", 7)


def raw(*lines):
    return [RawLine(n, 0, line.encode(), 0, None) for n, line in enumerate(lines, 1)]


def kill(group, constraint="CONSTRAINT_MEMCG"):
    return [
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "Call Trace:",
        f"oom-kill:constraint={constraint},nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/x,task_memcg={group},"
        "task=python3,pid=12,uid=0",
        "Memory cgroup out of memory: Killed process 12 (python3) total-vm:1kB",
    ]


def kept(lines, group=GROUP):
    told = list(own_kills(raw(*lines), group))
    assert [line.n for line in told] == list(range(1, len(lines) + 1))
    return [line.data.decode() for line in told]


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/stepward_lab_a1b2c3/slurm_n-1/uid_0/job_7/step_0/task_0", True),
        ("/slurm/uid_0/job_7/step_0/task_0", True),
        ("/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", True),
        ("/slurm/uid_0/job_7", True),
        ("/slurm/uid_0/job_77/step_0/task_0", False),
        ("/stepward_lab_a1b2c3/slurm_n-2/uid_0/job_7/step_0/task_0", False),
        ("/stepward_other_d4e5f6/slurm_n-1/uid_0/job_7/step_0/task_0", False),
        ("/user.slice", False),
    ],
)
def test_only_kills_in_the_jobs_own_group_are_told(path, own):
    lines = ["eth0: link up", *kill(path), "eth0: link down"]
    assert kept(lines) == (lines if own else ["eth0: link up", "", "", "", "", "eth0: link down"])


def test_a_node_without_memory_is_everybodys_matter():
    lines = kill("/user.slice", "CONSTRAINT_NONE")
    assert kept(lines) == lines


def test_a_report_that_does_not_end_is_told():
    lines = kill("/slurm/uid_0/job_8/step_0")[:2]
    assert kept(lines) == lines
    long = [lines[0], *["pid 1"] * (MOST_HELD + 5)]
    assert kept(long) == long


def test_two_reports_are_judged_one_by_one():
    other, own = kill("/slurm/uid_0/job_8/step_0"), kill("/slurm/uid_0/job_7/step_0")
    assert kept([*other, *own]) == ["", "", "", "", *own]
    assert kept([*own, *other]) == [*own, "", "", "", ""]
