"""Clusters and operations are remembered whole, found by either name, held by one at a time, and run step by step."""

import contextlib
import itertools
import threading

import pytest

from stepward.clusters.changes import changes, refuse_impossible, removed_nodes
from stepward.clusters.fleet import Fleet
from stepward.clusters.naming import cluster_name, default_name
from stepward.clusters.operations import Operations
from stepward.clusters.patience import CALM_S, MOST_S, Patience
from stepward.clusters.providers.local import cgroups
from stepward.clusters.providers.local.ports import FIRST, LAST, all_of, chosen
from stepward.clusters.providers.protocol import Step
from stepward.clusters.reading import spec_of
from stepward.clusters.record import ClusterRecord, Records, write_atomically
from stepward.errors import Conflict, NotFound, StorageFull, Unavailable, UsageError
from stepward.model.clusters import Operation


@pytest.fixture
def records(tmp_path):
    return Records(str(tmp_path / "clusters"), str(tmp_path / "operations"))


def made(records, whole, name="lab"):
    record = ClusterRecord(name=name, slurm_name=f"{name}_x1y2z3", spec=spec_of(whole), created_at=5)
    with records.locked(name, make=True):
        records.put(record)
    return record


def test_a_cluster_is_found_by_both_its_names(records, whole):
    record = made(records, whole)
    assert records.names() == ["lab"]
    assert records.get("lab") == records.find("lab_x1y2z3") == record
    for unknown in ("nope", "lab_other1", "..", "", "a/b", "a\0b"):
        with pytest.raises(NotFound, match="no cluster"):
            records.find(unknown)


def test_a_damaged_record_is_said_and_left_as_it_is(records, whole, tmp_path):
    made(records, whole)
    path = tmp_path / "clusters/lab/cluster.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(Unavailable) as caught:
        records.get("lab")
    assert caught.value.code == "cluster_record_damaged" and path.exists()


def test_one_holds_a_cluster_at_a_time(records):
    with pytest.raises(NotFound), records.locked("lab"):
        pass
    assert records.names() == [], "to look makes no folder"
    with records.locked("lab", make=True), pytest.raises(Conflict) as caught, records.locked("lab"):
        pass
    assert caught.value.code == "cluster_busy"
    with records.locked("lab"):
        pass


def run(records, whole, steps, ended=None):
    record = made(records, whole)
    operations = Operations(records, lambda: 1_000_000)
    held = contextlib.ExitStack()
    held.enter_context(records.locked("lab"))

    def done(record):
        record.state = "ready"
        records.put(record)

    operation = operations.begin(record, "create", steps, held, actor="ada", done=done)
    return operations.wait(operation.id), records.get("lab")


def test_an_operation_does_its_steps_in_order_and_says_how_far_it_is(records, whole):
    seen = []

    def look():
        operation = records.operation(records.get("lab").operation)
        seen.append([step.state for step in operation.steps])

    operation, record = run(records, whole, [Step("a", "first", look), Step("b", "second", look)])
    assert seen == [["running", "pending"], ["done", "running"]]
    assert (operation.state, operation.actor, record.state) == ("done", "ada", "ready")
    assert all(step.seconds is not None for step in operation.steps)
    assert [one.id for one in records.operations()] == [operation.id]
    with records.locked("lab"):
        pass


def test_operations_that_no_cluster_knows_of_are_ended_at_the_next_start(records, whole, tmp_path):
    """A server was killed between remembering an operation and its cluster, or after the cluster's record was removed."""
    made(records, whole)
    for number, (cluster, kind) in enumerate([("lab", "update"), ("new", "create"), ("old", "delete")]):
        records.put_operation(Operation(id=f"op_{number}", cluster=cluster, kind=kind, started_at="then"))
    (tmp_path / "clusters/old").mkdir()
    (tmp_path / "clusters/old/lock").touch()
    fleet = Fleet(str(tmp_path), lambda: 1)
    assert fleet.resume() == []
    assert [one.state for one in records.operations()] == ["done", "interrupted", "interrupted"]
    assert not (tmp_path / "clusters/old").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError("no", code="because", hint="try"), "because"), (ZeroDivisionError("oh"), "internal_error")],
)
def test_a_step_that_fails_ends_the_operation_and_lets_the_cluster_go(records, whole, error, code):
    def fail():
        raise error

    after = threading.Event()
    operation, record = run(records, whole, [Step("a", "first", fail), Step("b", "second", after.set)])
    assert (operation.state, record.state, operation.error.code) == ("failed", "failed", code)
    assert [step.state for step in operation.steps] == ["failed", "pending"] and not after.is_set()
    with records.locked("lab"):
        pass


def test_an_operation_that_cannot_be_remembered_does_not_begin_and_lets_the_cluster_go(records, whole, tmp_path):
    record = made(records, whole)
    (tmp_path / "operations").write_text("no folder")
    held = contextlib.ExitStack()
    held.enter_context(records.locked("lab"))
    with pytest.raises((OSError, StorageFull)):
        Operations(records, lambda: 1).begin(record, "update", [], held, actor="", done=lambda _: None)
    with records.locked("lab"):
        pass


