"""The table of states as scenarios with a fake clock: what was heard, and what the attempt and the run then are."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.ingest.hearing import Hearing
from stepward.ingest.liveness import AttemptView, SourceView, attempt_standing, run_standing, source_state
from stepward.model.states import Exit, State, Witness
from stepward.model.words import SourceKind

S = 1_000_000
NOW = 1_000_000 * S
HEARING = Hearing(NOW - 3600 * S)
FRESH, SILENT = NOW - 3 * S, NOW - 13 * S

_writers = itertools.count()


def rank(number=0, heard_at=FRESH, *exits, node="n1", **more):
    return SourceView(
        writer=f"w{next(_writers)}",
        kind=SourceKind.RANK,
        rank=number,
        heard_at=heard_at,
        exits=exits,
        node=node,
        **more,
    )


def wrapper(heard_at=FRESH, *exits, node="n1", **more):
    return SourceView(
        writer=f"w{next(_writers)}", kind=SourceKind.WRAPPER, heard_at=heard_at, exits=exits, node=node, **more
    )


def agent(heard_at=FRESH, node="n1", **more):
    return SourceView(writer=f"w{next(_writers)}", kind=SourceKind.AGENT, heard_at=heard_at, node=node, **more)


def watcher(*exits):
    return SourceView(writer="w", kind=SourceKind.WATCHER, heard_at=SILENT, exits=exits)


def sdk(code=0, at=NOW - 5 * S, **facts):
    return Exit(at=at, by=Witness.SDK, exit_code=code, **facts)


def reaped(code=0, number=None, at=NOW - 5 * S, **facts):
    return Exit(at=at, by=Witness.REAPER, exit_code=code, rank=number, **facts)


def killed(name="SIGKILL", number=None, at=NOW - 5 * S, **facts):
    return Exit(at=at, by=Witness.REAPER, signal=name, rank=number, **facts)


def standing(*sources, hang=None, now=NOW, hearing=HEARING):
    return attempt_standing(AttemptView(key="a", sources=sources, hang=hang), hearing, now)


SCENARIOS = {
    # ── one process with the SDK, nobody else ──
    "beats": ([rank()], State.RUNNING),
    "only its configuration came": ([rank(begun=False)], State.STARTING),
    "finished": ([rank(0, SILENT, sdk(0))], State.FINISHED),
    "finished just now": ([rank(0, FRESH, sdk(0))], State.FINISHED),
    "exit 3": ([rank(0, FRESH, sdk(3))], State.FAILED),
    "exception": ([rank(0, FRESH, sdk(1, exception="ValueError: x"))], State.FAILED),
    "interrupted": ([rank(0, FRESH, Exit(at=NOW, by=Witness.SDK, signal="SIGINT"))], State.CANCELLED),
    "terminated": ([rank(0, FRESH, Exit(at=NOW, by=Witness.SDK, signal="SIGTERM"))], State.CANCELLED),
    "killed -9, nobody saw it": ([rank(0, SILENT)], State.LOST),
    "silent before it began": ([rank(0, SILENT, begun=False)], State.LOST),
    # ── under a wrapper ──
    "no SDK, wrapper beats": ([wrapper(alive=[0])], State.RUNNING),
    "wrapper without ranks yet": ([wrapper(begun=False)], State.STARTING),
    "wrapper reaps exit 0": ([wrapper(FRESH, reaped(0, 0), reaped(0))], State.FINISHED),
    "wrapper reaps SIGKILL": ([wrapper(FRESH, killed("SIGKILL", 0), killed())], State.CRASHED),
    "wrapper reaps SIGSEGV": ([wrapper(FRESH, killed("SIGSEGV", 0), killed("SIGSEGV"))], State.CRASHED),
    "kernel counted the memory kill": (
        [wrapper(FRESH, killed(), Exit(at=NOW, by=Witness.KERNEL, signal="SIGKILL", oom=True))],
        State.OOM,
    ),
    "SDK says 0, wrapper is not done": ([rank(0, FRESH, sdk(0)), wrapper()], State.RUNNING),
    "SDK says 0, process segfaults at exit": (
        [rank(0, FRESH, sdk(0)), wrapper(FRESH, killed("SIGSEGV", 0), killed("SIGSEGV"))],
        State.CRASHED,
    ),
    "wrapper's word outranks a rank that still seems to beat": (
        [rank(), wrapper(FRESH, killed("SIGKILL", 0), killed())],
        State.CRASHED,
    ),
    "wrapper killed, SDK beats": ([rank(), wrapper(SILENT, alive=[0])], State.RUNNING),
    "wrapper killed, its heir sees the rank": ([wrapper(SILENT, alive=[0]), wrapper(alive=[0])], State.RUNNING),
    "wrapper killed, agent sees the rank": ([wrapper(SILENT, alive=[0]), agent(alive=[0])], State.RUNNING),
    "wrapper killed, SDK then finishes": ([rank(0, FRESH, sdk(0)), wrapper(SILENT, alive=[0])], State.FINISHED),
    "wrapper and rank gone without a word": ([rank(0, SILENT), wrapper(SILENT, alive=[0])], State.LOST),
    "wrapper gone, no SDK": ([wrapper(SILENT, alive=[0])], State.LOST),
    "wrapper gone after it reaped its only rank": ([wrapper(SILENT, reaped(0, 0))], State.FINISHED),
    "wrapper gone, one of two ranks reaped": ([wrapper(SILENT, reaped(0, 0), alive=[1])], State.LOST),
    "an idle agent keeps nothing alive": ([rank(0, SILENT), agent()], State.LOST),
    # ── hung ──
    "rank stopped": ([rank(), wrapper(stopped=[0])], State.HUNG),
    "no SDK, process stopped": ([wrapper(stopped=[0])], State.HUNG),
    "rank silent, process seen alive": ([rank(0, SILENT), wrapper(alive=[0])], State.HUNG),
    "rank silent, agent sees it": ([rank(0, SILENT), agent(alive=[0])], State.HUNG),
    "rank silent, witness on another node": (
        [rank(0, SILENT, node="n2"), wrapper(alive=[1]), rank(1)],
        State.RUNNING,
    ),
    "one rank of many hung": ([rank(0), rank(1, SILENT), rank(2), wrapper(alive=[0, 1, 2])], State.HUNG),
    "stopped, then reaped": ([rank(0, SILENT), wrapper(FRESH, killed("SIGKILL", 0), stopped=[0])], State.RUNNING),
    "stopped, witness gone": ([rank(0, SILENT), wrapper(SILENT, stopped=[0])], State.LOST),
    "rank said goodbye and computes on": ([rank(0, SILENT, sdk(0)), wrapper(alive=[0])], State.RUNNING),
    # ── several ranks ──
    "all ranks finished": ([rank(n, FRESH, sdk(0)) for n in range(4)], State.FINISHED),
    "some ranks finished, others beat": ([rank(0, FRESH, sdk(0)), rank(1)], State.RUNNING),
    "first bad exit, others beat": ([rank(0, FRESH, sdk(1)), rank(1)], State.RUNNING),
    "first bad exit, others silent": ([rank(0, SILENT, sdk(1)), rank(1, SILENT)], State.FAILED),
    "one finished, one silent": ([rank(0, SILENT, sdk(0)), rank(1, SILENT)], State.LOST),
    "one silent, others beat": ([rank(0, SILENT), rank(1)], State.RUNNING),
    "a forked writer of the rank is gone": ([rank(0), rank(0, SILENT)], State.RUNNING),
    "the parent finished, the fork said nothing": ([rank(0, FRESH, sdk(0)), rank(0, SILENT)], State.FINISHED),
    "the fork finished, the parent beats": ([rank(0), rank(0, SILENT, sdk(0))], State.RUNNING),
    # ── several nodes ──
    "one wrapper done, the other beats": (
        [wrapper(FRESH, reaped(0), node="n1"), wrapper(node="n2", alive=[1])],
        State.RUNNING,
    ),
    "one wrapper done badly, the other beats": (
        [wrapper(FRESH, reaped(1), node="n1"), wrapper(node="n2", alive=[1])],
        State.RUNNING,
    ),
    "both wrappers done": (
        [wrapper(FRESH, reaped(0), node="n1"), wrapper(SILENT, reaped(0), node="n2")],
        State.FINISHED,
    ),
    "one done well, one lost": ([wrapper(SILENT, reaped(0), node="n1"), wrapper(SILENT, node="n2")], State.LOST),
    "one done badly, one lost": ([wrapper(SILENT, reaped(2), node="n1"), wrapper(SILENT, node="n2")], State.FAILED),
    "a node lost, the others beat": ([wrapper(SILENT, node="n1", alive=[0]), wrapper(node="n2")], State.RUNNING),
    "two wrappers of one node, one done": ([wrapper(FRESH, reaped(0)), wrapper(alive=[1])], State.RUNNING),
    # ── the scheduler ──
    "scheduler ends it over a heartbeat": (
        [rank(), watcher(Exit(at=NOW, by=Witness.SCHEDULER, state=State.TIMEOUT))],
        State.TIMEOUT,
    ),
    "scheduler outranks the reaper": (
        [
            wrapper(FRESH, killed("SIGTERM")),
            watcher(Exit(at=NOW, by=Witness.SCHEDULER, state=State.PREEMPTED)),
        ],
        State.PREEMPTED,
    ),
    "nobody": ([], State.LOST),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name):
    sources, state = SCENARIOS[name]
    assert standing(*sources).state is state


def test_a_hang_event_that_is_open_hangs_the_attempt():
    assert standing(rank(), hang="no step for 90 s").state is State.HUNG
    assert standing(rank(), hang="no step for 90 s").reason == "no step for 90 s"
    assert standing(rank(0, FRESH, sdk(0)), hang="no step for 90 s").state is State.FINISHED


def test_reasons_name_rank_and_node():
    assert "rank 1" in standing(rank(0), rank(1, SILENT), wrapper(alive=[0, 1])).reason
    lost = standing(rank(3, SILENT, node="n07")).reason
    assert "rank 3" in lost and "n07" in lost
    assert "rank 0 has ended: failed (exit code 9)" in standing(rank(0, FRESH, sdk(9)), rank(1)).reason


def test_a_reason_does_not_change_with_the_clock():
    sources = [rank(0), rank(1, SILENT)]
    assert standing(*sources) == standing(*sources, now=NOW + 2 * S)


def test_ended_at_is_the_last_exit_or_the_last_sign_of_life():
    assert standing(rank(0, FRESH, sdk(0, at=5)), rank(1, FRESH, sdk(0, at=9))).ended_at == 9
    assert standing(rank(0, SILENT)).ended_at == SILENT
    assert standing(rank()).ended_at is None


def test_the_first_bad_end_decides_and_keeps_its_code():
    ended = standing(
        wrapper(FRESH, killed("SIGTERM", 1, at=9), reaped(7, 0, at=5), reaped(7, None, at=10)),
    )
    assert (ended.state, ended.exit_code) == (State.FAILED, 7)


@pytest.mark.parametrize("first", [State.HUNG, State.LOST])
def test_a_heartbeat_that_returns_reopens(first):
    witness = [wrapper(alive=[0])] if first is State.HUNG else []
    assert standing(rank(0, SILENT), *witness).state is first
    assert standing(rank(0, FRESH), *witness).state is State.RUNNING


def test_an_exit_known_later_corrects_lost():
    assert standing(rank(0, SILENT)).state is State.LOST
    assert standing(rank(0, SILENT, sdk(0))).state is State.FINISHED


def test_an_outage_of_the_server_loses_nobody():
    hearing = Hearing(NOW, heard_until=NOW - 600 * S)
    assert standing(rank(0, NOW - 601 * S), hearing=hearing).state is State.RUNNING
    assert standing(rank(0, NOW - 620 * S), hearing=hearing).state is State.LOST


# ── the run ──


def run(*sources, known=("a",), now=NOW):
    view = AttemptView(key="a", sources=sources)
    return run_standing(view, attempt_standing(view, HEARING, now), known, HEARING, now)


def test_a_run_shows_its_newest_attempt():
    assert run(rank()) == (State.RUNNING, None)
    assert run(rank(0, FRESH, sdk(0)))[0] is State.FINISHED


def test_waiting_while_the_next_attempt_is_announced():
    ended = wrapper(FRESH, killed("SIGKILL", 0, final=False), killed(final=False))
    state, reason = run(ended)
    assert state is State.WAITING and "SIGKILL" in reason
    announced = wrapper(FRESH, killed("SIGKILL", 0), killed(), next_attempt="b")
    assert run(announced)[0] is State.WAITING
    assert run(announced, known=("a", "b"))[0] is State.CRASHED


def test_waiting_ends_when_the_launcher_is_gone():
    announced = wrapper(FRESH, killed(final=False), next_attempt="b")
    assert run(announced, now=NOW + 50 * S)[0] is State.WAITING
    assert run(announced, now=NOW + 70 * S)[0] is State.CRASHED


def test_a_scheduler_that_requeues_is_waited_for():
    requeued = Exit(at=NOW, by=Witness.SCHEDULER, state=State.PREEMPTED, final=False)
    assert run(watcher(requeued), now=NOW + 86_400 * S)[0] is State.WAITING


def test_nothing_waits_while_the_attempt_lives():
    assert run(wrapper(FRESH, alive=[0], next_attempt="b"))[0] is State.RUNNING


# ── sources ──


def test_source_states():
    lives, hung = standing(rank()), standing(rank(0, SILENT), wrapper(alive=[0]))
    assert source_state(rank(), lives, HEARING, NOW).state is State.RUNNING
    assert source_state(rank(begun=False), lives, HEARING, NOW).state is State.STARTING
    assert source_state(rank(0, SILENT), lives, HEARING, NOW).state is State.LOST
    assert source_state(rank(0, SILENT), hung, HEARING, NOW).state is State.HUNG
    assert source_state(wrapper(SILENT), hung, HEARING, NOW).state is State.LOST
    assert source_state(rank(0, SILENT, sdk(4)), lives, HEARING, NOW).exit_code == 4


def test_a_wrapper_is_not_ended_by_the_ends_of_its_ranks():
    seen = wrapper(FRESH, reaped(1, 0))
    assert source_state(seen, standing(seen), HEARING, NOW).state is State.RUNNING


# ── properties ──

_exit = st.builds(
    Exit,
    at=st.integers(0, NOW),
    by=st.sampled_from([Witness.REAPER, Witness.SDK, Witness.KERNEL]),
    exit_code=st.sampled_from([None, 0, 1, 137]),
    rank=st.sampled_from([None, 0, 1]),
    final=st.booleans(),
)
_source = st.builds(
    SourceView,
    writer=st.text("abc", min_size=1, max_size=3),
    kind=st.sampled_from(SourceKind),
    rank=st.sampled_from([None, 0, 1]),
    node=st.sampled_from(["n1", "n2"]),
    heard_at=st.integers(NOW - 30 * S, NOW),
    exits=st.lists(_exit, max_size=2),
    alive=st.lists(st.sampled_from([0, 1]), max_size=2),
    stopped=st.lists(st.sampled_from([0, 1]), max_size=1),
    begun=st.booleans(),
)


@given(st.lists(_source, max_size=5))
def test_order_of_sources_does_not_matter_and_everything_ends(sources):
    now = standing(*sources)
    assert standing(*reversed(sources)).state is now.state
    # Whatever is heard of an attempt, when all fall silent it is over: nothing dead is shown as running.
    later = standing(*sources, now=NOW + 3600 * S)
    assert later.state.terminal
    assert (later.ended_at is None) is not later.state.terminal


@given(st.lists(_source, max_size=5))
def test_who_beats_without_an_end_is_never_dead(sources):
    alive = rank(7, NOW, node="n9")
    scheduled = any(exit.by is Witness.SCHEDULER for source in sources for exit in source.exits)
    assert scheduled or not standing(*sources, alive).state.terminal


def test_an_attempt_ended_when_its_scheduler_says_whatever_is_told_from_inside():
    told = watcher(Exit(at=NOW - 9 * S, by=Witness.SCHEDULER, state=State.FAILED, exit_code=5))
    late = wrapper(SILENT, reaped(5, at=NOW - 5 * S))
    assert standing(told, late).ended_at == NOW - 9 * S
    assert standing(late).ended_at == NOW - 5 * S
