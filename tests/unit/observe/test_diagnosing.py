"""When a diagnosis is made, and for what: over real stores, on a clock that tests set."""

import pytest
import sqlalchemy as sa

from stepward.detect.signals import Certainty, Detected
from stepward.errors import NotFound
from stepward.ingest.hearing import Hearing
from stepward.ingest.protocols import CommittedFrame
from stepward.model.frames import Config, LogChunk, Logs, Source
from stepward.model.points import Line
from stepward.model.states import Exit, Witness
from stepward.model.words import SourceKind
from stepward.observe.diagnosing import AGAIN_US, MOST_TOLD, SETTLE_US, Diagnosing
from stepward.observe.inputs import Gathering, _highest
from stepward.observe.observer import event_row
from stepward.store.catalog import CatalogApplier, open_database
from stepward.store.catalog.changes import Change
from stepward.store.catalog.detected import DetectedEvents, event_id
from stepward.store.catalog.diagnoses import Diagnoses
from stepward.store.catalog.nodes import Nodes
from stepward.store.catalog.schema import attempts
from stepward.store.logs import LogStore
from stepward.store.points.duckdb import DuckDBPoints
from stepward.testing.points_model import Sample
from stepward.testing.points_samples import store_samples

S = 1_000_000
T0 = 1_800_000_000 * S
RUN = "run_aaaaaaaaaaaaaaaaaaaaaaaaaa"
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


class Bench:
    """One run of two ranks, and the worker that diagnoses it, without its thread."""

    def __init__(self, folder):
        self.now, self.frames, self.ended, self.writers = T0, {}, [], 0
        self.database = open_database(f"{folder}/catalog.db")
        self.points, self.logs = DuckDBPoints(str(folder)), LogStore(str(folder))
        self.catalog = CatalogApplier(self.database, Hearing(T0 - S), self.heard, lambda *what: None)
        self.detected = DetectedEvents(self.database, lambda changes: None)
        nodes = Nodes(self.database, lambda changes: None, lambda *of: {})
        self.diagnoses = Diagnoses(self.database)
        gathering = Gathering(self.points, self.logs, self.detected, nodes)
        self.worker = Diagnosing(
            gathering, self.diagnoses, self.logs, lambda: self.now, ended=lambda known: self.ended.append(known.state)
        )

    def heard(self, changes):
        if hasattr(self, "worker"):
            self.worker.follow_changes(changes)

    def send(self, rank, kind, payload):
        seq = self.frames[rank] = self.frames.get(rank, -1) + 1
        frame = CommittedFrame(
            project="p", run=RUN, writer=f"w{rank}", seq=seq, end=seq + 1, sent_at=self.now, received_at=self.now,
            source=Source(kind=SourceKind.RANK, attempt="a", rank=rank, node=f"n{rank}"), payloads=[(kind, payload)],
            metrics=[],
        )  # fmt: skip
        for applier in (self.logs, self.catalog):
            applier.apply([frame])

    def begin(self):
        for rank in (0, 1):
            self.send(rank, "config", Config(started_at=self.now, ranks=2))

    def write(self, rank, text, start=0):
        self.send(rank, "logs", Logs([LogChunk("stdout", start, text.encode(), [(0, self.now)])]))

    def exit(self, rank, code):
        self.send(rank, "exit", Exit(at=self.now, by=Witness.REAPER, exit_code=code))

    def kill(self, rank, name):
        self.send(rank, "exit", Exit(at=self.now, by=Witness.REAPER, signal=name))

    def sample(self, metric, *values):
        """What a wrapper read, a second apart, the last one a second ago."""
        times = range(self.now - len(values) * S, self.now, S)
        self.writers += 1
        samples = [Sample(self.writers, None, None, 0, time, value) for time, value in zip(times, values, strict=True)]
        store_samples(self.points, RUN, metric, samples)

    def event(self, certainty=Certainty.CONFIRMED, **other):
        fields = {
            "id": "straggler/a/1", "type": "straggler", "detector": "straggler/1", "started_at": self.now,
            "detected_at": self.now, "attempt": "a", "ranks": (1,), "nodes": ("n1",), "title": "Rank 1 is slow",
        }  # fmt: skip
        event = Detected(**{**fields, "certainty": certainty, **other})
        self.detected.keep("p", RUN, [event_row(event)])
        self.worker.follow_events("p", RUN, [event])
        return event_id(event.id)

    def judged(self, **values):
        """The attempt as whoever judges leases leaves it."""
        with self.database.write() as connection:
            connection.execute(sa.update(attempts).values(values))
        self.worker.follow_changes([Change(project="p", run=RUN)])

    def look(self, after=SETTLE_US):
        self.now += after
        self.worker.look()

    def kept(self):
        return {kept.event: kept.made_at for kept in self.diagnoses.of_run(None, RUN)}

    def close(self):
        for part in (self.points, self.logs, self.database):
            part.close()


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    made.begin()
    yield made
    made.close()


def test_a_bad_end_is_diagnosed_by_itself_with_the_line_that_it_stands_in(bench):
    bench.write(1, f"step 1 loss 2.0\n{MEMORY}\n")
    bench.exit(1, 1)
    bench.exit(0, 1)
    bench.worker.look()
    assert bench.kept() == {}
    bench.look()
    assert list(bench.kept()) == [""] and bench.ended == ["failed"]
    made = bench.worker.make(RUN)
    (cause,) = made.document.causes
    (stream,) = bench.logs.streams("p", RUN, attempts={"a": 1})
    assert (cause.label, cause.suspects.ranks, cause.suspects.nodes) == ("gpu_oom", [1], ["n1"])
    assert [(one.stream, one.line, one.text) for one in cause.evidence] == [(stream.id, 2, MEMORY)]
    # The line has no clock: that of the read.
    assert cause.evidence[0].time == "2027-01-15T08:00:00.000000Z"


