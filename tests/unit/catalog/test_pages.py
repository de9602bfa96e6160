"""Filters, orders and pages against a brute-force model in Python."""

import math

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stepward.errors import UsageError
from stepward.model.frames import Config

from .conftest import T0, Bench, S, point

RUNS = [
    # name, tags, lr, loss, state of the other columns
    ("alpha", ["a", "x"], 0.1, 1.0),
    ("beta", ["a"], 1, 2.0),
    ("gamma_1", [], "fast", math.nan),
    ("gamma%2", ["b"], None, None),
    ("delta", ["x"], True, math.inf),
    ("epsilon", [], math.nan, -math.inf),
    ("Zeta 🙂", ["größe"], 1e-9, 2.0),
]


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    bench = Bench(str(tmp_path_factory.mktemp("pages") / "catalog.db"))
    for number, (name, tags, lr, loss) in enumerate(RUNS):
        bench.now = T0 + number * S
        writer = bench.writer(name, project="p" if number % 2 else "q")
        metrics = [] if loss is None else [point("loss", number, loss), point("val/x.y", number, number)]
        user = {"optim": {"lr": lr}, "index": number}
        more = {"last_step": number, "last_time": bench.now} if metrics else {}
        config = Config(name=name, tags=tags, user=user, started_at=bench.now)
        writer.send(("config", config), metrics=metrics, **more)
    yield bench
    bench.database.close()


def names(bench, filter="", **more):
    return [run.name for run in bench.runs.page(None, filter=filter, sort="started_at", **more).items]


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ("", [0, 1, 2, 3, 4, 5, 6]),
        ("tag:a", [0, 1]),
        ("tag:a tag:x", [0]),
        ("tag:b OR tag:x", [0, 3, 4]),
        ("NOT tag:a", [2, 3, 4, 5, 6]),
        ("tag!=a", [2, 3, 4, 5, 6]),
        ("tag:größe", [6]),
        ("metric.loss < 2", [0, 5]),
        ("metric.loss <= 2", [0, 1, 5, 6]),
        ("metric.loss != 2", [0, 4, 5]),
        ("NOT metric.loss < 2", [1, 2, 3, 4, 6]),
        ("metric.loss > 1e300", [4]),
        ("metric.loss = inf", [4]),
        ("metric.loss:NaN", [2]),
        ("metric.loss = NaN", []),
        ("metric.loss != NaN", []),
        ("metric.loss:*", [0, 1, 2, 4, 5, 6]),
        ('metric."val/x.y" >= 5', [5, 6]),
        ("metric.absent < 1", []),
        ("config.optim.lr < 1", [0, 6]),
        ("config.optim.lr = 1", [1]),
        ("config.optim.lr != 1", [0, 2, 3, 4, 5, 6]),
        ("config.optim.lr = true", [4]),
        ("config.optim.lr = fast", [2]),
        ('config.optim.lr = "1"', [1]),
        ("config.optim.lr:AS", [2]),
        ("config.optim.lr:*", [0, 1, 2, 3, 4, 5, 6]),
        ("config.index >= 5", [5, 6]),
        ("name:GAMMA", [2, 3]),
        ('name:"%"', [3]),
        ('name:"_"', [2]),
        ("name = beta", [1]),
        ("alpha", [0]),
        ("🙂", [6]),
        ("project = p", [1, 3, 5]),
        ("state = starting", [3]),  # nothing but its configuration came
        ("NOT state = starting", [0, 1, 2, 4, 5, 6]),
        ("state != failed", [0, 1, 2, 3, 4, 5, 6]),
        ("started_at > 2027-01-15T08:00:04Z", [5, 6]),
        ("started_at <= 2027-01-15T09:00:01+01:00", [0, 1]),
        ("started_at > 2027-01-15", [0, 1, 2, 3, 4, 5, 6]),
        ("ended_at:*", []),
        ("NOT ended_at > 2020-01-01", [0, 1, 2, 3, 4, 5, 6]),
        ("step > 4", [5, 6]),
        ("kind = training", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_filter(full, filter, found):
    assert names(full, filter) == [RUNS[number][0] for number in found]


@pytest.mark.parametrize(
    ("filter", "position"),
    [
        ("state = runing", 8),
        ("kind:training AND kind = x", 25),
        ("metric.loss < abc", 14),
        ("step < abc", 7),
        ("step = NaN", 7),
        ("started_at > yesterday", 13),
    ],
)
def test_values_that_do_not_fit(full, filter, position):
    with pytest.raises(UsageError) as caught:
        names(full, filter)
    assert (caught.value.code, caught.value.context["position"]) == ("bad_filter", position)


def value(sort, run):
    name, _, lr, loss = run
    if sort == "metric.loss":
        return None if loss is None or math.isnan(loss) else loss
    if sort == "config.optim.lr":
        known = isinstance(lr, int | float) and not isinstance(lr, bool) and not math.isnan(lr)
        return lr if known else None
    return name


@given(
    st.sampled_from(
        ["name", "-name", "metric.loss", "-metric.loss", "config.optim.lr", "-config.optim.lr", "-ended_at"]
    ),
    st.integers(1, 8),
    st.sampled_from(["", "metric.loss:*", "NOT tag:a"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_pages_are_the_whole_in_order_and_nothing_twice(full, sort, limit, filter):
    whole = full.runs.page(None, filter=filter, sort=sort).items
    paged, cursor = [], None
    while True:
        page = full.runs.page(None, filter=filter, sort=sort, limit=limit, cursor=cursor)
        paged += page.items
        cursor = page.next
        if cursor is None:
            break
        assert len(page.items) == limit
    assert [run.id for run in paged] == [run.id for run in whole]
    assert page.total == len(whole) == len({run.id for run in whole})
    by_name = {run[0]: run for run in RUNS}
    values = [value(sort.lstrip("-"), by_name[run.name]) for run in whole] if "ended" not in sort else []
    present = [one for one in values if one is not None]
    assert values == present + [None] * (len(values) - len(present))
    assert present == sorted(present, reverse=sort.startswith("-"))


def test_a_cursor_belongs_to_its_order(full):
    cursor = full.runs.page(None, sort="name", limit=1).next
    with pytest.raises(UsageError, match="order"):
        full.runs.page(None, sort="-name", cursor=cursor)
    for bad in ("", "x", "e30", "W10"):
        with pytest.raises(UsageError, match="cursor"):
            full.runs.page(None, sort="name", cursor=bad)


def test_projects_bound_everything(full):
    assert full.runs.page(["p"]).total == 3
    assert full.runs.page([]).total == 0
    assert full.runs.page(None, project="q").total == 4
    assert [(project.name, project.runs) for project in full.retention.projects(["q", "z"])] == [("q", 4)]


def test_a_run_by_the_beginning_of_its_id(full):
    run = full.runs.get(None, "alpha")
    assert full.runs.get(None, run.id[:16]).id == run.id


@given(st.text(max_size=40))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
def test_any_filter_is_answered_or_refused(full, text):
    try:
        full.runs.page(None, filter=text)
    except UsageError as error:
        assert error.code == "bad_filter"
