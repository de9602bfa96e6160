"""Newest values that were abandoned come back from the points, whatever happens meanwhile."""

import pytest

from stepward.errors import Unavailable
from stepward.store.catalog import Mending, Survivor

from .conftest import point


class Bench:
    """A run whose second attempt began at step 50, and what the points say of it."""

    def __init__(self, bench):
        self.bench = bench
        bench.writer(attempt="a1").send(metrics=[point("loss", 99, 9.0, first=0), point("eval", 90, 9.0, first=0)])
        bench.now += 1
        bench.writer(attempt="a2").send(metrics=[point("loss", 50, 5.0)])
        self.meanwhile = lambda: None
        self.mending = Mending(bench.database, bench.runs, self.survivor, bench.changes.extend)
        self.mending.note(bench.run(), ["eval"])

    def survivor(self, head, metric):
        assert metric == "eval"
        attempts = len(head.attempts)
        self.meanwhile()
        step = {2: 40, 3: 20}[attempts]
        return Survivor(step=step, time=0, value=float(step), rank=None, attempt="a1")

    @property
    def eval(self):
        found = self.bench.get().latest.get("eval")
        return found and (found.step, found.value)


@pytest.fixture
def cut(bench):
    return Bench(bench)


def test_the_newest_survivor_comes_back_and_is_told(cut):
    assert cut.eval is None
    cut.bench.changes.clear()
    assert (cut.mending.mend(), cut.mending.mend()) == (1, 0)
    assert cut.eval == (40, 40.0)
    assert [change.run for change in cut.bench.changes] == [cut.bench.run()]


def test_what_cannot_be_read_now_is_read_later(cut):
    def away():
        raise Unavailable("away", code="store_failed")

    cut.meanwhile = away
    with pytest.raises(Unavailable):
        cut.mending.mend()
    cut.meanwhile = lambda: None
    assert cut.mending.mend() == 1
    assert cut.eval == (40, 40.0)


def test_a_third_attempt_that_begins_meanwhile_abandons_what_was_read(cut):
    def restart():
        cut.meanwhile = lambda: None
        cut.bench.now += 1
        cut.bench.writer(attempt="a3").send(metrics=[point("loss", 30, 3.0)])

    cut.meanwhile = restart
    cut.mending.mend()
    assert cut.eval is None
    cut.mending.mend()
    assert cut.eval == (20, 20.0)


def test_a_run_that_is_deleted_meanwhile_stays_deleted(cut):
    cut.meanwhile = lambda: cut.bench.edits.delete(cut.bench.runs.head(None, cut.bench.run()))
    cut.mending.mend()
    assert cut.mending.mend() == 0
    cut.bench.writer(attempt="a9").send(metrics=[point("loss", 1, 1.0)])
    assert "eval" not in cut.bench.get().latest
