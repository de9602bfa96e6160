"""``log`` takes whatever people log, keeps every number as it is, and says once what is none."""

import decimal
import enum
import fractions
import math
import os
import struct
import threading
import time
from collections import OrderedDict

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.model.words import Clock
from stepward.sdk import recorder as recorder_module
from stepward.sdk import values as values_module
from stepward.sdk.recorder import Recorder
from stepward.sdk.values import Refused, as_float, take


class Memory:
    """A journal that keeps what it is given; equal in what it demands."""

    def __init__(self):
        self.dropped = 0
        self.defined, self.points, self.steps = [()], [], []

    def define(self, series):
        assert len(set(series)) == len(series) > 0
        self.defined.append(tuple(series))
        return len(self.defined) - 1

    def row(self, keyset, step, time_us, numbers, rounded=()):
        series = self.defined[keyset]
        packed = struct.unpack(f"<{len(series)}d", struct.pack(f"<{len(series)}d", *numbers))
        for index, ((metric, unit, device), number) in enumerate(zip(series, packed, strict=True)):
            assert unit == ""
            self.points.append((metric, device, step, number, index in rounded))
        return True

    def step_row(self, *row):
        self.steps.append(row)
        return True


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def recorder(memory):
    return Recorder(memory)


def kept(memory):
    return {(metric, device): number for metric, device, _, number, _ in memory.points}


class Level(enum.IntEnum):
    HIGH = 3


SCALARS = [
    (True, 1.0),
    (7, 7.0),
    (-0.0, -0.0),
    (1e308, 1e308),
    (float("inf"), float("inf")),
    (Level.HIGH, 3.0),
    (decimal.Decimal("0.1"), 0.1),
    (fractions.Fraction(1, 4), 0.25),
    (np.float64(2.5), 2.5),
    (np.float32(2.5), 2.5),
    (np.float16(2.5), 2.5),
    (np.longdouble(2.5), 2.5),
    (np.bool_(True), 1.0),
    *((np.dtype(f"{kind}{size}").type(5), 5.0) for kind in "iu" for size in (1, 2, 4, 8)),
    (ml_dtypes.bfloat16(1.5), 1.5),
    (ml_dtypes.float8_e4m3fn(1.5), 1.5),
    (ml_dtypes.int4(3), 3.0),
    (np.array(4), 4.0),
    (np.array([[4.5]]), 4.5),
    (np.array(1.5, dtype=ml_dtypes.bfloat16), 1.5),
    ([2.0], 2.0),
]


@pytest.mark.parametrize(("value", "number"), SCALARS, ids=lambda v: f"{type(v).__name__}-{v}")
def test_scalars_of_every_type(value, number, memory, recorder):
    recorder.log({"x": value}, 1, 2)
    recorder.log({"x": value}, 2, 2)
    for step, point in enumerate(memory.points, 1):
        assert point == ("x", None, step, number, False)
        assert math.copysign(1, point[3]) == math.copysign(1, number)
    assert len(memory.points) == 2
    assert recorder.refused == 0


@pytest.mark.parametrize("nan", [float("nan"), np.float32("nan"), decimal.Decimal("nan"), np.array(np.nan)])
def test_nan_is_kept(nan, memory, recorder):
    for step in range(2):
        recorder.log({"a": 1, "x": nan}, step, 0)
    assert [math.isnan(point[3]) for point in memory.points] == [False, True] * 2


VECTORS = [
    [1.0, 2, True],
    (1.0, np.float32(2), 1),
    np.array([1, 2, 1], dtype=np.uint8),
    np.array([1.0, 2.0, 1.0], dtype=np.float16),
    np.array([[1.0], [2.0], [1.0]])[:, 0],
    np.array([1, 2, 1], dtype=ml_dtypes.bfloat16),
    np.array([True, False, True]) + np.array([0, 2, 0]),
]


@pytest.mark.parametrize("value", VECTORS, ids=lambda v: f"{type(v).__name__}-{getattr(v, 'dtype', '')}")
def test_vectors_are_one_series_a_device(value, memory, recorder):
    recorder.log({"x": value, "y": 5.0}, 1, 2)
    assert kept(memory) == {("x", 0): 1.0, ("x", 1): 2.0, ("x", 2): 1.0, ("y", None): 5.0}


