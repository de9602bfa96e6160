"""Frames become runs, attempts, states and newest values: exactly once, in any order, whatever they say."""

import math

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stepward.model.frames import Config, Event, Events, Logs, Status
from stepward.model.states import Exit, State, Witness
from stepward.model.words import RunKind, SourceKind

from .conftest import T0, Bench, S, point


def status(at=T0, **more):
    return ("status", Status(at=at, **more))


def ended(code=0, at=T0, by=Witness.SDK, **more):
    return ("exit", Exit(at=at, by=by, exit_code=code, **more))


def config(**more):
    return ("config", Config(**more))


def test_a_run_appears_with_its_first_frame(bench):
    bench.writer().send(
        config(name="hello", kind=RunKind.RL, tags=["a"], ranks=8, key="job-1", started_at=T0 - 5), status(step=3)
    )
    run = bench.get()
    assert (run.name, run.kind, run.state, run.key, run.tags) == ("hello", "rl", "running", "job-1", ["a"])
    (attempt,) = run.attempts
    assert (attempt.number, attempt.ranks, attempt.nodes) == (1, 8, ["n1"])
    assert attempt.started_at == "2027-01-15T07:59:59.999995Z"
    assert run.step == attempt.last_step == 3


def test_a_frame_that_comes_again_changes_nothing(bench):
    writer = bench.writer()
    frames = [writer.send(status(step=n), metrics=[point("loss", n, n)], apply=False) for n in range(3)]
    bench.applier.apply(frames)
    before = msgspec.json.encode(bench.get())
    bench.changes.clear()
    bench.applier.apply(frames)
    bench.applier.apply(frames[1:])
    assert msgspec.json.encode(bench.get()) == before
    assert bench.changes == []
    assert bench.applier.applied("p") == {writer.id: 30}
    assert bench.applier.applied("q") == {}


