"""What a project no longer keeps: ended runs that are older than its retention, never a living one."""

import pytest

from stepward.errors import NotFound, UsageError
from stepward.model.frames import Config, Status
from stepward.model.resources import ProjectChange
from stepward.model.states import Exit, Witness

from .conftest import T0, S

DAY = 86_400 * S


def ended(bench, key, at, project="p"):
    writer = bench.writer(key, project)
    writer.send(("config", Config(started_at=at - 10 * S)), sent_at=at, received_at=at)
    writer.send(("exit", Exit(by=Witness.SDK, at=at, exit_code=0)), sent_at=at, received_at=at)
    return writer


@pytest.fixture
def full(bench):
    ended(bench, "old", T0 - 3 * DAY)
    ended(bench, "older", T0 - 4 * DAY)
    ended(bench, "young", T0 - DAY // 2)
    ended(bench, "elsewhere", T0 - 9 * DAY, "q")
    bench.writer("living").send(("status", Status(at=T0, step=1)))
    return bench


def test_what_has_ended_longer_ago_expires_and_nothing_else(full):
    assert full.retention.expired(10) == []
    told = full.retention.change("p", ProjectChange(retention_s=86_400.0), dry_run=True)
    assert (told.retention_s, told.expired, told.runs, told.live) == (86_400.0, 2, 4, 1)
    assert full.retention.expired(10) == [] and full.retention.get("p").retention_s is None
    assert full.retention.change("p", ProjectChange(retention_s=86_400.0)).expired == 2
    assert full.retention.expired(10) == [full.run("older"), full.run("old")]
    assert full.retention.expired(1) == [full.run("older")]
    full.now += DAY
    assert full.run("young") in full.retention.expired(10)
    full.retention.change("p", ProjectChange())
    assert full.retention.get("p").retention_s == 86_400.0
    full.retention.change("p", ProjectChange(retention_s=None))
    assert full.retention.expired(10) == []


def test_new_frames_leave_the_retention_alone(full):
    full.retention.change("p", ProjectChange(retention_s=3600.0))
    full.writer("new").send(("status", Status(at=T0, step=1)))
    assert full.retention.get("p").retention_s == 3600.0


def test_a_run_that_came_back_is_not_deleted(full):
    full.retention.change("p", ProjectChange(retention_s=86_400.0))
    head = full.runs.head(None, full.run("old"))
    full.writer("old", attempt="a2").send(("status", Status(at=T0, step=1)))
    assert not full.edits.delete(head, full.retention.over)
    assert full.get("old").state == "running"
    assert full.edits.delete(full.runs.head(None, full.run("older")), full.retention.over)
    with pytest.raises(NotFound):
        full.get("older")


@pytest.mark.parametrize("seconds", [0.0, -5.0, 59.0, 1e11, float("nan"), float("inf")])
def test_a_retention_that_makes_no_sense_is_refused(full, seconds):
    with pytest.raises(UsageError) as caught:
        full.retention.change("p", ProjectChange(retention_s=seconds))
    assert caught.value.code == "bad_retention" and full.retention.get("p").retention_s is None


def test_the_default_project_exists_before_its_first_run(bench):
    with pytest.raises(NotFound):
        bench.retention.change("nowhere", ProjectChange(retention_s=3600.0))
    assert bench.retention.change("default", ProjectChange(retention_s=3600.0)).retention_s == 3600.0
    assert [project.name for project in bench.retention.projects(None)] == ["default"]