def test_masked_elements_are_missing_not_numbers(memory, recorder):
    recorder.log({"x": np.ma.array([1, 2], mask=[False, True])}, 1, 2)
    assert kept(memory)["x", 0] == 1.0
    assert math.isnan(kept(memory)["x", 1])


REFUSED = [
    "1.0",
    None,
    b"1",
    1j,
    object(),
    {1, 2},
    [],
    [1.0, "x"],
    [[1.0, 2.0]],
    np.array([]),
    np.zeros((2, 2)),
    np.zeros(4097),
    np.array([1j]),
    np.array("x"),
    np.array([object()]),
    np.complex64(1),
    np.datetime64("2020-01-01"),
    np.timedelta64(1, "s"),
    np.zeros(2, dtype=[("a", "f4")]),
    10**400,
    decimal.Decimal("sNaN"),
    fractions.Fraction(10**400),
    jax.random.key(0),
    jnp.zeros((2, 2)),
    jnp.array(1j),
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda v: type(v).__name__)
def test_what_is_no_number_is_counted_and_said_once(value, memory, recorder, capsys):
    for step in range(3):
        recorder.log({"x": value, "y": 1.0}, step, 0)
    assert [point[:3] for point in memory.points] == [("y", None, step) for step in range(3)]
    assert recorder.refused == 3
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, np.int64(2**63 - 1), np.uint64(2**64 - 1)])
def test_integers_that_a_float_does_not_hold_are_marked(number, memory, recorder):
    for step in range(2):
        recorder.log({"a": 1.0, "x": number, "b": 2}, step, 0)
    assert [point[4] for point in memory.points] == [False, True, False] * 2
    recorder.log({"x": [1, int(number)]}, 3, 0)
    assert [point[4] for point in memory.points[-2:]] == [False, True]


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**60, -(2**63)])
def test_integers_that_a_float_holds_are_not_marked(number, memory, recorder):
    for step in range(2):
        recorder.log({"x": number}, step, 0)
    assert [point[3:] for point in memory.points] == [(float(number), False)] * 2


@given(st.integers() | st.floats(allow_nan=False))
def test_the_mark_means_inexact(number):
    try:
        kept, inexact = as_float(number)
    except Refused:
        assert abs(number) > 1e308
    else:
        assert inexact == (kept != number)


def test_nested_dicts_are_flattened(memory, recorder):
    recorder.log({"loss": {"train": 1.0, "val": {"a": np.float32(2)}}, "n": OrderedDict(x=3), 7: 4.0}, 1, 2)
    assert kept(memory) == {("loss/train", None): 1, ("loss/val/a", None): 2, ("n/x", None): 3, ("7", None): 4}


def test_a_dict_that_holds_itself_ends(memory, recorder):
    loop = {"x": 1.0}
    loop["loop"] = loop
    recorder.log(loop, 1, 2)
    assert ("x", None) in kept(memory)
    assert recorder.refused == 1


def test_equal_names_are_one_series_and_the_last_wins(memory, recorder):
    recorder.log({"a": {"b": 1.0}, "a/b": 2.0}, 1, 2)
    assert memory.points == [("a/b", None, 1, 2.0, False)]


def test_the_same_keys_may_bring_other_types(memory, recorder):
    for value in (1.0, np.float32(2), 3, [4.0, 5.0], "six", {"seven": 7.0}, 8.0, None, 9.0):
        recorder.log({"x": value}, 0, 0)
    assert [(point[0], point[1], point[3]) for point in memory.points] == [
        ("x", None, 1.0),
        ("x", None, 2.0),
        ("x", None, 3.0),
        ("x", 0, 4.0),
        ("x", 1, 5.0),
        ("x/seven", None, 7.0),
        ("x", None, 8.0),
        ("x", None, 9.0),
    ]


@pytest.mark.parametrize("name", ["", "x" * 1025])
def test_names_that_no_frame_carries_are_refused(name, memory, recorder):
    recorder.log({name: 1.0, "y": 2.0}, 1, 2)
    assert kept(memory) == {("y", None): 2.0}
    assert recorder.refused == 1


@pytest.mark.parametrize("name", ["x" * 1000, "🦖", "a b/c.d", "é" * 1024])
def test_odd_names_are_kept(name, memory, recorder):
    for step in range(2):
        recorder.log({name: 1.0}, step, 2)
    assert [point[0] for point in memory.points] == [name, name]


def test_a_lone_surrogate_does_not_cost_the_row(memory, recorder):
    recorder.log({"a\ud800": 1.0}, 1, 2)
    assert kept(memory) == {("a?", None): 1.0}


