"""Recorded cgroups of both versions, hybrid and inside a container."""

import pytest

from stepward.collect import cgroup
from stepward.collect.readings import Sample

MOUNTS_V1 = """24 1 0:22 / {root}/memory rw,relatime shared:9 - cgroup cgroup rw,memory
25 1 0:23 / {root}/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
26 1 0:24 / {root}/unified rw,relatime - cgroup2 cgroup2 rw
"""
MEMBER_V1 = "9:name=systemd:/\n4:memory:/slurm/job_7/step_0\n2:cpu,cpuacct:/slurm/job_7\n0::/\n"
MOUNTS_V2 = "30 1 0:26 / {root} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
MEMBER_V2 = "0::/system.slice/job.scope/task\n"


@pytest.fixture
def recorded(tmp_path):
    def write(mounts, member, files):
        _put(tmp_path, "proc/self/mountinfo", mounts.format(root="/sys/fs/cgroup"))
        _put(tmp_path, "proc/42/cgroup", member)
        for name, text in files.items():
            _put(tmp_path, f"sys/fs/cgroup/{name}", text)
        return str(tmp_path)

    return write


def _put(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _sample(reader, now):
    sample = Sample()
    reader.sample(sample, now)
    return {reading.metric: reading.value for reading in sample.readings}


FILES_V1 = {
    "memory/slurm/job_7/step_0/memory.usage_in_bytes": "5000\n",
    "memory/slurm/job_7/step_0/memory.limit_in_bytes": "9223372036854771712\n",
    "memory/slurm/job_7/memory.limit_in_bytes": "8000\n",
    "memory/memory.limit_in_bytes": "9223372036854771712\n",
    "memory/slurm/job_7/step_0/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    "cpu/slurm/job_7/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 2000000000\n",
    "cpu/slurm/job_7/cpu.cfs_quota_us": "150000\n",
    "cpu/slurm/job_7/cpu.cfs_period_us": "100000\n",
    "cpu/slurm/job_7/cpuacct.usage": "5000000000\n",
}


def test_version_1_finds_the_limit_of_the_job_above_the_step(recorded):
    found = cgroup.locate(42, recorded(MOUNTS_V1, MEMBER_V1, FILES_V1))
    assert found.version == 1
    assert found.memory.endswith("/memory/slurm/job_7/step_0")
    assert (cgroup.memory_limit(found), cgroup.cpu_limit(found), cgroup.oom_kills(found)) == (8000, 1.5, 1)


def test_version_1_readings(recorded):
    root = recorded(MOUNTS_V1, MEMBER_V1, FILES_V1)
    reader = cgroup.CgroupReader(cgroup.locate(42, root))
    assert _sample(reader, 0.0) == {
        "system/cgroup/memory_used": 5000,
        "system/cgroup/memory_limit": 8000,
        "system/cgroup/oom_kills": 0,
        "system/cgroup/cpu_limit": 150.0,
    }
    later = {
        "cpu/slurm/job_7/cpuacct.usage": "15000000000\n",
        "cpu/slurm/job_7/cpu.stat": "throttled_time 3000000000\n",
    }
    recorded(MOUNTS_V1, MEMBER_V1, FILES_V1 | later)
    found = _sample(reader, 10.0)
    assert (found["system/cgroup/cpu"], found["system/cgroup/cpu_throttled"]) == (100.0, 10.0)


FILES_V2 = {
    "system.slice/job.scope/task/memory.current": "700\n",
    "system.slice/job.scope/task/memory.max": "max\n",
    "system.slice/job.scope/memory.max": "900\n",
    "system.slice/job.scope/task/memory.events": "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\noom_group_kill 0\n",
    "system.slice/job.scope/task/cpu.stat": "usage_usec 1000000\nuser_usec 1\nthrottled_usec 500000\n",
    "system.slice/job.scope/task/cpu.max": "max 100000\n",
    "system.slice/job.scope/task/memory.pressure": "some avg10=7.00 avg60=0 avg300=0 total=0\n",
}


def test_version_2_readings(recorded):
    root = recorded(MOUNTS_V2, MEMBER_V2, FILES_V2)
    located = cgroup.locate(42, root)
    assert (located.version, cgroup.oom_kills(located), cgroup.cpu_limit(located)) == (2, 2, None)
    reader = cgroup.CgroupReader(located)
    assert _sample(reader, 0.0) == {
        "system/cgroup/memory_used": 700,
        "system/cgroup/memory_limit": 900,
        "system/cgroup/oom_kills": 0,
        "system/cgroup/pressure_memory": 7.0,
    }
    more = {"system.slice/job.scope/task/memory.events": "oom_kill 3\n"}
    recorded(MOUNTS_V2, MEMBER_V2, FILES_V2 | more)
    assert _sample(reader, 1.0)["system/cgroup/oom_kills"] == 1


def test_a_container_sees_its_cgroup_at_the_mount(recorded):
    mounts = "30 1 0:26 /kubepods/pod1/box {root} ro - cgroup2 cgroup rw\n"
    root = recorded(mounts, "0::/kubepods/pod1/box\n", {"memory.current": "5\n"})
    assert cgroup.locate(42, root).memory == f"{root}/sys/fs/cgroup"


def test_a_process_that_is_gone_has_no_cgroup(tmp_path):
    assert cgroup.locate(42, str(tmp_path)) is None
    assert cgroup.oom_kills(None) is None
