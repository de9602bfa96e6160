"""The arithmetic of steps and phases, on a clock that the test turns."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.model.words import Clock
from stepward.sdk import steps
from stepward.sdk.probes.cuda import MAX_WAITING, CudaClock
from stepward.sdk.steps import PhaseScope, Step, Timer, Waited


class Sink:
    def __init__(self):
        self.begun, self.rows, self.phases, self.events = [], [], [], []

    def step_begins(self, number):
        self.begun.append(number)

    def step_row(self, number, start_us, duration_s, columns, seconds):
        self.rows.append((number, start_us, duration_s, dict(zip(columns, seconds, strict=True))))

    def phase_is(self, name):
        self.phases.append(name)

    def phase_event(self, name, start_us, end_us):
        self.events.append((name, start_us, end_us))

    def seconds(self, row=-1):
        return {name: seconds for (name, _), seconds in self.rows[row][3].items()}


class Now:
    def __init__(self):
        self.seconds = 1000.0

    def sleep(self, seconds):
        self.seconds += seconds


@pytest.fixture
def now(monkeypatch):
    clock = Now()
    monkeypatch.setattr(steps, "perf_counter", lambda: clock.seconds)
    monkeypatch.setattr(steps, "time_ns", lambda: round(clock.seconds * 1e9))
    return clock


@pytest.fixture
def sink():
    return Sink()


@pytest.fixture
def timer(sink):
    return Timer(sink)


def test_nested_phases_count_for_themselves(now, timer, sink):
    with Step(timer, 7):
        now.sleep(1)
        with PhaseScope(timer, "backward"):
            now.sleep(2)
            with PhaseScope(timer, "collective"):
                now.sleep(3)
            now.sleep(4)
        with PhaseScope(timer, "backward"):
            now.sleep(5)
    assert sink.rows[0][:3] == (7, 1_000_000_000, 15.0)
    assert sink.seconds() == {"collective": 3.0, "backward": 11.0}
    assert sink.phases == ["backward", "collective", "backward", None, "backward", None]


def test_a_wait_for_data_belongs_to_the_step_that_follows(now, timer, sink):
    class Loader:
        batch_size = 4

        def __len__(self):
            return 2

        def __iter__(self):
            for item in "ab":
                now.sleep(0.5)
                yield item
            now.sleep(9)

    data = Waited(timer, Loader())
    assert (len(data), data.batch_size) == (2, 4)
    for number, _ in enumerate(data):
        with Step(timer, number):
            now.sleep(1)
    assert [row[2] for row in sink.rows] == [1.5, 1.5]
    assert sink.seconds() == {"data_wait": 0.5}
    assert sink.rows[0][1] == 1_000_000_000
    assert sink.events == []


def test_iterators_are_iterators_still(timer):
    data = Waited(timer, iter([1, 2, 3]))
    assert next(data) == 1
    assert list(data) == [2, 3]
    assert data.__length_hint__() == 0


def test_a_wait_inside_a_step_or_phase_belongs_there(now, timer, sink):
    with Step(timer, 0), PhaseScope(timer, "forward"):
        now.sleep(1)
        timer.passed("compile", 0.25)
    assert sink.seconds() == {"compile": 0.25, "forward": 0.75}
    with PhaseScope(timer, "evaluation"):
        timer.passed("data_wait", 5.0)
    with Step(timer, 1):
        now.sleep(1)
    assert sink.seconds() == {}


def test_phases_outside_of_steps_are_events_unless_they_are_short(now, timer, sink):
    with PhaseScope(timer, "restore"):
        now.sleep(2)
    with PhaseScope(timer, "blink"):
        now.sleep(0.001)
    timer.passed("compile", 3.0)
    assert sink.events == [
        ("restore", 1_000_000_000, 1_002_000_000),
        ("compile", 999_001_000, 1_002_001_000),
    ]


def test_a_step_that_fails_is_no_step(now, timer, sink):
    with pytest.raises(ValueError, match="x"), Step(timer, 0), PhaseScope(timer, "forward"):
        raise ValueError("x")
    assert (sink.begun, sink.rows) == ([0], [])
    with Step(timer, 1):
        now.sleep(1)
    assert sink.rows[0][0] == 1


def test_threads_have_steps_of_their_own(timer, sink):
    with Step(timer, 0):
        other = threading.Thread(target=lambda: Step(timer, 5).__enter__().__exit__(None, None, None))
        other.start()
        other.join()
        assert timer.open.step.number == 0
    assert [row[0] for row in sink.rows] == [5, 0]


TREES = st.recursive(
    st.floats(0, 10).map(lambda s: (s, [])),
    lambda inner: st.tuples(st.floats(0, 10), st.lists(st.tuples(st.sampled_from("abc"), inner), max_size=4)),
    max_leaves=12,
)


@given(TREES)
def test_self_times_add_up_to_the_step(tree):
    sink, clock = Sink(), Now()
    timer = Timer(sink)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "perf_counter", lambda: clock.seconds)

        def play(node):
            own, children = node
            clock.sleep(own)
            for name, child in children:
                with PhaseScope(timer, name):
                    play(child)

        with Step(timer, 0), PhaseScope(timer, "all"):
            play(tree)
    assert sum(sink.seconds().values()) == pytest.approx(sink.rows[0][2])
    assert all(seconds >= 0 for seconds in sink.seconds().values())


class FakeEvent:
    passed = set()

    def __init__(self, enable_timing):
        assert enable_timing
        self.at = None

    def record(self):
        FakeTorch.time += 10.0
        self.at = FakeTorch.time

    def query(self):
        return self.at in FakeEvent.passed

    def elapsed_time(self, other):
        return other.at - self.at


class FakeTorch:
    time = 0.0

    class cuda:
        Event = FakeEvent


def test_device_time_is_written_when_the_device_has_passed(now, timer, sink):
    clock = timer.device = CudaClock(FakeTorch)
    with Step(timer, 0), PhaseScope(timer, "forward"):
        now.sleep(1)
    assert sink.rows == []
    FakeEvent.passed = {FakeTorch.time}
    clock.settle()
    assert sink.rows[0][3] == {("forward", Clock.HOST): 1.0, ("forward", Clock.DEVICE): 0.01}


def test_a_device_that_never_answers_costs_its_column_not_the_row(timer, sink):
    clock = timer.device = CudaClock(FakeTorch)
    FakeEvent.passed = set()
    for number in range(MAX_WAITING + 2):
        with Step(timer, number), PhaseScope(timer, "forward"):
            pass
    assert [row[0] for row in sink.rows] == [0, 1]
    clock.settle(last=True)
    assert [row[0] for row in sink.rows] == list(range(MAX_WAITING + 2))
    assert set(sink.rows[-1][3]) == {("forward", Clock.HOST)}