def test_a_batch_is_all_or_nothing(bench, monkeypatch):
    frame = bench.writer().send(status(), apply=False)
    monkeypatch.setattr("stepward.store.catalog.applying.judge", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bench.applier.apply([frame])
    assert bench.applier.applied("p") == {}
    assert bench.runs.page(None).total == 0


def test_listeners_hear_after_the_commit_what_changed(bench):
    seen = []
    bench.applier._listener = lambda changes: seen.append((list(changes), bench.get().step))
    event = Event(id="e1", type="checkpoint", started_at=T0)
    bench.writer().send(
        ("events", Events([event])), ("logs", Logs([])), metrics=[point("loss", 5, 1.0)], last_step=5, last_time=T0
    )
    ((changes, step),) = seen
    (change,) = changes
    assert step == 5
    assert (change.metrics, change.step, change.logs) == ({"loss"}, 5, True)
    assert [event.id for event in change.events] == ["e1"]


# ── newest values and stitching ──


def test_newest_is_the_highest_step_then_the_lowest_rank_then_the_latest_time(bench):
    zero, one = bench.writer(rank=0), bench.writer(rank=1)
    one.send(metrics=[point("loss", 5, 1.1)])
    assert bench.get().latest["loss"].value == 1.1
    zero.send(metrics=[point("loss", 5, 0.5)])
    one.send(metrics=[point("loss", 5, 9.9, time=T0 + S)])
    assert bench.get().latest["loss"].value == 0.5
    zero.send(metrics=[point("loss", 4, 7.0)])
    assert bench.get().latest["loss"].step == 5
    zero.send(metrics=[point("loss", 5, 0.4, time=T0 + S)])
    assert bench.get().latest["loss"].value == 0.4


def test_values_that_are_not_finite_are_newest_values_too(bench):
    bench.writer().send(
        metrics=[point("a", 1, math.nan), point("b", 1, math.inf), point("c", 1, -math.inf), point("d", 1, 1e308)]
    )
    latest = bench.get().latest
    assert [latest[name].value for name in "abcd"] == ["NaN", "Infinity", "-Infinity", 1e308]


def test_a_sampled_metric_is_newest_by_time(bench):
    bench.writer().send(metrics=[point("system/host/cpu", 900, 1.0, time=T0, system=True)])
    bench.now += 60 * S
    bench.writer(attempt="a2").send(metrics=[point("system/host/cpu", 1, 2.0, time=T0 + 60 * S, system=True)])
    assert bench.get().latest["system/host/cpu"].value == 2.0


def test_an_attempt_that_resumes_lower_takes_over(bench):
    bench.writer().send(metrics=[point("loss", 100, 0.5, first=0), point("eval", 90, 0.9, first=90)])
    bench.now += 60 * S
    bench.writer(attempt="a2").send(metrics=[point("loss", 51, 0.7, first=50)])
    latest = bench.get().latest
    assert (latest["loss"].step, latest["loss"].value) == (51, 0.7)
    # What was logged beyond step 50 is abandoned: it is no newest value of anything.
    assert "eval" not in latest
    assert ("eval" in bench.abandoned[-1][1]) and bench.abandoned[-1][0] == bench.run()


def test_what_comes_late_of_an_abandoned_branch_stays_abandoned(bench):
    first = bench.writer()
    first.send(metrics=[point("loss", 10, 0.1)])
    bench.now += 60 * S
    bench.writer(attempt="a2").send(metrics=[point("loss", 50, 0.7)])
    first.send(metrics=[point("loss", 100, 0.2), point("early", 20, 1.0)])
    latest = bench.get().latest
    assert (latest["loss"].step, latest["early"].step) == (50, 20)


def test_attempts_are_numbered_in_start_order_not_in_order_of_arrival(bench):
    bench.writer(attempt="second").send(config(started_at=T0))
    bench.writer(attempt="first").send(config(started_at=T0 - 600 * S))
    run = bench.get()
    assert [(attempt.key, attempt.number) for attempt in run.attempts] == [("first", 1), ("second", 2)]
    assert run.started_at == run.attempts[0].started_at


def test_a_clock_an_hour_off_is_corrected(bench):
    for ahead in (3600 * S, -3600 * S):
        key = f"clock{ahead}"
        bench.writer(key).send(config(started_at=T0 + ahead - 10 * S), status(at=T0 + ahead), sent_at=T0 + ahead)
        run = bench.get(key)
        assert run.attempts[0].started_at == "2027-01-15T07:59:50.000000Z"
        assert run.state is State.RUNNING
        (source,) = bench.runs.sources(None, run.id)
        assert source.clock_offset_s == -ahead / S


# ── states ──


def test_states_follow_exits_and_silence(bench):
    writer = bench.writer()
    writer.send(status(step=1))
    assert bench.get().state is State.RUNNING
    bench.now += 13 * S
    assert bench.edits.judge_live() == 1
    assert (bench.get().state, bench.get().ended_at) == (State.LOST, "2027-01-15T08:00:00.000000Z")
    writer.send(status(at=bench.now, step=2))
    assert (bench.get().state, bench.get().ended_at) == (State.RUNNING, None)
    writer.send(ended(3, at=bench.now))
    run = bench.get()
    assert (run.state, run.attempts[0].exit_code) == (State.FAILED, 3)
    bench.now += 3600 * S
    assert bench.edits.judge_live() == 0


def test_the_spool_of_a_dead_run_brings_nobody_back_to_life(bench):
    writer = bench.writer()
    writer.send(status(step=1))
    bench.now += 3600 * S
    bench.edits.judge_live()
    # Sent an hour later by ``sync``: the send time is fresh, what it says is old.
    writer.send(status(at=T0 + 4 * S, step=2), metrics=[point("loss", 2, 1.0)], last_step=2, last_time=T0 + 4 * S)
    run = bench.get()
    assert (run.state, run.step) == (State.LOST, 2)
    writer.send(ended(1, at=T0 + 5 * S))
    assert bench.get().state is State.FAILED


def test_a_process_whose_heartbeats_wait_behind_its_output_is_not_lost(bench):
    writer = bench.writer(kind=SourceKind.WRAPPER)
    writer.send(status())
    for _ in range(5):
        bench.now += 8 * S
        writer.send(status(at=T0 + S), alive=True)
        bench.edits.judge_live()
        assert bench.get().state is State.RUNNING
    bench.now += 13 * S
    writer.send(status(at=T0 + 2 * S))
    bench.edits.judge_live()
    assert bench.get().state is State.LOST


def test_a_run_that_was_never_heard_live_arrives_with_its_end(bench):
    writer = bench.writer()
    writer.send(config(started_at=T0 - 7200 * S), status(at=T0 - 7000 * S))
    assert bench.get().state is State.LOST
    writer.send(ended(0, at=T0 - 6000 * S))
    run = bench.get()
    assert (run.state, run.ended_at) == (State.FINISHED, "2027-01-15T06:20:00.000000Z")


def test_a_stopped_rank_hangs_the_run_and_comes_back(bench):
    rank, wrapper = bench.writer(), bench.writer(kind=SourceKind.WRAPPER)
    rank.send(status())
    wrapper.send(status(alive=[0]))
    assert bench.get().state is State.RUNNING
    wrapper.send(status(at=T0 + 1, stopped=[0]))
    assert (bench.get().state, bench.get().state_reason) == (State.HUNG, "rank 0 stopped (process state T)")
    wrapper.send(status(at=T0 + 2, alive=[0]))
    assert bench.get().state is State.RUNNING


def test_an_older_heartbeat_changes_nothing(bench):
    writer = bench.writer()
    writer.send(status(at=T0, phase="forward", dropped=5))
    writer.send(status(at=T0 - S, phase="init"))
    (source,) = bench.runs.sources(None, bench.run())
    assert source.phase == "forward" and bench.get().dropped == 5


def test_a_wrapper_that_announces_is_waited_for(bench):
    wrapper = bench.writer(kind=SourceKind.WRAPPER)
    wrapper.send(status(alive=[0]))
    wrapper.send(
        ended(None, by=Witness.REAPER, signal="SIGKILL", final=False, tail=["last words"]),
        status(next_attempt="a2"),
    )
    run = bench.get()
    assert (run.state, run.attempts[0].state, run.attempts[0].signal) == ("waiting", "crashed", "SIGKILL")
    assert bench.runs.sources(None, run.id)[0].tail == ["last words"]
    bench.now += S
    bench.writer(attempt="a2").send(status(at=bench.now))
    assert [attempt.state for attempt in bench.get().attempts] == ["crashed", "running"]
    assert bench.get().state is State.RUNNING


def test_an_open_hang_event_hangs_until_it_is_closed(bench):
    writer = bench.writer()
    writer.send(status(), ("events", Events([Event(id="h", type="hang", started_at=T0, title="no step")])))
    assert bench.get().state is State.HUNG
    writer.send(("events", Events([Event(id="h", type="hang", started_at=T0, ended_at=T0 + 1)])))
    assert bench.get().state is State.RUNNING
    (event,) = bench.events.of_run(None, bench.run())
    assert (event.id, event.attempt, event.rank) == ("h", 1, 0)


# ── configuration, tags, counters ──


def test_configuration_is_merged_key_by_key(bench):
    bench.writer().send(config(user={"optim": {"lr": 0.1, "name": "adam"}, "x": 1}, system={"gpus": 8}))
    bench.writer(rank=1).send(config(user={"optim": {"lr": math.inf}, "y": [1, 2]}, job={"id": "42"}))
    found = bench.runs.config(None, bench.run())
    assert found.user == {"optim": {"lr": "Infinity", "name": "adam"}, "x": 1, "y": [1, 2]}
    assert found.system == {"gpus": 8, "job": {"id": "42"}}


def test_what_people_changed_stays_changed(bench):
    writer = bench.writer()
    writer.send(config(name="a", tags=["x"]))
    bench.edits.change(None, bench.run(), msgspec.json.decode(b'{"name":"mine","tags":["y"]}', type=_change()))
    writer.send(config(name="b", tags=["z"]))
    assert (bench.get().name, bench.get().tags) == ("mine", ["y"])


def _change():
    from stepward.model.resources import RunChange

    return RunChange


def test_counters_are_sums_over_sources(bench):
    for rank in range(3):
        bench.writer(rank=rank).send(status(pending=1, dropped=2, gaps=3))
    run = bench.get()
    assert (run.pending, run.dropped, run.gaps, run.attempts[0].ranks) == (3, 6, 9, 3)


def test_a_run_of_another_project_is_not_touched(bench):
    bench.writer().send(config(name="mine"))
    other = bench.writer(project="q")
    other.run = bench.run()
    other.send(config(name="theirs"))
    assert (bench.get().name, bench.get().project) == ("mine", "p")
    assert bench.applier.applied("q") == {other.id: 10}


def test_a_deleted_run_is_gone_and_its_writers_are_known_as_dead(bench):
    writer = bench.writer()
    writer.send(config(name="a", user={"x": 1}, tags=["t"]), metrics=[point("loss", 1, 1.0)])
    bench.edits.delete(bench.runs.head(None, bench.run()))
    assert bench.runs.page(None).total == 0
    assert bench.runs.deleted("p", writer.id) and not bench.runs.deleted("p", "other")
    assert bench.changes[-1].removed
    writer.send(config(name="a late frame"))
    assert bench.runs.page(None).total == 0 and writer.id not in bench.applier.applied("p")
    bench.writer().send(config(name="again"))
    assert bench.get().name == "again"


# ── whatever a writer says ──

_wild_text = st.text(max_size=30) | st.just("x" * 5000) | st.just("\0") | st.just("🙂" * 2000)
_wild_int = st.integers(-(1 << 63), (1 << 64) - 1)
_wild_tree = st.recursive(
    st.none() | st.booleans() | _wild_int | st.floats() | _wild_text | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_wild_text | _wild_int, inner, max_size=3),
    max_leaves=8,
)
_wild_payload = st.one_of(
    st.builds(
        Status,
        at=_wild_int,
        step=st.none() | _wild_int,
        phase=st.none() | _wild_text,
        pending=_wild_int,
        dropped=_wild_int,
        gaps=_wild_int,
        stopped=st.lists(_wild_int, max_size=2),
        alive=st.lists(_wild_int, max_size=2),
        next_attempt=st.none() | _wild_text,
    ).map(lambda payload: ("status", payload)),
    st.builds(
        Config,
        name=st.none() | _wild_text,
        key=st.none() | _wild_text,
        tags=st.none() | st.lists(_wild_text, max_size=3),
        user=st.none() | st.dictionaries(_wild_text, _wild_tree, max_size=3),
        job=st.none() | st.dictionaries(_wild_text, _wild_tree, max_size=2),
        ranks=st.none() | _wild_int,
        started_at=st.none() | _wild_int,
    ).map(lambda payload: ("config", payload)),
    st.builds(
        Exit,
        at=_wild_int,
        by=st.sampled_from(Witness),
        exit_code=st.none() | _wild_int,
        signal=st.none() | _wild_text,
        exception=st.none() | _wild_text,
        rank=st.none() | _wild_int,
        state=st.none() | st.sampled_from(State),
        tail=st.lists(_wild_text, max_size=3),
    ).map(lambda payload: ("exit", payload)),
    st.builds(
        Event,
        id=_wild_text,
        type=_wild_text,
        started_at=_wild_int,
        ended_at=st.none() | _wild_int,
        step=st.none() | _wild_int,
        rank=st.none() | _wild_int,
        title=_wild_text,
        data=st.dictionaries(_wild_text, _wild_tree, max_size=2),
    ).map(lambda event: ("events", Events([event]))),
)


