"""What readers take from lines, tables and prose."""

import math
from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepward.diagnose.clocks import clock, shown
from stepward.diagnose.figures import read_metrics
from stepward.diagnose.lines import Attribution, attribution, read_line
from stepward.diagnose.literals import SHORTEST, required
from stepward.diagnose.matcher import Matcher
from stepward.diagnose.signatures import catalogue
from stepward.diagnose.slurm import expand, size
from stepward.diagnose.sniff import sniff
from stepward.model.taxonomy import LABELS


def line(text, place=None):
    return read_line("x", 1, text, place or Attribution(), UTC)


@pytest.mark.parametrize(
    ("text", "rank", "node"),
    [
        ("[rank3]: x", 3, None),
        ("[rank3] x", 3, None),
        ("[default7]:x", 7, None),
        (" 0: x", 0, None),
        ("12: x", 12, None),
        ("[1,5]<stderr>:x", 5, None),
        ("(Worker_TP2 pid=10) x", 2, None),
        ("(TrainWorker pid=10, ip=10.0.0.3) x", None, "10.0.0.3"),
        ("[task 4] x", 4, None),
        ("[n07] x", None, "n07"),
        ("gpu-18: [rank2] x", 2, "gpu-18"),
        ("c-101:10:20 [1] NCCL WARN x", None, "c-101"),
        ("[2026-01-01 10:00:00] c-101:10:20 [1] NCCL WARN x", None, "c-101"),
        ("Nov  3 11:20:14 gpu-07 kernel: x", None, "gpu-07"),
        ("gpu-07 [402113.120031] NVRM: x", None, "gpu-07"),
        ("srun: error: gpu-02: task 4: Out Of Memory", 4, "gpu-02"),
        ("srun: error: gpu-02: tasks 8-15: Terminated", None, "gpu-02"),
        ("trainer-2: x", 2, None),
        ("RuntimeError: x", None, None),
        ("step-3: x", None, None),
        ("model-00003-of-00008.safetensors: 41%", None, None),
        ("2026-01-01 10:00:00 INFO x", None, None),
    ],
)
def test_the_head_of_a_line_says_rank_and_node(text, rank, node):
    found = line(text)
    assert (found.rank, found.node) == (rank, node)


@pytest.mark.parametrize(
    ("path", "alone", "rank", "node"),
    [
        ("job.log", True, None, None),
        ("job-7.out", True, None, None),
        ("rank3.log", True, 3, None),
        ("logs/rank_12.err.gz", False, 12, None),
        ("gpu-05/rank3.log", False, 3, "gpu-05"),
        ("3.log", False, 3, None),
    ],
)
def test_file_and_folders_say_rank_and_node(path, alone, rank, node):
    found = attribution(path, alone=alone)
    assert (found.rank, found.node) == (rank, node)


def test_the_prefix_outranks_the_file():
    assert line("[rank3]: x", Attribution(rank=7, node="a1")).rank == 3
    assert line("x", Attribution(rank=7, node="a1")).node == "a1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-06T10:02:11Z x", "2026-05-06T10:02:11.000000Z"),
        ("[2026-05-06 10:02:11,123] x", "2026-05-06T10:02:11.123000Z"),
        ("2026-05-06 10:02:11+02:00 x", "2026-05-06T08:02:11.000000Z"),
        ("05/06/2026 10:02:11 - INFO", "2026-05-06T10:02:11.000000Z"),
        ("[Wed May  6 10:02:11 2026] NVRM", "2026-05-06T10:02:11.000000Z"),
        ("E0506 10:02:11.5 agent.cc:1] x", None),
        ("10:02:11 x", None),
        ("nothing", None),
    ],
)
def test_clocks_in_many_forms(text, expected):
    found = clock(text)
    assert shown(found.seconds if found else None) == expected


def test_a_clock_without_a_zone_takes_the_given_one():
    found = clock("2026-05-06 10:02:11 x", timezone(timedelta(hours=2)))
    assert shown(found.seconds) == "2026-05-06T08:02:11.000000Z"


@given(st.text(max_size=200))
def test_any_text_is_a_line_without_steering(text):
    found = line(text)
    assert not any(ord(one) < 9 or "\x7f" <= one <= "\x9f" for one in found.text)