@pytest.mark.parametrize(
    ("counted", "used", "causes"),
    [
        ([0.0, 0.0], 20.0, []),
        ([0.0, 0.0], 95.0, ["host_oom"]),  # the kill may have come after the last reading
        ([0.0, 1.0], 20.0, ["host_oom"]),
        ([], 20.0, ["host_oom"]),
    ],
)
def test_a_killed_rank_ran_out_of_memory_only_where_counters_do_not_say_otherwise(bench, counted, used, causes):
    bench.now += 10 * S
    bench.sample("system/host/oom_kills", *counted)
    bench.sample("system/host/memory_used", used, used)
    bench.sample("system/host/memory_total", 100.0, 100.0)
    bench.kill(1, "SIGKILL")
    bench.exit(0, 1)
    bench.look()
    made = bench.worker.make(RUN).document
    assert [cause.label for cause in made.causes] == causes
    assert ("host_oom" in {one.label for one in made.ruled_out}) == (causes == [])


def test_who_saw_the_kill_for_memory_is_believed_before_any_counter(bench):
    bench.now += 10 * S
    bench.sample("system/host/oom_kills", 0.0, 0.0)
    bench.sample("system/host/memory_used", 20.0, 20.0)
    bench.sample("system/host/memory_total", 100.0, 100.0)
    bench.kill(1, "SIGKILL")
    bench.event(id="oom/a/1", type="oom", detector="oom/1", title="killed for memory", data={"reason": "cgroup"})
    bench.judged(state="oom", ended_at=bench.now)
    bench.look()
    document = bench.worker.make(RUN).document
    assert [cause.label for cause in document.causes] == ["host_oom"]
    assert "host_oom" not in {one.label for one in document.ruled_out}


def test_a_control_group_near_its_limit_may_have_killed(bench):
    bench.now += 10 * S
    bench.sample("system/host/oom_kills", 0.0, 0.0)
    bench.sample("system/host/memory_used", 20.0, 20.0)
    bench.sample("system/host/memory_total", 100.0, 100.0)
    bench.sample("system/cgroup/memory_used", 1.0, 9.0)
    bench.sample("system/cgroup/memory_limit", 10.0, 10.0)
    bench.kill(1, "SIGKILL")
    bench.exit(0, 1)
    bench.look()
    assert "host_oom" not in {one.label for one in bench.worker.make(RUN).document.ruled_out}


def test_memory_is_held_against_the_limit_of_its_own_node():
    def line(node, *values):
        return Line(node=node, max=list(values))

    assert _highest([line("b", 1.0, None, 3.0), line("a", 2.0), line("b", 2.0)]) == {"b": 3.0, "a": 2.0}


def test_a_good_end_and_a_suspicion_need_none(bench):
    for rank in (0, 1):
        bench.exit(rank, 0)
    bench.event(Certainty.SUSPECTED)
    bench.event(id="rule/a/1", type="rule")
    bench.look()
    assert bench.kept() == {}


def test_what_comes_together_is_made_together_and_each_can_be_asked_for(bench):
    first, second = bench.event(), bench.event(id="input_bound/a/1", type="input_bound", ranks=(), nodes=())
    bench.look()
    assert bench.kept() == {first: bench.now, second: bench.now}
    documents = [bench.diagnoses.newest(None, RUN, event).document for event in (first, second)]
    assert documents[0] == documents[1]
    with pytest.raises(NotFound) as refused:
        bench.diagnoses.newest(None, RUN, "det_other")
    assert refused.value.code == "no_diagnosis"


def test_it_is_made_again_while_evidence_grows_and_only_then(bench):
    event = bench.event()
    bench.look()
    made = bench.kept()[event]
    bench.look(AGAIN_US[0])
    assert bench.kept()[event] == made
    bench.write(0, "step 1 loss 2.0\n")
    bench.look(AGAIN_US[1])
    assert bench.kept()[event] == bench.now
    bench.write(0, "step 2 loss 2.0\n", start=16)
    bench.look(AGAIN_US[2])
    made = bench.kept()[event]
    bench.write(0, "step 3 loss 2.0\n", start=32)
    bench.look(10 * AGAIN_US[2])
    assert bench.kept()[event] == made


def test_an_event_that_flaps_is_not_followed_for_ever(bench):
    made = set()
    for _ in range(3 * MOST_TOLD):
        bench.now += S
        event = bench.event()
        bench.look()
        made.add(bench.kept()[event])
    assert len(made) == MOST_TOLD


def test_what_is_said_again_after_a_start_is_no_news(bench):
    event = bench.event()
    bench.look()
    made = bench.kept()[event]
    said = T0
    bench.worker = Diagnosing(bench.worker._gathering, bench.diagnoses, bench.logs, lambda: bench.now)
    bench.event(detected_at=said, started_at=said)
    bench.look()
    assert bench.kept()[event] == made


def test_an_attempt_that_comes_back_loses_its_diagnosis_and_keeps_those_of_its_events(bench):
    bench.judged(state="lost", ended_at=bench.now)
    bench.worker.look()
    bench.look()
    assert list(bench.kept()) == [""] and bench.ended == ["lost"]
    bench.judged(state="running", ended_at=None)
    event = bench.event()
    bench.look(AGAIN_US[0])
    bench.look()
    assert set(bench.kept()) == {event}


def test_there_is_nothing_to_say_of_a_run_without_an_attempt(bench):
    with pytest.raises(NotFound):
        bench.worker.make("run_bbbbbbbbbbbbbbbbbbbbbbbbbb")