@given(
    st.lists(st.tuples(st.lists(_wild_payload, max_size=3), _wild_int, _wild_text), min_size=1, max_size=4), st.data()
)
@settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking opens a database each time
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
def test_no_content_of_a_frame_makes_its_application_fail(tmp_path_factory, frames, data):
    bench = Bench(str(tmp_path_factory.mktemp("wild") / "catalog.db"))
    try:
        for payloads, sent_at, attempt in frames:
            writer = bench.writer(attempt=attempt, kind=data.draw(st.sampled_from(SourceKind)))
            writer.send(
                *payloads, sent_at=sent_at, last_step=data.draw(st.none() | st.integers(-(1 << 63), (1 << 63) - 1))
            )
        run = bench.get()
        msgspec.json.encode([run, bench.runs.sources(None, run.id), bench.runs.config(None, run.id)])
        msgspec.json.encode([bench.events.of_run(None, run.id), bench.runs.page(None)])
        bench.edits.judge_live()
    finally:
        bench.database.close()


def test_an_id_means_its_run_whatever_others_are_called(bench):
    plain, namesake = bench.writer("r1"), bench.writer("r2")
    plain.run = "a"
    plain.send(status())
    namesake.send(config(name="a"), status())
    assert bench.runs.get(None, "a").id == "a"