def test_every_signature_is_of_the_taxonomy_and_needs_a_literal():
    for one in catalogue():
        assert one.label is None or one.label in LABELS
        assert one.literals
        assert min(map(len, one.literals)) >= SHORTEST, one.id
    assert {one.label for one in catalogue()} >= LABELS.keys()


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("No space left", ["no space left"]),
        ("(?:foo|barely) .* x", ["barely", "foo"]),
        (r"\d+ \w* longest(?:est)? ab", [" longest"]),
        ("(?:abc)+", ["abc"]),
    ],
)
def test_literals_of_an_expression(pattern, literals):
    assert required(pattern) == literals


@pytest.mark.parametrize("pattern", ["a|bcdef", r"\d+", "(?:abcdef)?", "ab"])
def test_an_expression_without_a_literal_is_refused(pattern):
    with pytest.raises(ValueError, match="needs no literal"):
        required(pattern)


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["Xid (PCI:0000:3b:00): 79, x", "Xid (PCI:0000:3b:00): 45, x", "step 12 of 79", "errno 28"]),
        max_size=8,
    )
)
def test_the_cache_of_templates_changes_no_answer(lines):
    shared = Matcher(catalogue())
    for text in lines:
        fresh = [one.id for one in catalogue() if one.pattern.search(text)]
        only = [one.id for one in catalogue() if one.pattern.search(text) and one.only]
        assert [one.id for one in shared.signatures(text)] == (only or fresh)


@pytest.mark.parametrize(
    ("name", "head", "sort"),
    [
        ("a.txt", "", "empty"),
        ("scheduler.txt", "x", "scheduler"),
        ("a.txt", "JobID|JobName|State\n1|x|FAILED", "scheduler"),
        ("a.txt", "JobId=7 JobName=x\n   JobState=RUNNING", "scheduler"),
        ("a.txt", 'Process 1: python\nThread 1 (idle): "MainThread"\n    f (a.py:1)', "stacks"),
        ("a.txt", "[  10.1] NVRM: x\n[  10.2] usb: y", "kernel"),
        ("a.txt", '{"loss": 1.0, "step": 1}\n{"loss": 2.0, "step": 2}', "metrics"),
        ("a.txt", "step,loss,lr\n1,2.0,3\n2,1.9,3", "metrics"),
        ("a.txt", '# TYPE gpu_util gauge\ngpu_util{gpu="0"} 31\n', "metrics"),
        ("a.txt", "Traceback (most recent call last):\nValueError: x", "log"),
        ("a.txt", '{"message": "hello", "level": "info"}', "log"),
    ],
)
def test_what_an_input_is(name, head, sort):
    assert sniff(name, head) == sort


FORMS = {
    "JSON lines": '{"gpu_util": 31, "rank": 2}\n{"gpu_util": 29, "rank": 2}\n{"gpu_util": 30, "rank": 2}',
    "CSV": "rank,gpu_util\n2,31\n2,29\n2,30",
    "Prometheus": 'gpu_util{rank="2"} 30',
    "YAML list": "- {name: gpu_util, unit: '%', values: [31, 29, 30], rank: 2}",
    "JSON list": '[{"name": "gpu_util", "values": [31, 29, 30], "rank": 2}]',
    "sentence": "[rank2] gpu_util 30 % (was 97 %)",
    "list of sentences": "- '[rank2] gpu_util mean 30 %'",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_metrics_says_the_same(form):
    lines = [line(text) for text in FORMS[form].splitlines()]
    (found,) = read_metrics(lines, FORMS[form])
    assert (found.metric, found.value, found.rank) == ("duty", 30.0, 2)


def test_prose_tells_values_from_what_they_compare_to():
    text = "n7 load 190 on 96 threads, sm_clock 1095 MHz (others 1980 MHz), no throttle reason"
    found = {one.metric: one for one in read_metrics([line(text)], text)}
    assert (found["load"].value, found["load"].limit, found["load"].node) == (190, 96, "n7")
    assert (found["clock"].value, found["clock"].against) == (1095, 1980)
    assert found["throttle"].denied
    assert math.isnan(found["throttle"].value)


def test_slurm_words():
    assert expand("gpu-[01-03,7],x1") == ["gpu-01", "gpu-02", "gpu-03", "gpu-7", "x1"]
    assert expand("a[0-99999999999]") == []
    assert expand("None assigned") == []
    assert size("256G") == 256 * 2**30
    assert size("") is None