def test_five_thousand_names(memory, recorder):
    values = {f"m{n}": float(n) for n in range(5000)}
    for step in range(2):
        recorder.log(values, step, 0)
    assert len(memory.points) == 10_000
    assert kept(memory) == {(name, None): number for name, number in values.items()}
    assert max(map(len, memory.defined)) <= 1024


def test_random_subsets_of_keys_do_not_grow_without_end(memory, recorder, monkeypatch):
    monkeypatch.setattr(recorder_module, "_MAX_KEYSETS", 10)
    names = [f"m{n}" for n in range(12)]
    for subset in range(1, 4096):
        recorder.log({name: 1.0 for bit, name in enumerate(names) if subset >> bit & 1}, subset, 0)
    assert len(memory.points) == sum(bin(subset).count("1") for subset in range(1, 4096))
    assert len(memory.defined) < 40


def test_names_made_of_numbers_end_somewhere(memory, recorder, monkeypatch, capsys):
    monkeypatch.setattr(recorder_module, "MAX_SERIES", 50)
    for n in range(100):
        recorder.log({f"step {n}": 1.0}, n, 0)
    assert len(memory.points) == 50
    assert recorder.refused == 50


def test_a_step_keeps_its_phases_and_clocks(memory, recorder):
    recorder.step(4, 17, 0.5, {"forward": 0.1, "backward": 0.2}, {"backward": Clock.DEVICE})
    assert memory.steps == [(4, 17, 0.5, [("forward", Clock.HOST), ("backward", Clock.DEVICE)], [0.1, 0.2])]


@pytest.mark.parametrize("broken", [None, 3, "x", [("a", 1.0)]])
def test_nothing_raises(broken, recorder):
    recorder.log(broken, 1, 2)
    recorder.step(1, 2, 3.0, broken)
    assert recorder.refused == 2


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int8", "int32", "uint32", "bool", "float8_e5m2"])
def test_jax_scalars_and_vectors(dtype, memory, recorder):
    recorder.log({"x": jnp.ones((), dtype), "v": jnp.ones(3, dtype), "one": jnp.ones(1, dtype)}, 1, 2)
    assert recorder.drain(30)
    assert kept(memory) == {("x", None): 1.0, **{("v", n): 1.0 for n in range(3)}, ("one", None): 1.0}


def test_a_traced_value_is_refused_in_words(recorder, capsys):
    jax.jit(lambda x: recorder.log({"x": x}, 1, 2) or x)(1.0)
    assert recorder.refused == 1
    assert "jax transformation" in capsys.readouterr().err


def test_a_deleted_jax_array_is_counted(recorder, capsys):
    array = jnp.ones(())
    array.delete()
    recorder.log({"x": array}, 1, 2)
    assert recorder.refused == 1
    assert "donated or deleted" in capsys.readouterr().err


class Slow:
    """A device value that arrives when it is told to."""

    def __init__(self):
        self.arrived, self.lost = False, False

    def ready(self):
        if self.lost:
            raise RuntimeError("device lost")
        return self.arrived

    def read(self):
        if self.lost:
            raise RuntimeError("device lost")
        return [1.0, 2.0]


@pytest.fixture
def slow(monkeypatch):
    monkeypatch.setitem(values_module._takers, Slow, lambda value: value)
    return Slow


def test_device_values_are_pending_until_they_arrive(slow, memory, recorder):
    first, second = slow(), slow()
    recorder.log({"x": first, "host": 1.0}, 1, 11)
    recorder.log({"x": second, "y": second}, 2, 12)
    assert memory.points == [("host", None, 1, 1.0, False)]
    assert recorder.pending == 3
    assert not recorder.drain(0)
    first.arrived = second.arrived = True
    assert recorder.drain(30)
    assert recorder.pending == 0
    assert [point[:4] for point in memory.points[1:]] == [
        ("x", 0, 1, 1.0),
        ("x", 1, 1, 2.0),
        ("x", 0, 2, 1.0),
        ("x", 1, 2, 2.0),
        ("y", 0, 2, 1.0),
        ("y", 1, 2, 2.0),
    ]


MIXED = [
    1.0,
    3,
    True,
    2**60 + 1,
    10**400,
    math.nan,
    np.float32(2),
    np.int64(7),
    np.array(4),
    [5.0, 6.0],
    "x",
    {"n": 8.0},
]


