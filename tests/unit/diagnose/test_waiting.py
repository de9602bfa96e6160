"""Jobs that wait, ranks that are silent, and errors that nobody knows."""

import gzip

import pytest

from stepward.diagnose.ranking import MISTAKEN
from stepward.model.taxonomy import LABELS

JOB = "JobId=9 JobName=a\n   JobState=PENDING Reason={reason} Dependency=(null)\n   RunTime=00:00:00 TimeLimit=1-00:00:00\n"
TIMED_OUT = (
    "[rank{rank}]: [E ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=50, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds\n"
)


@pytest.mark.parametrize("reason", ["Priority", "Resources", "Dependency", "BeginTime"])
def test_a_job_that_waits_for_its_turn_has_no_cause(diagnosed, reason):
    found = diagnosed({"scheduler.txt": JOB.format(reason=reason)})
    assert (found.causes, found.outcome, found.ended) == ([], "unknown", False)


@pytest.mark.parametrize("reason", ["BadConstraints", "PartitionNodeLimit", "AssocGrpGRES", "InvalidQOS"])
def test_a_job_that_cannot_start_has_one_and_has_not_failed(diagnosed, reason):
    found = diagnosed({"scheduler.txt": JOB.format(reason=reason)})
    assert [one.label for one in found.causes] == ["unschedulable"]
    assert (found.outcome, found.ended) == ("degraded", False)


def test_a_silent_rank_is_a_candidate_and_no_cause(log):
    lines = "".join(f"[rank{rank}]: step 1 loss 2.0\n" for rank in range(8))
    found = log(lines + "".join(TIMED_OUT.format(rank=rank) for rank in range(8) if rank != 5))
    assert found.causes == []
    hung = [one for one in found.candidates if one.label == "hang_in_user_code"]
    assert [one.suspects.ranks for one in hung] == [[5]]
    # Its evidence is a line of another one.
    assert [one.rank for one in hung[0].evidence] == [0]


@pytest.mark.parametrize(
    ("error", "label"),
    [
        ("pyarrow.lib.ArrowKeyError: no field of that name", "data_pipeline"),
        ("google.api_core.exceptions.Aborted: transaction lock", "external_service"),
        ("my.package.StrangeError: it broke", "user_code_index"),
    ],
)
def test_an_unknown_exception_is_of_the_part_that_raised_it(log, error, label):
    found = log(f'step 1 loss 2.0\nTraceback (most recent call last):\n  File "a.py", line 1, in f\n{error}\n')
    assert [one.label for one in found.causes] == [label]


def test_what_a_label_is_mistaken_for_is_a_candidate_and_never_a_cause(log):
    found = log("step 1 loss 2.0\nOSError: [Errno 113] No route to host\n")
    assert [one.label for one in found.causes] == ["network_link"]
    assert {"network_config", "node_failure"} <= {one.label for one in found.candidates}
    assert all(one.confidence < 0.3 and one.layer == LABELS[one.label].layer for one in found.candidates)


def test_long_work_that_broke_is_waited_for_by_nobody(log):
    found = log(
        "[rank1]: step 1 loss 2.0\n[rank3]: saving checkpoint to /ckpt/1\n"
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.5 GiB.\n"
        "[rank1]: NCCL WARN socketProgress: Connection closed by remote peer cn02<48908>\n"
    )
    assert [one.label for one in found.causes] == ["gpu_oom"]


def test_what_came_before_the_tear_of_a_packed_file_is_read(diagnosed):
    text = "".join(f"step {at} loss 2.0\n" for at in range(5000)).encode()
    found = diagnosed({"job.log.gz": gzip.compress(text)[:-20]})
    assert found.inputs[0].truncated
    assert found.inputs[0].lines > 4000


def test_a_test_session_that_passes_is_healthy(log):
    lines = "tests/test_a.py::test_an_out_of_memory_kill PASSED\ntest_b.py::test[MemoryError is failed] PASSED\n"
    assert log(lines + "==== 2 passed in 1.02s ====\n").outcome == "healthy"


def test_places_of_a_metric_that_are_no_names_are_nobody(diagnosed):
    rows = '{"name": "step_time", "rank": "x", "node": [1], "device": {"a": 1}, "values": [1, 2]}\n'
    assert diagnosed({"metrics.jsonl": rows}).unknown[0].analyzer != "diagnosis"


def test_every_label_says_what_it_is_mistaken_for():
    assert MISTAKEN.keys() == LABELS.keys()
    assert all(label not in others and others.keys() <= LABELS.keys() for label, others in MISTAKEN.items())
    assert all(": " in tells for others in MISTAKEN.values() for tells in others.values())


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("140, pid=77, name=python3, Unrecovered ECC Error", "gpu_memory_ecc"),
        ("144, SAW_MVB Fatal XC0 i0 Link 3 (0x1)", "nvlink_fabric"),
        ("144, SAW_MVB Nonfatal XC0 i0 Link 3 (0x1)", None),
    ],
)
def test_what_is_not_recovered_or_not_fatal_is_told_apart(diagnosed, line, label):
    found = diagnosed(
        {"kernel.log": f"n1 kernel: NVRM: Xid (PCI:0000:18:00): {line}\n", "job.log": "step 1 loss 2.0\n"}
    )
    assert [one.label for one in found.causes] == ([label] if label else [])
