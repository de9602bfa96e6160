"""Submissions: every bad field is named, all at once; what passes becomes one sbatch without a way to smuggle options."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.errors import UsageError
from stepward.model.jobs import JobSubmission
from stepward.orchestrators.slurm.records import SlurmNode, SlurmPartition
from stepward.orchestrators.slurm.submission import (
    arguments,
    batch_script,
    check,
    environment,
    gres_count,
    memory_mb,
    name_of,
)

NODES = [
    SlurmNode(name=f"n{i}", base="IDLE", cpus=16, memory_mb=64_000, gres="gpu:h100:8(S:0-1)", partitions=("main",))
    for i in range(4)
]
PARTITIONS = [
    SlurmPartition(
        name="main", state="UP", default=True, nodes=("n0", "n1", "n2", "n3"), node_count=4, max_time_s=7 * 86_400.0
    ),
    SlurmPartition(name="short", state="UP", nodes=("n0",), node_count=1, max_time_s=600.0, max_nodes=1),
    SlurmPartition(name="closed", state="DOWN", nodes=("n0",), node_count=1),
    SlurmPartition(name="leaving", state="DRAIN", nodes=("n0",), node_count=1),
]


def job(**fields):
    return JobSubmission(**({"command": ["python", "train.py"]} | fields))


def refused(submission, partitions=PARTITIONS, nodes=NODES):
    with pytest.raises(UsageError) as caught:
        check(submission, partitions, nodes)
    assert caught.value.code == "bad_submission"
    return {one["field"]: one for one in caught.value.context["fields"]}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {
            "name": "pre train.1",
            "nodes": 4,
            "ntasks_per_node": 8,
            "cpus_per_task": 2,
            "mem": "62G",
            "gres": "gpu:h100:8",
        },
        {
            "time_limit": "7-00:00:00",
            "array": "0-9:3,20%2",
            "dependency": "afterok:1:2,afterany:3",
            "signal": "B:USR1@60",
        },
        {"partition": "short,main", "time_limit": "10"},
        {"dependency": "singleton", "requeue": True, "hold": True, "exclude": "n[0-1]", "constraint": "a100&ib"},
        {"gpus": 8, "output": "/tmp/%x-%j.out", "workdir": "/tmp", "env": {"LR": "1e-3\n2", "_A1": ""}},
        {"dependency": "afternotok:4_2?after:5+10"},
    ],
)
def test_what_the_cluster_can_do_passes(fields):
    assert check(job(**fields), PARTITIONS, NODES) == []


def test_every_bad_field_is_named_at_once():
    fields = refused(
        job(
            name="a\n#SBATCH --uid=0", nodes=0, mem="much", time_limit="soon", array="9-0", dependency="after42",
            signal="USR9", workdir="here", gres="gpu:h100:x", env={"1A": "", "SLURM_CONF": "x"}, comment="a\nb",
        )
    )  # fmt: skip
    assert set(fields) == {
        "name", "nodes", "mem", "time_limit", "array", "dependency", "signal", "workdir", "gres", "env.1A",
        "env.SLURM_CONF", "comment",
    }  # fmt: skip
    assert all(one["problem"] for one in fields.values())
    assert "D-HH:MM:SS" in fields["time_limit"]["allowed"]


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"partition": "nowhere"}, "partition", "main, short, closed, leaving"),
        ({"partition": "leaving"}, "partition", "another partition"),
        ({"partition": "short", "time_limit": "11"}, "time_limit", "0-00:10:00"),
        ({"partition": "short", "nodes": 2}, "nodes", "1 to 1"),
        ({"nodes": 5}, "nodes", "1 to 4"),
        ({"mem": "63G"}, "mem", "64000M"),
        ({"cpus_per_task": 17}, "cpus_per_task", "at most 16"),
        ({"ntasks_per_node": 9, "cpus_per_task": 2}, "ntasks_per_node", "at most 16"),
        ({"gres": "gpu:9"}, "gres", "gpu:h100:8(S:0-1)"),
        ({"gres": "gpu:a100:1"}, "gres", "gpu:h100:8(S:0-1)"),
        ({"gres": "fpga"}, "gres", "gpu:h100:8(S:0-1)"),
        ({"nodelist": "n9"}, "nodelist", "nodes of the partition"),
        ({"time_limit": "UNLIMITED"}, "time_limit", "7-00:00:00"),
    ],
)
def test_what_could_never_start_is_refused_with_what_could(fields, field, allowed):
    problems = refused(job(**fields))
    assert list(problems) == [field]
    assert allowed in problems[field]["allowed"]


def test_no_partition_by_default_is_said():
    assert list(refused(job(), PARTITIONS[1:])) == ["partition"]


@pytest.mark.parametrize(
    ("script", "command", "ok"),
    [
        ("#!/bin/bash\ntrue\n", None, True),
        (None, ["true"], True),
        (None, None, False),
        ("#!/bin/bash\n", ["true"], False),
        ("true\n", None, False),
        ("#!/bin/bash\r\ntrue\r\n", None, False),
        ("#!/bin/sh\n\0", None, False),
        (None, [], False),
        (None, ["a\0"], False),
    ],
)
def test_script_or_command(script, command, ok):
    submission = JobSubmission(script=script, command=command)
    if ok:
        check(submission, PARTITIONS, NODES)
    else:
        assert set(refused(submission)) <= {"script", "command"}


def test_a_pinned_job_is_warned_of():
    pinned = "waits for ever"
    assert any(pinned in one for one in check(job(nodelist="n1"), PARTITIONS, NODES))
    script = "#!/bin/bash\n#SBATCH -w n1\ntrue\n"
    assert any(pinned in one for one in check(JobSubmission(script=script), PARTITIONS, NODES))
    assert not any(pinned in one for one in check(job(exclude="n1"), PARTITIONS, NODES))
    other = "#!/bin/bash\n#SBATCH --comment=x --wait-all-nodes=1 --no-w\ntrue\n"
    assert not any(pinned in one for one in check(JobSubmission(script=other), PARTITIONS, NODES))


@pytest.mark.parametrize("limit", ["4294967295", "2147483648", "99999999999", "1491309-00"])
def test_a_time_limit_beyond_what_slurm_counts_is_refused(limit):
    assert list(refused(job(time_limit=limit))) == ["time_limit"]


def test_a_partition_that_is_down_is_warned_of():
    assert any("closed is down" in one for one in check(job(partition="closed"), PARTITIONS, NODES))
    assert check(job(), PARTITIONS, NODES) == []


def test_the_command_line_of_a_submission():
    argv = arguments(
        job(nodes=2, gres="gpu:8", requeue=False, hold=True, workdir="/w"), environment_fd=7, test_only=True
    )
    assert argv == [
        "sbatch", "--job-name=python", "--nodes=2", "--gres=gpu:8", "--chdir=/w", "--export-file=7", "--parsable",
        "--no-requeue", "--hold", "--test-only",
    ]  # fmt: skip


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_a_command_comes_out_of_its_script_as_it_went_in(command):
    command = [part.replace("\0", "") or "x" for part in command]
    interpreter, line = batch_script(JobSubmission(command=command)).split("\n", 1)
    assert interpreter == "#!/bin/sh"
    assert shlex.split(line.removeprefix("exec ")) == command
    # sbatch stops to look for its directives at the first line that is no comment: this one.
    assert line.startswith("exec ")


TEXTS = ("name", "partition", "account", "qos", "reservation", "constraint", "mem", "gres", "time_limit", "array",
         "dependency", "signal", "workdir", "output", "error", "comment", "nodelist", "exclude")  # fmt: skip


@given(st.sampled_from(TEXTS), st.text(min_size=1, max_size=40))
def test_any_text_of_a_field_is_one_argument_or_refused(field, value):
    submission = job(**{field: value})
    try:
        check(submission)
    except UsageError as error:
        assert error.code == "bad_submission"
        return
    argv = arguments(submission)
    assert f"--{field.replace('_', '-').replace('time-limit', 'time').replace('workdir', 'chdir')}={value}" in argv or (
        field == "name" and f"--job-name={value}" in argv
    )
    assert not any(character < " " for part in argv for character in part)


def test_the_job_gets_a_plain_environment_and_what_was_asked_for():
    env = dict(
        pair.split("=", 1)
        for pair in environment(job(env={"A": "b=c\nd", "PATH": "/x"}), "ada", "/home/ada", "/c")
        .decode()
        .split("\0")[:-1]
    )
    assert env == {
        "PATH": "/x", "HOME": "/home/ada", "USER": "ada", "LOGNAME": "ada", "LANG": "C.UTF-8", "SHELL": "/bin/sh",
        "SLURM_CONF": "/c", "SLURM_JOB_NAME": "python", "A": "b=c\nd",
    }  # fmt: skip


def test_amounts():
    assert [memory_mb(text) for text in ("512", "1G", "2T", "1024K")] == [512, 1024, 2 * 1024 * 1024, 1]
    assert gres_count("gpu:h100:8(S:0-1),gpu:a100:2,nvme:4", "gpu", None) == 10
    assert gres_count("gpu:h100:8(S:0-1),gpu:a100:2", "gpu", "a100") == 2
    assert gres_count("", "gpu", None) == 0


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"command": ["/usr/bin/python", "x"]}, "python"),
        ({"command": ["a"], "name": "n"}, "n"),
        ({"script": "#!/bin/sh\n#SBATCH -N1 -J theirs\n"}, "theirs"),
        ({"script": '#!/bin/sh\n# note\n\n#SBATCH --job-name="two words"\n'}, "two words"),
        ({"script": "#!/bin/sh\ntrue\n#SBATCH -J late\n"}, "job"),
        ({"script": "#!/bin/sh\n#SBATCH -J theirs\n", "name": "ours"}, "ours"),
    ],
)
def test_the_name_of_a_job(fields, name):
    assert name_of(JobSubmission(**fields)) == name