class Arrived:
    """A device value that has arrived on the host as a scalar, or waits to be read there."""

    def __init__(self, number, waits):
        self.number, self.waits = number, waits

    def ready(self):
        return True

    def read(self):
        return self.number


def mixed():
    device = st.builds(Arrived, st.sampled_from([1.5, 2, [3.5, 4.5]]), st.booleans())
    return st.lists(st.tuples(*[st.sampled_from(MIXED) | device] * 3), max_size=8)


@given(mixed())
def test_what_the_keys_brought_before_changes_nothing(rows):
    """A recorder that has seen the keys keeps the same points as one that has not, call by call."""
    values_module._takers[Arrived] = lambda value: value if value.waits else value.number
    experienced = Recorder(Memory())
    for step, row in enumerate(rows):
        values = dict(zip("abc", row, strict=True))
        fresh, known = Recorder(Memory()), len(experienced.journal.points)
        refused = experienced.refused
        for recorder in (fresh, experienced):
            recorder.log(values, step, 0)
            assert recorder.drain(30)
        assert sorted(map(repr, experienced.journal.points[known:])) == sorted(map(repr, fresh.journal.points))
        assert experienced.refused - refused == fresh.refused


def test_device_values_among_scalars_keep_their_steps(memory, recorder):
    for step in range(3):
        recorder.log({"loss": jnp.full((), step * 0.5), "a": 1.0, "n": jnp.array(step), "b": 2}, step, 0)
        assert recorder.drain(30)
    assert [point[0] for point in memory.points[-4:]] in (["loss", "a", "n", "b"], ["a", "b", "loss", "n"])
    assert [point[3] for point in memory.points if point[0] in ("loss", "n")] == [0.0, 0.0, 0.5, 1.0, 1.0, 2.0]
    assert len(memory.points) == 12


def test_the_background_thread_reads_without_being_asked(slow, memory, recorder):
    value = slow()
    recorder.log({"x": value}, 1, 11)
    value.arrived = True
    end = time.monotonic() + 30
    while recorder.pending and time.monotonic() < end:
        time.sleep(0.001)
    assert len(memory.points) == 2


def test_a_lost_device_is_counted_and_holds_nobody_up(slow, recorder, memory):
    lost, good = slow(), slow()
    recorder.log({"x": lost}, 1, 0)
    recorder.log({"y": good}, 2, 0)
    lost.lost = good.arrived = True
    assert recorder.drain(30)
    assert recorder.refused == 1
    assert {point[0] for point in memory.points} == {"y"}


def test_a_device_that_never_answers_has_a_limit(slow, recorder, monkeypatch):
    monkeypatch.setattr(recorder_module, "MAX_PENDING", 5)
    for step in range(8):
        recorder.log({"x": slow()}, step, 0)
    assert recorder.pending == 5
    assert recorder.refused == 3


def test_what_waits_stays_with_the_parent(slow, recorder):
    """In a forked child there is no thread and no device."""
    recorder.log({"x": slow()}, 1, 0)
    child = os.fork()
    if not child:
        os._exit(0 if recorder.pending == 0 and recorder.drain(0) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert recorder.pending == 1


def test_threads_log_together(memory, recorder):
    def log(thread):
        for step in range(200):
            recorder.log({f"t{thread}": float(step), "shared": 1, "v": [1.0, 2.0]}, step, 0)

    threads = [threading.Thread(target=log, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(memory.points) == 4 * 200 * 4
    assert recorder.refused == 0


def test_unknown_types_are_looked_at_once(monkeypatch):
    class Unknown:
        pass

    for _ in range(2):
        with pytest.raises(Refused):
            take(Unknown())
    assert Unknown in values_module._takers


@pytest.mark.parametrize("step", [2**63, -(2**63) - 1, 10**30])
def test_a_step_beyond_int64_is_refused_and_counted(recorder, memory, capfd, step):
    for _ in range(2):
        recorder.log({"loss": 0.5, "lr": 1.0}, step, 1)
        recorder.step(step, 1, 0.5, {"forward": 0.1})
    assert (recorder.refused, memory.points, memory.steps) == (6, [], [])
    assert capfd.readouterr().err.count("beyond 64 bits") == 3
    recorder.log({"loss": 0.5}, 2**63 - 1, 1)
    assert [point[2] for point in memory.points] == [2**63 - 1]
