"""What detectors confirmed weighs in a diagnosis, beside lines or without any."""

import pytest

from stepward.detect.signals import Certainty, Detected
from stepward.diagnose.engine import diagnose
from stepward.diagnose.sources import discover
from stepward.diagnose.standing import stands
from stepward.model.states import State

S = 1_000_000


def event(type_, certainty=Certainty.CONFIRMED, **other):
    return Detected(
        id=type_, type=type_, certainty=certainty, detector=f"{type_}/1", started_at=1_800_000_000 * S,
        detected_at=1_800_000_001 * S, attempt="a", title=f"seen: {type_}", **other,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "label"),
    [
        (event("input_bound"), "input_bound"),
        (event("non_finite"), "numerics_nan"),
        (event("recompilation_storm"), "recompilation"),
        (event("oom", data={"label": "gpu_oom"}), "gpu_oom"),
        (event("oom", data={"reason": "killed for memory by kernel or cgroup"}), "host_oom"),
        (event("hardware_fault", nodes=("n7",), data={"label": "network_link"}), "network_link"),
        (event("hang", ranks=(3,), data={"why": "is stopped", "sure": True}), "hang_in_user_code"),
        (event("hang", ranks=(3,), data={"why": "waits in another collective than the others", "sure": True}),
         "collective_desync"),
    ],
)  # fmt: skip
def test_an_event_alone_names_a_cause(seen, label):
    found = diagnose([], events=[seen])
    assert [cause.label for cause in found.causes] == [label]
    (evidence,) = found.causes[0].evidence
    assert (evidence.source, evidence.text) == (f"event {seen.id}", seen.title)
    assert evidence.time == "2027-01-15T08:00:00.000000Z"


@pytest.mark.parametrize("certainty", [Certainty.SUSPECTED, Certainty.WITHDRAWN])
def test_what_is_not_sure_says_nothing(certainty):
    found = diagnose([], events=[event("input_bound", certainty)])
    assert (found.outcome, found.causes) == ("unknown", [])


def test_ranks_that_stand_alike_accuse_nobody_and_the_run_is_hurt_all_the_same():
    found = diagnose([], events=[event("hang", data={"unknown": "no rank stands out"})])
    assert (found.outcome, found.causes) == ("degraded", [])


def test_the_rank_of_an_event_gets_its_node_from_who_knows_it():
    seen = event("hang", ranks=(3,), data={"why": "is stopped", "sure": True})
    (cause,) = diagnose([], events=[seen], places={2: "n1", 3: "n2"}).causes
    assert (cause.suspects.ranks, cause.suspects.nodes) == ([3], ["n2"])


def test_an_event_makes_a_cause_surer_and_its_own_line_does_not_count_twice(tmp_path):
    line = "step time 1.0 s, data time 0.9 s"
    memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    (tmp_path / "job.log").write_text(f"{line}\n{memory}\n")
    sources = lambda: discover([str(tmp_path / "job.log")])  # noqa: E731
    (alone,) = diagnose(sources()).causes
    same = event("oom", data={"label": "gpu_oom", "line": memory, "source": "job.log", "number": 2})
    other = event("memory_growth", data={"metric": "system/device/memory_used"})
    (told,) = diagnose(sources(), events=[same]).causes
    (surer,) = diagnose(sources(), events=[same, other]).causes
    assert told.confidence == alone.confidence < surer.confidence


@pytest.mark.parametrize(("state", "causes"), [(State.RUNNING, ["workload_imbalance"]), (State.CRASHED, [])])
def test_a_rank_that_is_slow_hurts_a_run_and_is_not_what_ended_it(state, causes):
    seen = event("straggler", ranks=(0,), severity="warning")
    exits = [] if state is State.RUNNING else [(1, 3)]
    found = diagnose([], events=[seen], exits=exits, scheduler=stands(state))
    assert [cause.label for cause in found.causes] == causes
