"""Where an agent's words go: one journal after the other, and memory where the disk takes nothing."""

import os

import pytest

from stepward.agent import record as records
from stepward.agent.plan import Options, make_plan
from stepward.agent.record import NodeRecord
from stepward.collect.readings import Reading
from stepward.orchestrators.protocol import ProcFacts
from stepward.spool import roots, writers


@pytest.fixture
def plan(tmp_path):
    return make_plan(Options(node="n1"), {"SLURM_CONF": str(tmp_path / "none")}, ProcFacts(host="h", boot="b"))


def writers_of(root, run):
    return writers.folders(f"{root}/{run}")


def test_heartbeats_go_into_memory_where_the_disk_takes_nothing(plan, tmp_path):
    record = NodeRecord(plan, memory=str(tmp_path / "shm"), cap_bytes=0)
    record.beat()
    record.beat()
    memory = f"{tmp_path}/shm/stepward-{os.getuid()}"
    assert len(writers_of(memory, plan.run)) == 1
    meta = writers.read_meta(f"{memory}/{plan.run}/{writers_of(memory, plan.run)[0]}")
    assert (meta.run, meta.source.kind) == (plan.run, "agent")
    assert [writers.segments(f"{plan.root}/{plan.run}/{name}") for name in writers_of(plan.root, plan.run)] == [[]]
    record.finish()


def test_a_disk_that_takes_heartbeats_needs_no_memory(plan, tmp_path):
    record = NodeRecord(plan, memory=str(tmp_path / "shm"))
    record.beat()
    assert len(writers_of(plan.root, plan.run)) == 1
    assert not os.path.exists(f"{tmp_path}/shm")
    record.finish()


def test_names_of_series_do_not_gather_for_ever(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "MOST_SERIES", 10)
    record = NodeRecord(plan, memory=str(tmp_path / "shm"))
    for job in range(12):
        record.readings([Reading(f"system/job/{job}/cpu", "%", 1.0)], 1_000_000 * job)
    record.beat()
    record.kernel([(1_000_000, "a line"), (2_000_000, "another")])
    record.beat()
    found = [writers.read_meta(f"{plan.root}/{plan.run}/{name}") for name in writers_of(plan.root, plan.run)]
    assert sorted(meta.closed for meta in found) == [False, True]
    assert len({meta.source.attempt for meta in found}) == 1
    record.finish()


def test_the_spool_is_where_the_settings_say(plan):
    assert plan.root == roots.resolve(os.environ["STEPWARD_DIR"])
