"""What Slurm 22.05 answered (``recorded/``), read; and what nobody can make it answer."""

import contextlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.errors import ParseError
from stepward.model.states import State
from stepward.orchestrators.slurm.cluster_reading import read_config, read_nodes, read_partitions, read_ping
from stepward.orchestrators.slurm.reading import (
    ACCOUNTING_FIELDS,
    QUEUE_FIELDS,
    exit_of,
    filled,
    read_accounting,
    read_queue,
    read_steps,
)
from stepward.orchestrators.slurm.records import SlurmJob
from stepward.orchestrators.slurm.table import new_mark, rows

MARK = "~~"
RECORDED = Path(__file__).parent / "recorded"
WEIRD = "we\x1fird\nname|x JobState=FAILED"


def recorded(name):
    return (RECORDED / name).read_text()


@pytest.fixture(scope="module")
def queue():
    return {job.id: job for job in read_queue(recorded("squeue-22.05.txt"), MARK)}


@pytest.fixture(scope="module")
def history():
    return read_accounting(recorded("sacct-22.05.txt"), MARK)


@pytest.mark.parametrize(
    ("id_", "state", "word", "reason"),
    [
        ("14", State.FINISHED, "COMPLETED", ""),
        ("15", State.FAILED, "FAILED", "NonZeroExitCode"),
        ("17", State.TIMEOUT, "TIMEOUT", "TimeLimit"),
        ("18_0", State.RUNNING, "RUNNING", ""),
        ("18_[2-9%2]", State.QUEUED, "PENDING", "JobArrayTaskLimit"),
        ("19", State.QUEUED, "PENDING", "JobHeldUser"),
        ("20+1", State.RUNNING, "RUNNING", ""),
        ("22", State.QUEUED, "PENDING", "ReqNodeNotAvail, UnavailableNodes:n3"),
        ("24", State.QUEUED, "PENDING", "Dependency"),
        ("27", State.QUEUED, "PENDING", "PartitionTimeLimit"),
        ("30", State.QUEUED, "PENDING", "PartitionDown"),
        ("32", State.CANCELLED, "CANCELLED", ""),
        ("33", State.RUNNING, "SUSPENDED", ""),
    ],
)
def test_a_job_of_the_queue(queue, id_, state, word, reason):
    job = queue[id_]
    assert (job.state, job.slurm_state, job.reason) == (state, word, reason)


def test_times_are_those_that_have_come(queue):
    ended, waits, running = queue["15"], queue["24"], queue["23"]
    assert ended.submitted_at <= ended.started_at < ended.ended_at
    assert (waits.started_at, waits.ended_at) == (None, None) and waits.expected_start_at is not None
    assert running.started_at is not None and running.ended_at is None
    # It was cancelled while it waited: it ended, but it never began.
    assert (queue["5"].started_at, queue["5"].ended_at is None) == (None, False)


def test_who_a_job_is_stays_over_requeues_and_in_arrays(queue):
    assert [queue[name].key for name in ("14", "18_0", "18_[2-9%2]", "20+0", "20+1")] == [
        "14",
        "18_0",
        "18",
        "20",
        "20",
    ]
    assert (queue["23"].restarts, queue["14"].restarts) == (1, 0)
    assert (queue["18_0"].array_job, queue["18_0"].array_task, queue["18_0"].number) == (18, 0, 28)
    assert queue["18_[2-9%2]"].array_tasks == "2-9%2"
    assert [queue[name].held for name in ("19", "4", "22")] == [True, False, False]


def test_a_hostile_name_is_a_name(queue, history):
    assert queue["26"].name == WEIRD
    assert queue["26"].state is State.FINISHED
    assert [job.name for job in history if job.id == "26"] == [WEIRD]
    assert queue["19"].comment == "a|b c"


def test_exit_codes_and_signals(queue, history):
    assert (queue["15"].exit_code, queue["15"].signal) == (3, None)
    assert (queue["16"].exit_code, queue["16"].signal) == (None, 11)
    # It had failed with 3 and was requeued; then it was cancelled while it waited: that end has no code.
    assert (queue["2"].exit_code, queue["2"].slurm_state) == (None, "CANCELLED")
    accounted = {job.id: job for job in history}
    assert (accounted["15"].exit_code, accounted["16"].signal) == (3, 11)
    # As squeue says it before 23.11 (the number of wait) and after it.
    assert exit_of("768") == exit_of("3:0") == (3, None)
    assert exit_of("9") == exit_of("0:9") == (0, 9)
    assert exit_of("") == (None, None)


def test_paths_are_those_on_disk(queue):
    assert queue["18_0"].stdout == "/home/ada/out/slurm-18_0.out"
    assert queue["20+0"].stdout == "/home/ada/out/slurm-20.out"
    assert queue["20+1"].stdout == queue["18_[2-9%2]"].stdout == ""
    assert queue["3_0"].stdout == "/home/ada/out/arr-10-3-0.out"
    assert queue["14"].stderr == queue["14"].stdout == "/home/ada/out/slurm-14.out"


def test_patterns_of_paths():
    job = SlurmJob(
        id="9_4", number=12, array_job=9, array_task=4, name="x", user="ada", workdir="/w", nodes=("n1", "n2"),
        state=State.RUNNING, slurm_state="RUNNING",
    )  # fmt: skip
    assert filled("%x-%A_%a-%j-%u-%N-%5j-%%.%q", job) == "/w/x-9_4-12-ada-n1-00012-%.%q"
    assert filled("/a/\\%j", job) == "/a/%j"
    alone = msgspec.structs.replace(job, array_job=None, array_task=None)
    # sbatch writes that number for a job that is no array.
    assert filled("%A-%a", alone) == "/w/12-4294967294"


