"""Which newest values travel with a run in lists and live updates."""

import math

import pytest

from stepward.errors import UsageError
from stepward.store.catalog import Metrics
from stepward.store.catalog.newest import FEW

from .conftest import point


@pytest.fixture
def full(bench):
    many = [point(f"layer.{n}", 1, float(n)) for n in range(FEW + 30)]
    many += [point(name, 1, 0.5) for name in ("zloss", "loss", "Eval/Accuracy", "a_b", "axb", "50%")]
    bench.writer("many").send(metrics=[*many, *(point(f"system/{n}", 1, 1.0, system=True) for n in range(9))])
    bench.writer("few").send(metrics=[point("loss", 2, 0.25), point("system/cpu", 2, 9.0, system=True)])
    return bench


def shown(full, asked):
    page = full.runs.page(None, sort="started_at", metrics=Metrics.asked(asked)).items
    return {run.id: run for run in page}


def test_who_does_not_ask_gets_the_telling_few_and_a_count_of_the_rest(full):
    runs = shown(full, None)
    many, few = runs[full.run("many")], runs[full.run("few")]
    assert list(many.latest)[:4] == ["loss", "zloss", "50%", "Eval/Accuracy"] and len(many.latest) == FEW
    assert many.latest_left_out == FEW + 30 + 6 + 9 - FEW
    assert sorted(few.latest) == ["loss", "system/cpu"] and few.latest_left_out == 0


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (["loss"], {"loss"}),
        (["loss", "nowhere"], {"loss"}),
        (["*loss"], {"loss", "zloss"}),
        (["*LOSS"], set()),
        (["a_*"], {"a_b"}),
        (["*%"], {"50%"}),
        (["eval*"], set()),
        (["Eval*racy", "loss"], {"Eval/Accuracy", "loss"}),
        ([""], set()),
        (["LOSS"], set()),
    ],
)
def test_names_and_patterns_mean_what_they_say(full, asked, found):
    run = shown(full, asked)[full.run("many")]
    assert set(run.latest) == found
    assert len(run.latest) + run.latest_left_out == FEW + 30 + 6 + 9


def test_everything_is_everything(full):
    whole = full.get("many")
    assert len(whole.latest) == FEW + 30 + 6 + 9 and whole.latest_left_out == 0
    assert shown(full, ["*"])[whole.id] == whole == shown(full, ["x", "*"])[whole.id]
    (alone,) = full.runs.many([whole.id], Metrics.asked(["loss"]))
    assert set(alone.latest) == {"loss"}


def test_too_many_names_are_refused():
    with pytest.raises(UsageError) as caught:
        Metrics.asked([f"m{n}" for n in range(101)])
    assert caught.value.code == "too_many_metrics"


def test_negative_zero_keeps_its_sign(bench):
    bench.writer("run").send(metrics=[point("loss", 1, -0.0)])
    value = bench.get("run").latest["loss"].value
    assert value == 0.0 and math.copysign(1.0, value) == -1.0
