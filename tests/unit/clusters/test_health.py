"""Which silent nodes are taken down, which are given back, and when nobody is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.clusters.health import BLAST_NODES, BLAST_SHARE, PREFIX, NodeView, decide, most_down
from stepward.orchestrators.slurm.records import SlurmNode

OURS = f"{PREFIX}lost-1"
BASES = ("IDLE", "ALLOCATED", "MIXED", "DOWN", "ERROR", "FUTURE", "UNKNOWN")
FLAGS = ("DRAIN", "FAIL", "NOT_RESPONDING", "MAINTENANCE", "POWERED_DOWN", "POWERING_UP", "REBOOT_ISSUED", "CLOUD")


def node(name="n1", base="IDLE", flags=(), reason="", heard="live", silence_s=0.0, answers=None):
    slurm = SlurmNode(name=name, base=base, flags=frozenset(flags), reason=reason)
    return NodeView(slurm=slurm, heard=heard, silence_s=silence_s, event=f"lost-{name}", answers=answers)


def lost(name="n1", **more):
    return node(name, **{"heard": "lost", "silence_s": 13.0, "answers": False, **more})


def healthy(*names):
    return [node(name) for name in names]


def done(nodes):
    return {(decision.kind, decision.node) for decision in decide(nodes)}


def test_a_node_that_fell_silent_is_taken_down():
    found = decide([lost(), *healthy("n2", "n3", "n4")])
    assert [(one.kind, one.node, one.event) for one in found] == [("down", "n1", "lost-n1")]


@pytest.mark.parametrize(
    "view",
    [
        lost(base="DOWN", reason="Not responding"),
        lost(base="IDLE", flags=["DRAIN"], reason="admin: replace fan"),
        lost(base="ALLOCATED", flags=["DRAIN"], reason="stepward:infrastructure:disk_space:e1"),
        lost(base="IDLE", flags=["MAINTENANCE"]),
        lost(base="IDLE", flags=["CLOUD", "POWERED_DOWN"]),
        lost(base="IDLE", flags=["REBOOT_ISSUED"]),
        lost(base="UNKNOWN"),
        node(heard=None),
        node(heard="live", flags=["NOT_RESPONDING"]),
    ],
)
def test_who_is_out_of_service_or_was_never_heard_is_let_be(view):
    assert done([view, *healthy("n2", "n3", "n4")]) == set()


def test_an_agent_that_died_alone_is_no_dead_node():
    assert done([lost(answers=True), *healthy("n2")]) == {("alert", "n1")}


def test_a_node_is_given_back_when_it_is_ours_and_answers():
    back = node(base="DOWN", reason=OURS, answers=True)
    assert [(one.kind, one.event) for one in decide([back, *healthy("n2")])] == [("resume", "lost-1")]


@pytest.mark.parametrize(
    "view",
    [
        node(base="DOWN", reason="admin: broken", answers=True),
        node(base="DOWN", reason=OURS, answers=False),
        node(base="DOWN", reason=OURS, answers=None),
        node(base="DOWN", reason=OURS, answers=True, heard="lost"),
        node(base="DOWN", reason=OURS, answers=True, heard=None),
        node(base="DOWN", reason=OURS, answers=True, flags=["NOT_RESPONDING"]),
        node(base="DOWN", reason=OURS, answers=True, flags=["DRAIN"]),
        node(base="IDLE", reason=OURS, answers=True),
    ],
)
def test_everything_else_waits(view):
    assert ("resume", "n1") not in done([view, *healthy("n2")])


def test_at_most_half_of_a_small_cluster_is_down_by_us():
    four = [lost("n1", silence_s=200.0), lost("n2", silence_s=200.0), *healthy("n3", "n4")]
    assert done(four) == {("down", "n1"), ("down", "n2")}
    already = [node("n1", base="DOWN", reason=OURS, heard="lost"), node("n2", base="DOWN", reason=OURS, heard="lost")]
    assert done([*already, lost("n3"), *healthy("n4")]) == {("alert", "n3")}
    assert done([lost("n1")]) == {("down", "n1")}


def test_many_that_fall_silent_together_are_not_to_blame():
    assert done([lost("n1"), lost("n2"), lost("n3"), *healthy(*(f"m{n}" for n in range(7)))]) == {
        ("alert", "n1"),
        ("alert", "n2"),
        ("alert", "n3"),
    }
    # Those that fell silent long ago say nothing about now.
    old = [lost(f"o{n}", silence_s=999.0, base="DOWN", reason="Not responding") for n in range(3)]
    assert done([*old, lost("n1"), *healthy(*(f"m{n}" for n in range(6)))]) == {("down", "n1")}


def test_the_share_of_a_large_cluster_is_a_twentieth():
    assert [most_down(nodes) for nodes in (1, 2, 4, 19, 20, 100, 1000)] == [1, 1, 2, 9, 1, 5, 50]


VIEWS = st.builds(
    node,
    name=st.just("n"),
    base=st.sampled_from(BASES),
    flags=st.sets(st.sampled_from(FLAGS), max_size=2),
    reason=st.sampled_from(["", OURS, "admin", "stepward:infrastructure:disk_space:e2"]),
    heard=st.sampled_from(["live", "lost", None]),
    silence_s=st.floats(0, 200),
    answers=st.sampled_from([True, False, None]),
)


@given(st.lists(VIEWS, max_size=30))
def test_no_state_of_a_cluster_makes_it_do_too_much(views):
    views = [
        NodeView(
            slurm=SlurmNode(name=f"n{at}", base=one.slurm.base, flags=one.slurm.flags, reason=one.slurm.reason),
            heard=one.heard,
            silence_s=one.silence_s,
            event=one.event,
            answers=one.answers,
        )
        for at, one in enumerate(views)
    ]
    by_name = {view.slurm.name: view for view in views}
    decisions = decide(views)
    assert len({one.node for one in decisions}) == len(decisions)
    down = [by_name[one.node] for one in decisions if one.kind == "down"]
    assert sum(view.is_ours for view in views) + len(down) <= most_down(len(views)) or not down
    for view in down:
        assert view.heard == "lost"
        assert view.slurm.base in ("IDLE", "ALLOCATED", "MIXED")
        assert not view.slurm.flags & {"DRAIN", "FAIL", "MAINTENANCE"}
    recent = sum(view.heard == "lost" and view.silence_s <= 60 for view in views)
    if recent >= BLAST_NODES and recent > BLAST_SHARE * len(views):
        assert not down
    for one in decisions:
        if one.kind == "resume":
            assert by_name[one.node].slurm.reason.startswith(PREFIX)