def test_a_write_that_fails_leaves_nothing_half_written(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(StorageFull):
        write_atomically(str(tmp_path / "taken"), b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]


def test_the_differences_of_two_specifications_are_told(whole):
    old = spec_of(whole)
    assert changes(old, old) == []
    whole["node_pools"][0].update(min_nodes=3, max_nodes=3)
    whole["node_pools"].append({"id": "new", "max_nodes": 2, "shape": {"cpus": 1, "memory_mb": 100}})
    whole["partitions"] = [{**whole["partitions"][0], "max_time": "1:00:00"}, {"id": "n", "node_pools": ["new"]}]
    whole["slurm"]["slurmd_timeout_s"] = 60
    whole["storage"] = []
    whole.update(project="llm", restarts={"policy": "infrastructure"})
    new = spec_of(whole)
    assert removed_nodes(old, new) == ["gpu-3"]
    lines = changes(old, new)
    for line in (
        "pool gpu: min_nodes 2 → 3, max_nodes 4 → 3",
        "add pool new (0 to 2 nodes)",
        "partition main: max_time 7-00:00:00 → 1:00:00",
        "remove partition all",
        "add partition n over new",
        "slurm: slurmd_timeout_s 30 → 60",
        "project: null → llm",
        "restarts: policy off → infrastructure",
        "switch on gpu-2",
        "remove gpu-3",
    ):
        assert line in lines
    assert any(line.startswith("storage: ") for line in lines)


def test_what_an_update_cannot_change_is_refused_by_path(whole):
    old = spec_of(whole)
    whole["controller"]["accounting"] = False
    whole["node_pools"][0]["shape"]["cpus"] = 2
    with pytest.raises(UsageError) as caught:
        refuse_impossible(old, spec_of(whole))
    assert [one["path"] for one in caught.value.context["problems"]] == [
        "controller.accounting",
        "node_pools[0].shape",
    ]


def test_ports_are_remembered_and_never_shared():
    first = chosen(None, ["a-0", "a-1"], taken=())
    again = chosen(first, ["a-1", "a-2"], taken=all_of(first))
    assert again.controller == first.controller and again.nodes["a-1"] == first.nodes["a-1"]
    assert list(again.nodes) == ["a-1", "a-2"]
    other = chosen(None, [f"b-{n}" for n in range(60)], taken=all_of(again))
    assert len(all_of(other)) == 64 and not all_of(other) & all_of(again)
    assert all(FIRST <= port <= LAST for port in all_of(other))


def test_what_ends_again_and_again_is_started_less_and_less():
    now = 0.0
    patience = Patience(lambda: now)
    starts = []
    for now in range(3000):
        if patience.may("watcher"):
            starts.append(now)
    waits = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert waits[:4] == [3, 6, 12, 24] and waits[-1] == MOST_S
    assert patience.may("other"), "each has its own patience"
    now = 3000 + 2 * CALM_S
    assert patience.may("watcher") and not patience.may("watcher")


@pytest.mark.parametrize("name", ["", "A", "1a", "a_b", "-a", "a" * 21, "host", "a.b", "a/b", "ä"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(UsageError) as caught:
        cluster_name(name)
    assert caught.value.code == "bad_cluster_name"


def test_a_display_name_becomes_a_name():
    assert cluster_name(default_name("My Lab, north wing 4!")) == "my-lab-north-wing-4"
    assert default_name("研究") == ""


def test_control_groups_of_one_cluster_are_made_and_removed_alone(tmp_path):
    root, links = tmp_path / "cgroup", tmp_path / "links"
    for controller in ("memory", "freezer"):
        (root / controller).mkdir(parents=True)
        (root / controller / "tasks").touch()
    assert cgroups.memory_limits(str(root)) and not cgroups.memory_limits(str(tmp_path))
    for name in ("a_1", "b_1"):
        cgroups.make(name, str(links / name), str(root))
        cgroups.make(name, str(links / name), str(root))
        (links / name / "memory" / "slurm_n-0/uid_0/job_1").mkdir(parents=True)
    assert cgroups.remove("a_1", str(root)) == []
    assert sorted(path.name for path in root.glob("*/stepward_*")) == ["stepward_b_1", "stepward_b_1"]
    (root / "memory/stepward_b_1/slurm_n-0/process").touch()
    assert cgroups.remove("b_1", str(root)) != [], "what still holds something is named"


def test_an_operation_waits_for_who_only_looks_and_not_for_another_operation(records, whole, tmp_path):
    record = made(records, whole)
    fleet = Fleet(str(tmp_path), lambda: 1)
    looking, seen = threading.Event(), threading.Event()

    def look():
        with fleet.records.locked("lab"):
            looking.set()
            seen.wait()

    thread = threading.Thread(target=look)
    thread.start()
    looking.wait()
    threading.Timer(0.2, seen.set).start()
    held = contextlib.ExitStack()
    fleet._hold("lab", held)
    thread.join()
    steps = [Step("a", "first", seen.wait)]
    seen.clear()
    operation = fleet.operations.begin(record, "update", steps, held, actor="ada", done=lambda _: None)
    with pytest.raises(Conflict), contextlib.ExitStack() as other:
        fleet._hold("lab", other)
    seen.set()
    assert fleet.operations.wait(operation.id).state == "done"
