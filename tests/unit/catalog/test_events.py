"""Events: which are shown to whom, in pages that lose none, and what detectors replace and never touch."""

import pytest

from stepward.errors import NotFound, UsageError
from stepward.model.frames import Config, Event, Events, Status
from stepward.model.states import State
from stepward.model.words import NODES_PROJECT, SourceKind
from stepward.store.catalog.detected import DetectedEvents, EventRow, event_id
from stepward.store.catalog.events import EventFilter

from .conftest import T0, S


@pytest.fixture
def detected(bench):
    return DetectedEvents(bench.database, bench.changes.extend)


def status(at=T0):
    return "status", Status(at=at, step=1, progress_at=at)


def row(name, *, type="slowdown", certainty="confirmed", severity="warning", at=T0, ended=None, **more):
    data = {"ranks": [3], "nodes": ["n1"], "devices": [], "detected_at": at + S, "figures": {"value": 2.0}}
    return EventRow(
        event_id(name), type, f"{type}/1", certainty, severity, "a1", 3, 17, at, ended, more.get("title", "t"), data
    )


def a_run(bench, key="r", project="p"):
    bench.writer(key, project).send(("config", Config(name=key, started_at=T0)), status())
    return bench.run(key, project)


def shown(bench, projects=None, **asked):
    return [event.id for event in bench.events.page(projects, EventFilter(**asked)).items]


def test_a_detectors_event_tells_whom_it_is_about(bench, detected):
    run = a_run(bench)
    detected.keep("p", run, [row("x")])
    event = bench.events.one(None, run, event_id("x"))
    assert (event.detector, event.certainty, event.severity) == ("slowdown/1", "confirmed", "warning")
    assert (event.ranks, event.nodes, event.rank, event.step, event.attempt) == ([3], ["n1"], 3, 17, 1)
    assert (event.data, event.run, event.run_name, event.project) == ({"value": 2.0}, run, "r", "p")
    assert "/" not in event.id
    with pytest.raises(NotFound) as caught:
        bench.events.one(None, run, "det_nothing")
    assert caught.value.code == "no_such_event"
    with pytest.raises(NotFound):
        bench.events.one(["q"], run, event_id("x"))


def test_filters(bench, detected):
    run = a_run(bench)
    bench.writer().send(("events", Events([Event(id="w", type="checkpoint", started_at=T0 + 5 * S)])))
    open_, gone = row("open", type="hang", severity="critical"), row("gone", certainty="withdrawn")
    detected.keep("p", run, [open_, gone, row("old", ended=T0 + S), row("guess", certainty="suspected", at=T0 + 9 * S)])
    ids = {name: event_id(name) for name in ("open", "gone", "old", "guess")}

    def of_run(**asked):
        return {event.id for event in bench.events.of_run(None, run, EventFilter(**asked))}

    assert of_run() == {"w", ids["open"], ids["old"], ids["guess"]}
    assert of_run(certainties=["withdrawn"]) == {ids["gone"]}
    assert of_run(certainties=["confirmed"], severities=["critical"]) == {ids["open"]}
    assert of_run(types=["hang", "checkpoint"]) == {"w", ids["open"]}
    assert of_run(detected=False) == {"w"}
    # What began before and still lasts is of today.
    assert of_run(since_us=T0 + 3 * S) == {"w", ids["open"], ids["guess"]}


def test_pages_lose_nothing_and_show_only_what_one_may_see(bench, detected):
    mine, theirs = a_run(bench, "mine", "p"), a_run(bench, "theirs", "q")
    detected.keep("p", mine, [row(f"m{n}", at=T0 + n // 3 * S) for n in range(7)])
    detected.keep("q", theirs, [row(f"t{n}", at=T0 + n // 3 * S) for n in range(7)])
    whole = shown(bench)
    assert len(set(whole)) == 14
    cursor, seen = None, []
    while True:
        page = bench.events.page(None, EventFilter(), limit=3, cursor=cursor)
        seen += [event.id for event in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == whole
    starts = [event.started_at for event in bench.events.page(None, EventFilter()).items]
    assert starts == sorted(starts, reverse=True)
    assert {event.project for event in bench.events.page(["p"], EventFilter()).items} == {"p"}
    assert bench.events.page(None, EventFilter(), project="q", limit=1).items[0].run == theirs
    assert {event.run for event in bench.events.page(None, EventFilter(), run="mine").items} == {mine}
    for asked, code in (({"limit": 0}, "bad_limit"), ({"cursor": "x"}, "bad_cursor")):
        with pytest.raises(UsageError) as caught:
            bench.events.page(None, EventFilter(), **asked)
        assert caught.value.code == code


def test_a_replay_replaces_what_detectors_said_and_nothing_else(bench, detected):
    run = a_run(bench)
    bench.writer().send(("events", Events([Event(id="w", type="hang", started_at=T0, ended_at=T0)])))
    detected.keep("p", run, [row("a"), row("b")])
    bench.changes.clear()
    detected.keep("p", run, [row("b", title="better"), row("c")], only=True)
    assert set(detected.of(run)) == {event_id("b"), event_id("c")}
    assert {event.id for event in bench.events.of_run(None, run)} == {"w", event_id("b"), event_id("c")}
    # Who follows is told of what was taken away.
    (change,) = bench.changes
    told = {event.id: event.certainty for event in change.events}
    assert told == {event_id("a"): "withdrawn", event_id("b"): "confirmed", event_id("c"): "confirmed"}
    assert detected.keep("p", "run_gone", [row("a")]) == []


@pytest.mark.parametrize(
    ("certainty", "state"),
    [("suspected", State.RUNNING), ("confirmed", State.HUNG), ("withdrawn", State.RUNNING)],
)
def test_only_a_hang_that_is_confirmed_hangs_the_run(bench, detected, certainty, state):
    run = a_run(bench)
    detected.keep("p", run, [row("h", type="hang", certainty=certainty)])
    bench.edits.judge_live()
    assert bench.get().state is state
    detected.keep("p", run, [row("h", type="hang", certainty=certainty, ended=T0 + S)])
    bench.edits.judge_live()
    assert bench.get().state is State.RUNNING


def test_a_run_is_taken_up_again_until_it_is_settled(bench, detected):
    run = a_run(bench)
    assert [one.run for one in detected.unsettled()] == [run]
    detected.settle(run)
    assert [one.run for one in detected.unsettled()] == [run]  # it is live
    bench.now += 3600 * S
    bench.edits.judge_live()
    assert [one.run for one in detected.unsettled()] == []
    bench.writer().send(status(at=bench.now))
    assert [one.run for one in detected.unsettled()] == [run]


def test_where_an_attempt_was_is_known_of_nodes_with_one_agent(bench, detected):
    run = a_run(bench)
    bench.writer("node:lab:n1", NODES_PROJECT, kind=SourceKind.AGENT, attempt="boot").send(
        ("config", Config(name="n1", key="node:lab:n1")), status()
    )
    (stay,) = detected.stays([run])
    node_run = bench.run("node:lab:n1", NODES_PROJECT)
    assert (stay.run, stay.attempt, stay.node, stay.node_run, stay.ended_at) == (run, "a1", "n1", node_run, None)
    bench.writer("node:other:n1", NODES_PROJECT, kind=SourceKind.AGENT, attempt="boot").send(
        ("config", Config(name="n1", key="node:other:n1")), status()
    )
    assert detected.stays([run]) == []  # which of them it was, nobody says
