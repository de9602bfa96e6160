"""Whatever the inputs hold, a valid document comes, and nothing of it steers a terminal."""

import gzip
import io
import re

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepward.cli import verdict
from stepward.diagnose.document import SCHEMA, Document
from stepward.diagnose.engine import diagnose
from stepward.diagnose.sources import Source, discover
from stepward.model.taxonomy import LABELS

KINDS = [None, "log", "scheduler", "kernel", "stacks", "metrics"]
FRAGMENTS = [
    b"[rank3]: ", b"NVRM: Xid (PCI:0000:3b:00): 79, ", 
    b"Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=X, ",
    b"JobID|State|ExitCode\n", b"1|FAILED|9:9\n", b"NodeList=a[0-99999999999]\n", b"- {name: loss, values: [1, nan, .inf]}\n",
    b"Process 1: x (rank 99999999999999999999)\n", b"Thread 1 (idle): \"MainThread\"\n", b"    f (a.py:1)\n",
    b"step 1 loss nan 1e999 s\n",
    b"2026-99-99 99:99:99 ", b"\x1b[31m\x1b]0;x\x07", b"\xff\xfe", b"\r\n", b"No space left on device\n",
    b"{\"loss\": NaN}\n", b"\xe2\x80\xae",
    b"Name:   x\nNode: /\nExit Code: 99999999999999999999\n", b"attempt 99999: ", b"exitcode : -99999999999\n",
    b"[" * 400, b"a,b\n1,2\n",
]  # fmt: skip
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
pieces = st.lists(st.one_of(st.binary(max_size=60), st.sampled_from(FRAGMENTS)), max_size=25).map(b"".join)


def checked(document):
    again = msgspec.json.decode(msgspec.json.encode(document), type=Document)
    assert again.schema == SCHEMA
    for cause in document.causes:
        assert cause.layer == LABELS[cause.label].layer
        assert 0.3 <= cause.confidence <= 1
        assert cause.evidence
    assert not [one for one in document.unknown if one.analyzer == "diagnosis"], document.unknown
    return document


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=pieces, kind=st.sampled_from(KINDS))
def test_any_bytes_give_a_document(tmp_path, data, kind, capsys):
    path = tmp_path / "input"
    path.write_bytes(data)
    document = checked(diagnose([Source(str(path), "input", alone=True, kind=kind)]))
    capsys.readouterr()
    verdict.print_diagnosis(document)
    assert not STEERING.search(capsys.readouterr().out)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.text(max_size=80), max_size=20))
def test_any_text_in_any_encoding_gives_a_document(tmp_path, lines):
    text = "\n".join(lines)
    for at, encoding in enumerate(("utf-8", "utf-16", "utf-32")):
        (tmp_path / f"{at}.log").write_bytes(text.encode(encoding, "replace"))
    checked(diagnose(discover([str(tmp_path)])))


ERROR = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(gzip.compress(ERROR.encode()), id="gzip"),
        pytest.param(ERROR.encode("utf-16"), id="utf-16"),
        pytest.param(ERROR.encode("utf-16-le"), id="utf-16-le without a mark"),
        pytest.param(ERROR.replace(" ", " \x1b[31m", 1).encode(), id="colours"),
        pytest.param(b"progress 1%\rprogress 2%\r" + ERROR.encode(), id="a progress bar before it"),
        pytest.param(b"x" * 3_000_000 + b"\n" + ERROR.encode(), id="a very long line before it"),
        pytest.param(ERROR.replace("\n", "\r\n").encode(), id="CRLF"),
    ],
)
def test_an_error_is_found_in_any_wrapping(diagnosed, packed):
    assert [cause.label for cause in diagnosed({"job.log": packed}).causes] == ["gpu_oom"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (gzip.compress(ERROR.encode() * 90)[:60], "end-of-stream"),
        (bytes(range(256)) * 40, "binary"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 40, "zstd"),
    ],
    ids=["cut gzip", "binary", "zstd without its package"],
)
def test_what_cannot_be_read_is_named(diagnosed, content, why, monkeypatch):
    monkeypatch.setattr("stepward.diagnose.sources.import_module", no_module)
    document = checked(diagnosed({"job.log": content}))
    assert document.outcome == "unknown"
    assert why in document.inputs[0].why


def test_a_list_that_unfolds_without_end_is_text(tmp_path):
    levels = [f"- &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 40)]
    (tmp_path / "metrics.yaml").write_text("\n".join(["- &a0 [loss]", *levels, ""]))
    checked(diagnose(discover([str(tmp_path / "metrics.yaml")])))


def no_module(name):
    raise ImportError(name)


def test_a_folder_that_is_missing_or_refused_is_named(tmp_path):
    document = checked(diagnose(discover([str(tmp_path / "nowhere.log")])))
    assert document.inputs[0].why == "No such file or directory"


def test_stdin_is_an_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ERROR.encode())))
    assert [cause.label for cause in diagnose(discover(["-"])).causes] == ["gpu_oom"]


def test_an_error_in_the_middle_of_a_long_log_is_found_at_its_line(diagnosed):
    steps = "".join(f"step {at} loss 2.0 lr 1e-4 tokens/s 1234\n" for at in range(60_000))
    found = diagnosed({"job.log": steps + ERROR + "some other line\n" * 60_000})
    assert found.inputs[0].lines == 120_001
    assert [(one.label, one.evidence[0].line) for one in found.causes] == [("gpu_oom", 60_001)]


def test_a_fault_of_a_rule_is_said_and_the_inputs_are_named(diagnosed, monkeypatch):
    def broken(_reading):
        raise KeyError("x")

    monkeypatch.setattr("stepward.diagnose.engine.settle", broken)
    document = diagnosed({"job.log": ERROR})
    assert document.outcome == "unknown"
    assert [note.source for note in document.inputs] == ["job.log"]
    assert [one.why for one in document.unknown] == ["a rule failed on these inputs: KeyError"]
