"""Comparison, profile of ranks, newest points and numbers, over HTTP."""

import math

from stepward.model.frames import PhaseColumn
from stepward.testing.frames import steps_part

from .conftest import now, points


def test_runs_are_compared_and_ranks_profiled(server):
    for rank, value in enumerate((1.0, 5.0)):
        writer = server.writer("ranked", rank=rank, attempt="a").begin(name="ranked")
        writer.send(points([1, 2], loss=[value, value + 1]))
    server.writer("alone").begin(name="alone").send(points([2, 9], loss=[7.0, math.nan]))
    compared = server.get("/api/v1/compare?metric=loss&run=alone&run=ranked").json
    assert [(line["x"], line["max"]) for line in compared["lines"]] == [
        ([2.0, 9.0], [7.0, None]),
        ([1.0, 2.0], [5.0, 6.0]),
    ]
    profile = server.get("/api/v1/runs/ranked/ranks-profile?metric=loss").json
    assert (profile["step"], profile["p50"], profile["max"], profile["argmax"]) == (
        [1, 2],
        [1.0, 2.0],
        [5.0, 6.0],
        [1, 1],
    )
    tail = server.get("/api/v1/runs/alone/tail?metric=loss&last=1").json
    assert [(point["step"], point["value"]) for point in tail] == [(9, "NaN")]
    stats = server.get("/api/v1/runs/ranked/stats?metric=loss").json
    assert (stats["count"], stats["p50"], stats["max"], stats["last_step"]) == (4, 2.0, 6.0, 2)
    many = server.get("/api/v1/compare?metric=loss" + "&run=alone" * 101)
    assert (many.status, many.code) == (400, "too_many_runs")


def test_step_times_are_a_metric_of_the_run_table(server):
    import msgspec

    from stepward.model.frames import Steps

    for name, seconds in (("slow", 2.0), ("fast", 0.5)):
        part = steps_part([PhaseColumn("data_wait")], [1], [now()], [seconds], [[seconds / 2]])
        steps = msgspec.msgpack.decode(part.payload, type=Steps)
        server.writer(name, "steps").begin(name=name).send(("steps", steps))
    page = server.get("/api/v1/runs?project=steps&sort=metric.%22step/time%22").json["items"]
    assert [run["name"] for run in page] == ["fast", "slow"]
    (line,) = server.get("/api/v1/runs/slow/points?metric=step/data_wait").json["lines"]
    assert line["last"] == [1.0]
