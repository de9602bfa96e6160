"""Cgroups and environments of Slurm's processes, as recorded on hosts with version 1, version 2 and several slurmd."""

import pytest

from stepward.orchestrators.slurm.placement import Placement, job_folder, of_cgroup, of_environ

V1 = """12:pids:/system.slice/slurmd.service
11:memory:/slurm/uid_1000/job_4711/step_0/task_1
10:cpuset:/slurm/uid_1000/job_4711/step_0
1:name=systemd:/system.slice/slurmd.service
"""
V1_SEVERAL = "4:memory:/slurm_n2/uid_0/job_7/step_batch/task_0\n1:name=systemd:/\n"
V2 = "0::/system.slice/slurmstepd.scope/job_90210/step_extern/user/task_0\n"
V2_SEVERAL = "0::/system.slice/n3_slurmstepd.scope/job_12/step_3/user/task_0\n"


@pytest.mark.parametrize(
    ("text", "placement"),
    [
        (V1, Placement("4711", "0", None)),
        (V1_SEVERAL, Placement("7", "batch", "n2")),
        (V2, Placement("90210", "extern", None)),
        (V2_SEVERAL, Placement("12", "3", "n3")),
        ("0::/system.slice/slurmd.service\n", None),
        ("0::/system.slice/slurmstepd.scope/system\n", None),
        ("0::/user.slice/user-1000.slice/job_5\n", None),
        ("", None),
    ],
)
def test_a_cgroup_says_the_job(text, placement):
    assert of_cgroup(text) == placement


def test_an_environment_says_the_job():
    environ = {"SLURM_JOB_ID": "42", "SLURM_STEP_ID": "1", "SLURMD_NODENAME": "n1"}
    assert of_environ(environ) == Placement("42", "1", "n1")
    assert of_environ({"SLURM_JOB_ID": "../42"}) is None
    assert of_environ({}) is None


def test_the_folder_of_a_job_is_found_above_its_steps():
    top = "/sys/fs/cgroup/memory/slurm_n2/uid_0/job_7"
    assert job_folder(f"{top}/step_batch/task_0") == top
    assert job_folder(top) == top
    assert job_folder("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/step_3") == (
        "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_12"
    )
    assert job_folder("/sys/fs/cgroup/memory/process_api/job_7") is None
    assert job_folder("/sys/fs/cgroup/memory") is None
