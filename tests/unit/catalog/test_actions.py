"""The audit: written before the action, ended once, never forged by what is written into it; and who sees what."""

import pytest

from stepward.errors import Conflict, UsageError
from stepward.model.frames import Config
from stepward.store.catalog.actions import STEPWARD, Actions


@pytest.fixture
def actions(bench):
    return Actions(bench.database, bench.clock)


def test_an_action_is_there_before_it_is_done(actions):
    with actions.recorded(actor="ada", kind="cancel", cluster="lab", job="42", reason="why") as (id_, known):
        begun = actions.page(None).items[0]
        assert (begun.id, begun.outcome, begun.actor, begun.job) == (id_, "begun", "ada", "42")
        known["slurm_state"] = "RUNNING"
    done = actions.page(None).items[0]
    assert (done.outcome, done.data, done.reason) == ("done", {"slurm_state": "RUNNING"}, "why")


def test_how_it_failed_is_kept(actions):
    with pytest.raises(Conflict), actions.recorded(actor="a", kind="cancel"):
        raise Conflict("Slurm refused: no", code="slurm_refused")
    with pytest.raises(ZeroDivisionError), actions.recorded(actor="a", kind="drain", data={"kept": 1}):
        raise ZeroDivisionError
    failed, refused = actions.page(None).items
    assert (refused.outcome, refused.data) == ("refused", {"error": "Slurm refused: no", "code": "slurm_refused"})
    assert (failed.outcome, failed.data) == ("failed", {"kept": 1})


def test_hostile_values_are_kept_as_text(actions):
    deep = {"x": float("nan"), "y": {"z": ["\0" * 3]}}
    actions.begin(actor="a\0" + "b" * 5000, kind="k" * 900, reason="r" * 50_000, data=deep, outcome="done")
    found = actions.page(None).items[0]
    assert found.data["x"] == "NaN" and "\0" not in found.actor and len(found.kind) == 64
    assert len(found.reason) <= 20_000


def test_pages_are_in_order_and_filtered(actions, bench):
    ids = []
    for place in range(7):
        bench.now += 1_000_000
        ids.append(actions.begin(actor=STEPWARD, kind="drain", cluster="a" if place % 2 else "b", node=f"n{place}"))
    seen, cursor = [], None
    while True:
        page = actions.page(None, limit=3, cursor=cursor)
        seen += [one.id for one in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == sorted(ids, reverse=True) and set(seen) == set(ids)
    assert [one.node for one in actions.page(None, cluster="a").items] == ["n5", "n3", "n1"]
    assert [one.node for one in actions.page(None, node="n4").items] == ["n4"]
    assert actions.page(None, kind="reboot").items == []
    with pytest.raises(UsageError) as caught:
        actions.page(None, limit=0)
    assert caught.value.code == "bad_limit"


def test_who_sees_some_projects_sees_the_actions_on_their_runs(actions, bench):
    bench.writer("mine", "p").send(("config", Config(name="x")))
    bench.writer("theirs", "q").send(("config", Config(name="y")))
    mine = actions.begin(actor="a", kind="requeue", run=bench.run("mine", "p"))
    actions.begin(actor="a", kind="requeue", run=bench.run("theirs", "q"))
    actions.begin(actor="a", kind="drain", node="n1")
    assert [one.id for one in actions.page(["p"]).items] == [mine]
    assert len(actions.page(None).items) == 3


def test_a_job_leads_to_the_run_that_is_its_own(bench):
    job = {"system": "slurm", "cluster": "lab", "id": "7"}
    bench.writer("slurm:lab:7", "p").send(("config", Config(key="slurm:lab:7", name="watched")))
    bench.writer("slurm:lab:9_1", "p").send(("config", Config(key="slurm:lab:9_1", name="task")))
    asked = ["7", "9_1", "8", "7"]
    by_key = {"7": bench.run("slurm:lab:7", "p"), "9_1": bench.run("slurm:lab:9_1", "p")}
    assert bench.runs.of_jobs(None, "lab", asked) == by_key
    assert bench.runs.of_jobs(None, "other", asked) == bench.runs.of_jobs(["q"], "lab", asked) == {}
    # A run of another key that says it runs in that job has the better claim.
    bench.writer("named", "q").send(("config", Config(name="named", job=job)))
    assert bench.runs.of_jobs(None, "lab", asked)["7"] == bench.run("named", "q")
    assert bench.runs.of_jobs(["p"], "lab", asked) == by_key
    assert bench.runs.of_jobs(None, "lab", [str(n) for n in range(2000)]).keys() == {"7"}
