"""Which fault a seed stands for, and that it strikes one rank, at its step, once."""

import signal
import threading
import time

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.demo import faults
from stepward.demo.faults import PLAN_VARIABLE, Kind, Ordeal, Plan
from stepward.demo.text import Batch


@given(st.integers(0, 1 << 32), st.sampled_from([(300, 40), (1000, 100), (60, 10)]))
def test_a_plan_strikes_after_the_first_checkpoint_and_leaves_steps_to_train(seed, size):
    steps, save_every = size
    plan = faults.plan(seed, steps=steps, save_every=save_every, ranks=2, by={})
    assert save_every < plan.step < 0.7 * steps
    assert plan.step % save_every not in (0, save_every - 1)
    assert plan.rank in (0, 1)
    assert plan == faults.plan(seed, steps=steps, save_every=save_every, ranks=2, by={})


def test_six_seeds_are_the_six_faults():
    kinds = [faults.plan(seed, steps=1000, save_every=100, ranks=2, by={}).kind for seed in range(6)]
    assert kinds == list(Kind)


@pytest.fixture
def arm(tmp_path, monkeypatch):
    def armed(kind, *, rank=1, step=5, by="signal", for_rank=1):
        path = tmp_path / "plan.json"
        path.write_bytes(msgspec.json.encode(Plan(kind, rank, step, by)))
        monkeypatch.setenv(PLAN_VARIABLE, str(path))
        return Ordeal(for_rank), str(path)

    return armed


@pytest.fixture
def sent(monkeypatch):
    signals = []
    monkeypatch.setattr("os.kill", lambda pid, number: signals.append(number))
    return signals


def live(ordeal, first=0, last=10):
    parameters = np.zeros(3, np.float32)
    for step in range(first, last):
        ordeal.before_step(step, parameters)
    return parameters


@pytest.mark.parametrize(("kind", "number"), [(Kind.KILLED, signal.SIGKILL), (Kind.STOPPED, signal.SIGSTOP)])
def test_a_signal_comes_once_and_is_written_down(arm, sent, kind, number):
    ordeal, path = arm(kind)
    live(ordeal)
    assert sent == [number]
    assert (faults.read_strike(path).step, faults.read_strike(path).rank) == (5, 1)
    live(Ordeal(1))
    assert sent == [number], "the next attempt is spared"


def test_other_ranks_are_spared(arm, sent):
    ordeal, path = arm(Kind.KILLED, for_rank=0)
    live(ordeal)
    assert sent == []
    assert faults.read_strike(path) is None


def test_without_a_plan_nothing_happens(monkeypatch, sent):
    monkeypatch.delenv(PLAN_VARIABLE, raising=False)
    live(Ordeal(1))
    assert sent == []


def test_nan_enters_one_weight_once(arm):
    ordeal, _ = arm(Kind.NAN)
    assert np.isnan(live(ordeal)).tolist() == [True, False, False]
    assert not np.isnan(live(ordeal)).any()


def test_a_slow_loader_ends_in_its_time_out(arm, monkeypatch):
    naps = []
    mine, sleep = threading.current_thread(), time.sleep
    # Only this thread's: others that live in the process go on sleeping for real.
    monkeypatch.setattr("time.sleep", lambda s: naps.append(s) if threading.current_thread() is mine else sleep(s))
    ordeal, path = arm(Kind.LOADER)
    empty = np.zeros((1, 1), np.int32)
    with pytest.raises(TimeoutError, match="no batch for step 40"):
        list(ordeal.batches(Batch(step, empty, empty) for step in range(60)))
    assert len(naps) == 35
    assert faults.read_strike(path).step == 5


def test_the_record_of_a_strike(arm, sent):
    ordeal, path = arm(Kind.KILLED)
    assert faults.read_record(path, 2) is None
    ordeal.begin(0)
    ordeal.after_step(4)
    live(ordeal)
    assert faults.read_record(path, 2).last_step == 4
    assert faults.read_record(path, 2).resumed_step is None
    Ordeal(1).begin(3)
    assert faults.read_record(path, 2).resumed_step == 3