def test_accounting_has_a_record_for_each_launch(history):
    launches = [(job.slurm_state, job.state, job.nodes) for job in history if job.key == "23"]
    assert launches == [("REQUEUED", State.CANCELLED, ("n2",)), ("RUNNING", State.RUNNING, ("n1",))]
    failed = [job for job in history if job.key == "22"]
    assert [job.slurm_state for job in failed] == ["NODE_FAIL", "PENDING"]
    assert failed[0].nodes == ("n2", "n3") and failed[0].state is State.LOST
    assert next(job for job in history if job.id == "32").cancelled_by == 0


def test_steps(queue):
    steps = read_steps(recorded("steps-22.05.txt"), MARK)
    assert {step.id: step.nodes for step in steps}["18_0.batch"] == ("n1",)
    assert {step.job for step in steps} <= set(queue) | {"20"}


def test_nodes_and_what_their_administrators_wrote():
    nodes = {node.name: node for node in read_nodes(recorded("nodes-22.05.txt"))}
    assert {name: node.state for name, node in nodes.items()} == {
        "n0": "drained",
        "n1": "mixed",
        "n2": "mixed",
        "n3": "down",
    }
    assert (nodes["n0"].reason, nodes["n0"].reason_by) == ("bad cable = replace [x]", "root")
    assert nodes["n0"].reason_at is not None
    assert (nodes["n1"].comment, nodes["n1"].extra, nodes["n1"].base) == ("hc State=DOWN", "k=v", "MIXED")
    assert (nodes["n3"].usable, nodes["n3"].responding, nodes["n1"].usable) == (False, False, True)
    assert (nodes["n1"].cpus, nodes["n1"].allocated_cpus, nodes["n1"].memory_mb) == (16, 4, 64_000)
    assert nodes["n1"].gres == "gpu:h100:8" and nodes["n1"].partitions == ("main",)


def test_partitions():
    found = {one.name: one for one in read_partitions(recorded("partitions-22.05.txt"))}
    assert [name for name, one in found.items() if one.default] == ["main"]
    assert found["main"].nodes == ("n0", "n1", "n2", "n3")
    assert (found["short"].max_time_s, found["short"].max_nodes) == (600.0, 1)
    assert (found["closed"].state, found["closed"].max_time_s, found["closed"].max_nodes) == ("DOWN", None, None)


def test_config_and_ping():
    config = read_config(recorded("config-22.05.txt"))
    assert (config["ClusterName"], config["SlurmdTimeout"], config["JobRequeue"]) == ("lab", "10 sec", "1")
    assert config["AccountingStorageBackupHost"] == ""
    assert [one.up for one in read_ping(recorded("ping-22.05.txt"))] == [True]
    assert [one.up for one in read_ping("Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b is UP\n")] == [
        False,
        True,
    ]


def test_a_state_of_tomorrow_costs_one_job_not_all():
    text = recorded("squeue-22.05.txt")
    changed = text.replace("~~RUNNING~~", "~~TELEPORTING~~", 1)
    assert len(read_queue(changed, MARK)) == len(read_queue(text, MARK)) - 1
    with pytest.raises(ParseError) as caught:
        read_queue(text[: text.index("\n")].replace("PENDING", "TELEPORTING"), MARK)
    assert caught.value.code == "slurm_malformed"


@pytest.mark.parametrize("text", ["x", "a~~", "usage: squeue [OPTIONS]\n", "~~" * 7])
def test_an_answer_that_is_no_table_is_named(text):
    with pytest.raises(ParseError) as caught:
        read_queue(text, MARK)
    assert caught.value.code == "slurm_malformed"


def test_no_jobs_are_no_error():
    assert read_queue("", MARK) == read_accounting("\n", MARK) == []


@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), max_size=5))
def test_cells_come_back_whatever_they_hold(table):
    mark = new_mark()
    text = "".join("".join(f"{cell}{mark}" for cell in row) + "\n" for row in table)
    found = [list(row.values()) for row in rows(text, ("a", "b", "c"), mark)]
    # Only line ends in front of a row are the table's own.
    assert [row[1:] for row in found] == [["" if c in EMPTY else c for c in row[1:]] for row in table]


EMPTY = {"(null)", "N/A", "n/a", "None assigned"}


@given(
    st.lists(
        st.text(alphabet="ab0129_:-[]%+.,~(null) ", max_size=12), min_size=len(QUEUE_FIELDS), max_size=len(QUEUE_FIELDS)
    )
)
def test_any_row_of_the_queue_is_a_job_or_a_parse_error(cells):
    _never_another_error(read_queue, QUEUE_FIELDS, cells)


@given(
    st.lists(st.text(alphabet="ab0129_:-[]%+.,~(null) ", max_size=12), min_size=len(ACCOUNTING_FIELDS),
             max_size=len(ACCOUNTING_FIELDS))
)  # fmt: skip
def test_any_row_of_accounting_is_a_job_or_a_parse_error(cells):
    _never_another_error(read_accounting, ACCOUNTING_FIELDS, cells)


def _never_another_error(read, fields, cells):
    row = dict(zip(fields, cells, strict=True)) | {"State": "RUNNING"}
    try:
        jobs = read("".join(f"{row[field]}\x1f#" for field in fields) + "\n", "\x1f#")
    except ParseError:
        return
    assert len(jobs) == 1


@given(st.text(alphabet="NodeName=State 01[]@*+\n", max_size=200))
def test_any_text_of_scontrol_is_read_or_a_parse_error(text):
    with contextlib.suppress(ParseError):
        read_nodes(text)
