"""Output becomes hits: the same as if each line were read, each once, whatever pieces it came in."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepward.diagnose.lines import clean
from stepward.diagnose.matcher import Matcher
from stepward.diagnose.signatures import catalogue
from stepward.ingest.protocols import CommittedFrame
from stepward.model.frames import LogChunk, Logs, Source
from stepward.model.words import NODES_PROJECT, SourceKind
from stepward.observe.lines import MAX_HITS, LineReader, Place
from stepward.store.catalog.detected import Stay
from stepward.store.logs import LogStore

S = 1_000_000
T0 = 1_800_000_000 * S
KEYS = {1: "a"}
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."
FULL = "OSError: [Errno 28] No space left on device"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."
QUIET = ["step 12 loss 2.31", "", "epoch 3 done", "a\rb\rc", "x" * 300]


class Output:
    """The output of one rank, as its wrapper sends it."""

    def __init__(self, folder):
        self.store, self.at, self.frames = LogStore(str(folder)), 0, 0

    def write(self, text):
        data = text.encode()
        chunk = LogChunk("stdout", self.at, data, [(0, T0 + self.frames * S)])
        source = Source(kind=SourceKind.RANK, attempt="a", rank=3, node="n1")
        frame = CommittedFrame(
            project="p", run="r", writer="w", seq=self.frames, end=self.frames + 1, sent_at=0, received_at=0,
            source=source, payloads=[("logs", Logs([chunk]))], metrics=[],
        )  # fmt: skip
        self.store.apply([frame])
        self.at, self.frames = self.at + len(data), self.frames + 1

    def close(self):
        self.store.close()


@pytest.fixture
def output(tmp_path):
    made = Output(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def matcher():
    return Matcher(catalogue())


def hits(output, place, **how):
    return list(LineReader(output.store).hits("p", "r", place, KEYS, **how))


def test_a_line_is_told_once_with_its_place(output):
    place = Place()
    output.write(f"fine\n{OOM}\n")
    output.write("more\nand then ")
    found = hits(output, place)
    hit = next(hit for hit in found if hit.label == "gpu_oom")
    assert (hit.rank, hit.node, hit.line, hit.time, hit.attempt, hit.text) == (3, "n1", 2, T0, "a", OOM)
    assert {one.line for one in found} == {2} and hit.source.startswith("log:")
    assert hits(output, place) == []
    output.write(f"it failed\n{FULL}")
    assert hits(output, place) == []  # the line may still grow
    last = hits(output, place, to_the_end=True)
    assert {(hit.line, hit.time, hit.text) for hit in last} == {(5, T0 + 2 * S, FULL)}


def test_many_repeats_are_told_a_few_times(output):
    output.write("".join(f"{OOM} again {n}\n" for n in range(100)))
    assert {hit.line for hit in hits(output, Place(), to_the_end=True)} == set(range(1, MAX_HITS + 1))


def test_output_of_an_attempt_that_is_not_known_yet_waits(output):
    output.write(f"{OOM}\nend\n")
    place = Place()
    assert list(LineReader(output.store).hits("p", "r", place, {})) == []
    assert {hit.line for hit in hits(output, place)} == {1}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(
        st.sampled_from([OOM, FULL, XID, *QUIET, "\x1b[31mE\x1b[0m " + FULL, "Segmentation fault"]), max_size=40
    ),
    cuts=st.lists(st.integers(0, 3000), max_size=5),
    looks=st.integers(1, 3),
)
def test_it_finds_what_reading_each_line_finds(tmp_path_factory, matcher, lines, cuts, looks):
    output, place, found = Output(tmp_path_factory.mktemp("logs")), Place(), []
    try:
        text = "".join(f"{line}\n" for line in lines)
        edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
        for number, (begin, end) in enumerate(pairwise(edges)):
            output.write(text[begin:end])
            if number % looks == 0:
                found += hits(output, place)
        found += hits(output, place, to_the_end=True)
        seen = {}
        wanted = []
        for number, line in enumerate(text.split("\n")[:-1], 1):
            for signature in matcher.signatures(clean(line)):
                seen[signature.id] = seen.get(signature.id, 0) + 1
                if seen[signature.id] <= MAX_HITS:
                    wanted.append((number, signature.id))
        assert [(hit.line, hit.signature) for hit in found] == wanted
    finally:
        output.close()


def test_a_nodes_kernel_speaks_to_the_attempt_that_was_there_then(tmp_path):
    logs, at = LogStore(str(tmp_path)), 0
    lines = [f"{XID}\n"] * 30 + [
        "Out of memory: Killed process 7 (python) total-vm:1kB\n",
        f"{XID}\n",
        "fine\n",
        f"{XID}\n",
    ]
    for second, line in enumerate(lines):
        chunk = LogChunk("kernel", at, line.encode(), [(0, T0 + second * S)])
        source = Source(kind=SourceKind.AGENT, attempt="boot", node="n1")
        logs.apply(
            [
                CommittedFrame(
                    project=NODES_PROJECT, run="run_node", writer="w", seq=second, end=second + 1, sent_at=0,
                    received_at=0, source=source, payloads=[("logs", Logs([chunk]))], metrics=[],
                )
            ]
        )  # fmt: skip
        at += len(line)
    reader, place = LineReader(logs), Place()
    stay = Stay("r", "a", "n1", "run_node", T0 + 30 * S, T0 + 32 * S)
    found = list(reader.of_node(stay, place))
    assert {(hit.line, hit.time, hit.attempt, hit.rank, hit.node) for hit in found} == {
        (32, T0 + 31 * S, "a", None, "n1")
    }
    assert "host_oom" not in {hit.label for hit in found} and any(hit.label for hit in found)
    assert list(reader.of_node(stay, place)) == []
    assert {hit.line for hit in reader.of_node(stay._replace(attempt="b", ended_at=None), place)} == {32, 34}
    logs.close()
