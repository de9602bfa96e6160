"""What restarts are decided by, as writers, a watcher, detectors and the diagnosis have told it."""

from stepward.model.frames import Config, Event, Events, Status
from stepward.model.states import Exit, State, Witness
from stepward.model.words import SourceKind
from stepward.store.catalog.detected import DetectedEvents, EventRow
from stepward.store.catalog.diagnoses import Diagnoses
from stepward.store.catalog.events import tell
from stepward.store.catalog.restarts import restart_facts

from .conftest import T0, S


def said(*payloads):
    return [(type(payload).__name__.lower(), payload) for payload in payloads]


def durable(step):
    return Events([Event(id=f"d{step}", type="checkpoint_durable", started_at=T0, step=step)])


def lost(*nodes):
    return Events([Event(id="f", type="node_failed", started_at=T0, data={"nodes": list(nodes)})])


def twice(bench, key="r"):
    """An attempt that is lost with its node, and the next."""
    rank = bench.writer(key, attempt="slurm.0/step.0")
    rank.send(*said(Config(started_at=T0), Status(at=T0, step=30), durable(10), durable(20)))
    watcher = bench.writer(key, attempt="slurm.0", kind=SourceKind.WATCHER, rank=None)
    gone = Exit(at=T0 + 9 * S, by=Witness.SCHEDULER, state=State.LOST, reason="node failed: n1", final=False)
    watcher.send(*said(Config(started_at=T0), lost("n1"), gone))
    bench.now += 20 * S
    bench.writer(key, attempt="slurm.1/step.0", node="n2").send(
        *said(Config(started_at=T0 + 20 * S), Status(at=bench.now, step=21))
    )


def test_attempts_with_what_they_saved_and_lost(bench):
    twice(bench)
    (facts,) = restart_facts(bench.database, [bench.run(), "run_gone"]).values()
    first, second = facts.attempts
    assert (first.number, first.state, first.last_step, first.saved, first.lost_nodes) == (
        1,
        State.LOST,
        30,
        20,
        ("n1",),
    )
    assert (second.number, second.state, second.saved, second.lost_nodes) == (2, State.RUNNING, None, ())
    assert facts.events == []


def test_a_run_with_one_attempt_is_not_asked_about_before_an_event_has_a_diagnosis(bench):
    bench.writer().send(*said(Config(started_at=T0), Status(at=T0, step=3)))
    assert restart_facts(bench.database, [bench.run()]) == {}
    event = EventRow("det_a", "hardware_fault", "hardware/1", "confirmed", "critical", "a1", 0, 3, T0, None, "", {})
    DetectedEvents(bench.database, bench.changes.extend).keep("p", bench.run(), [event])
    kept = {"made_at": T0, "version": 1, "document": b"{}"}
    Diagnoses(bench.database).keep(bench.run(), "a1", [""], **kept)
    assert restart_facts(bench.database, [bench.run()]) == {}
    Diagnoses(bench.database).keep(bench.run(), "a1", ["det_a"], **kept)
    (facts,) = restart_facts(bench.database, [bench.run()]).values()
    assert facts.events == [("det_a", 1, b"{}")]


def test_a_hang_counts_while_it_lasts_and_slowness_never(bench):
    twice(bench)
    hang = EventRow("det_h", "hang", "hang/1", "confirmed", "critical", "slurm.1/step.0", 0, 21, T0, None, "", {})
    events = [hang, hang._replace(id="det_o", ended_at=T0 + S), hang._replace(id="det_s", type="straggler")]
    DetectedEvents(bench.database, bench.changes.extend).keep("p", bench.run(), events)
    ids = [event.id for event in events]
    Diagnoses(bench.database).keep(bench.run(), "slurm.1/step.0", ids, made_at=T0, version=1, document=b"{}")
    (facts,) = restart_facts(bench.database, [bench.run()]).values()
    assert facts.events == [("det_h", 2, b"{}")]


def test_what_the_server_tells_is_an_event_of_the_newest_attempt(bench):
    twice(bench)
    held = Event(id="h", type="restart_stopped", started_at=T0, ended_at=T0, title="held")
    assert tell(bench.database, bench.changes.extend, bench.run(), held) == "p"
    assert bench.changes[-1].events[0].attempt == 2
    assert tell(bench.database, bench.changes.extend, "run_gone", held) is None
