"""Hangs, and whose fault they are; ends of ranks and attempts."""

import pytest
from streams import S, at, beats, confirmed, detect, hit, last, sample, start, steps, times

from stepward.detect.signals import AttemptEnded, Heartbeat, PhaseBegan, PhaseEnded, RankEnded, Step, Tick


def standing(phase, ranks=4, step_s=1.0, silent=(), stopped=(), seconds=200.0, more=()):
    """A run whose ranks stop moving after 100 steps."""
    signals = [start(ranks), *steps(times(1, 100, step_s=step_s), ranks)]
    end = (signals[-1][0] - at(0)) / S
    for beat in beats(0, end + seconds, ranks, phase, 100, end):
        if beat.time < at(end):
            signals.append(beat._replace(step=None, progress_at=None))
        elif beat.rank not in silent:
            signals.append(beat._replace(stopped=beat.rank in stopped))
    return [*signals, *more], end


def test_silence_is_suspected_in_time_and_confirmed_within_a_minute():
    signals, end = standing(lambda rank: "collective")
    (event,) = confirmed(said := detect(signals, end + 220), "hang")
    first = next(one for one in said if one.type == "hang")
    assert first.certainty == "suspected"
    assert first.detected_at - at(end) <= 31 * S
    assert event.detected_at - first.detected_at <= 60 * S
    assert event.step == 99
    assert event.ranks == ()
    assert event.data["unknown"]


def test_slow_steps_have_a_longer_limit():
    signals, end = standing(lambda rank: "collective", step_s=40.0, seconds=400.0)
    first = next(one for one in detect(signals, end + 400) if one.type == "hang")
    assert 115 * S < first.detected_at - at(end) < 135 * S


@pytest.mark.parametrize(
    ("arrange", "why"),
    [
        ({"phase": lambda rank: "data_wait" if rank == 2 else "collective"}, "another phase"),
        ({"phase": lambda rank: "collective", "silent": (2,)}, "not heard"),
        ({"phase": lambda rank: "collective", "stopped": (2,)}, "stopped"),
        (
            {
                "phase": lambda rank: "collective",
                "more": [sample(100 + 10 * n, "system/device/utilization", 1.0 if d == 2 else 100.0, node="n00", device=d)
                         for n in range(3) for d in range(4)],
            },
            "idles",
        ),
        (
            {
                "phase": lambda rank: "collective",
                "more": [hit(150 + r, "collective_desync", "cascade", rank=r) for r in (0, 1, 3)],
            },
            "time-out of its peers",
        ),
        (
            {
                "phase": lambda rank: "collective",
                "more": [hit(150 + r, "collective_desync", "cascade", rank=r,
                             text=f"WorkNCCL(SeqNum=9, OpType={'BARRIER' if r == 2 else 'ALLREDUCE'}, x)") for r in range(4)],
            },
            "another collective",
        ),
    ],
)  # fmt: skip
def test_the_culprit_is_named_and_how_it_shows(arrange, why):
    signals, end = standing(**arrange)
    (event,) = confirmed(detect(signals, end + 220), "hang")
    assert event.ranks == (2,)
    assert event.nodes == ("n00",)
    assert why in event.data["why"]


def test_watchdogs_that_bark_one_after_the_other_leave_the_one_that_is_silent():
    late = [
        hit(150 + 0.1 * rank, "collective_desync", "cascade", rank=rank) for rank in range(16) if rank not in (6, 11)
    ]
    signals, end = standing(
        lambda rank: None, ranks=16, more=[*late, hit(190, "collective_desync", "cascade", rank=11)]
    )
    said = [event for event in detect(signals, end + 220) if event.type == "hang"]
    assert (6, 11) in [event.ranks for event in said]
    assert said[-1].ranks == (6,)


def test_groups_count_their_collectives_for_themselves():
    waits = {0: ("1", 900), 1: ("1", 900), 2: ("1", 899), 3: ("1", 900), **dict.fromkeys(range(4, 8), ("2", 37))}
    lines = [
        hit(150 + rank, "collective_desync", "cascade", rank=rank,
            text=f"[PG ID {group} PG GUID {group}x Rank {rank}] WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, x)")
        for rank, (group, number) in waits.items()
    ]  # fmt: skip
    signals, end = standing(lambda rank: None, ranks=8, more=lines)
    (event,) = confirmed(detect(signals, end + 220), "hang")
    assert event.ranks == (2,)
    assert "another collective" in event.data["why"]


def test_a_rank_that_stands_while_the_others_go_on():
    signals = [start(4), *(one for one in steps(times(1, 200), 4) if one.rank != 1 or one.step < 100)]
    signals += [Heartbeat(at(4.0 * n), "a", rank) for n in range(50) for rank in range(4)]
    (event,) = confirmed(detect(signals), "hang")
    assert event.ranks == (1,)
    assert event.step == 99


def test_nobody_heard_is_no_hang():
    signals, end = standing(lambda rank: "collective", silent=(0, 1, 2, 3))
    assert confirmed(said := detect(signals, end + 600), "hang") == []
    assert last(said, "hang")[0].data["unknown"] == "nothing is heard of the run"


def test_all_stopped_is_suspended():
    signals, end = standing(lambda rank: "collective", stopped=(0, 1, 2, 3))
    assert last(detect(signals, end + 220), "hang") == []


@pytest.mark.parametrize("phase", ["checkpoint_save", "evaluation", "compile", "restore"])
def test_a_first_long_phase_is_no_hang(phase):
    signals, end = standing(lambda rank: phase)
    signals += [PhaseBegan(at(end + 1), "a", rank, phase) for rank in range(4)]
    assert last(detect(signals, end + 220), "hang") == []


def test_a_known_pause_may_come_again_half_as_long_again():
    signals = [start(1), *steps(times(1, 100), begin=0)]
    end = (signals[-1][0] - at(0)) / S
    signals += [PhaseBegan(at(end), "a", 0, "evaluation"), PhaseEnded(at(end + 100), "a", 0, "evaluation")]
    signals += steps(times(2, 50), begin=end + 100, first=100)
    again = (signals[-1][0] - at(0)) / S
    signals += [PhaseBegan(at(again), "a", 0, "evaluation")]
    assert last(detect(signals, again + 140), "hang") == []
    assert last(detect(signals, again + 170), "hang")


def test_a_hang_that_resolves_is_withdrawn_or_ended():
    for gap, certainty in ((45, "withdrawn"), (120, "confirmed")):
        signals, end = standing(lambda rank: "forward", seconds=gap)
        signals += steps(times(2, 20), 4, begin=end + gap, first=100)
        (event,) = last(detect(signals), "hang")
        assert event.certainty == certainty
        assert event.ended_at is not None


def test_no_hang_after_the_end():
    signals, end = standing(lambda rank: None, seconds=5)
    signals += [RankEnded(at(end + 5), "a", rank, 0) for rank in range(4)] + [
        AttemptEnded(at(end + 6), "a", "finished")
    ]
    assert last(detect(signals, end + 4000)) == []


def test_the_first_bad_end_is_the_crash():
    signals = [start(2), RankEnded(at(10), "a", 1, 1, node="n00"), RankEnded(at(12), "a", 0, None, "SIGTERM")]
    (event,) = confirmed(detect([*signals, AttemptEnded(at(13), "a", "failed")]), "crash")
    assert event.ranks == (1,)
    assert event.started_at == at(10)
    assert event.ended_at == at(13)


def test_an_echo_does_not_take_the_blame():
    signals = [start(4), hit(9, "cuda_kernel_fault", rank=2), hit(9.5, "collective_desync", "cascade", rank=0)]
    signals += [RankEnded(at(10), "a", 0, None, "SIGABRT"), AttemptEnded(at(13), "a", "crashed")]
    (event,) = confirmed(detect(signals), "crash")
    assert event.ranks == (2,)
    assert event.data["label"] == "cuda_kernel_fault"


@pytest.mark.parametrize("state", ["cancelled", "preempted", "timeout", "oom"])
def test_an_end_that_was_asked_for_is_no_crash(state):
    signals = [start(2), *(RankEnded(at(10 + rank), "a", rank, None, "SIGTERM") for rank in range(2))]
    said = detect([*signals, AttemptEnded(at(14), "a", state)])
    assert confirmed(said, "crash") == []
    assert [event.type for event in confirmed(said)] == {"preempted": ["preemption"], "oom": ["oom"]}.get(state, [])


def test_a_kill_that_nobody_explains_is_a_crash():
    signals = [start(2), RankEnded(at(10), "a", 1, None, "SIGKILL")]
    assert confirmed(detect(signals, 15), "crash") == []
    assert confirmed(detect(signals, 25), "crash")[0].ranks == (1,)


def test_memory_that_ran_out_is_no_crash_beside():
    signals = [start(2), hit(9, "gpu_oom", rank=1), RankEnded(at(10), "a", 1, 1), AttemptEnded(at(13), "a", "failed")]
    (event,) = confirmed(detect(signals))
    assert (event.type, event.ranks) == ("oom", (1,))


def test_the_cgroup_counts_a_kill_and_the_rank_is_the_one_killed():
    signals = [start(2), *(sample(10 * n, "system/cgroup/oom_kills", float(n > 2), node="n00") for n in range(5))]
    signals.append(RankEnded(at(31), "a", 1, None, "SIGKILL"))
    (event,) = confirmed(detect(signals, 32), "oom")
    assert event.ranks == (1,)


def test_a_kill_elsewhere_on_the_node_is_no_part_of_what_comes_later():
    signals = [start(2), *(sample(10 * n, "system/host/oom_kills", float(n > 2), node="n00") for n in range(30))]
    assert [one.certainty for one in detect(signals, 100)] == ["suspected", "withdrawn"]
    signals.append(RankEnded(at(300), "a", 1, None, "SIGKILL"))
    said = detect([*signals, AttemptEnded(at(303), "a", "oom")], 320)
    (event,) = confirmed(said, "oom")
    assert (event.ranks, event.started_at >= at(300)) == ((1,), True)


def test_three_bad_ends_without_a_checkpoint_are_a_loop():
    signals = []
    for number in range(3):
        key, begin = f"a{number}", 100.0 * number
        signals.append(start(1, seconds=begin, attempt=key, resumed_step=50))
        signals.append(Step(at(begin + 20), key, 0, 50, 1.0))
        signals += [RankEnded(at(begin + 30), key, 0, 1), AttemptEnded(at(begin + 31), key, "failed")]
    said = detect(signals)
    (loop,) = confirmed(said, "restart_loop")
    assert loop.ranks == (0,)
    (stuck,) = confirmed(said, "no_progress_restart")
    assert stuck.step == 50
    assert stuck.data["follows"].startswith("crash/")


def test_a_lost_attempt_that_is_heard_again_did_not_crash():
    signals = [start(1), *steps(times(1, 60)), AttemptEnded(at(70), "a", "lost")]
    assert confirmed(detect(signals), "crash")
    signals += steps(times(2, 60), begin=80, first=60)
    end = (signals[-1][0] - at(0)) / S
    signals += beats(80, end + 120, 1, lambda rank: "forward", 120, end)
    said = detect(signals, end + 120)
    assert [event.certainty for event in last(said, "crash")] == ["withdrawn"]
    assert confirmed(said, "hang")


def test_words_about_an_attempt_after_its_end():
    signals = [start(2), AttemptEnded(at(10), "a", "cancelled"), RankEnded(at(11), "a", 0, None, "SIGTERM")]
    assert last(detect(signals, 100)) == []
    signals = [start(2), AttemptEnded(at(10), "a", "crashed"), RankEnded(at(11), "a", 1, None, "SIGSEGV")]
    (event,) = confirmed(detect(signals, 100), "crash")
    assert event.ranks == (1,)
    signals = [start(2), AttemptEnded(at(10), "a", "crashed"), hit(12, "gpu_memory_ecc", node="n00")]
    (event,) = confirmed(detect(signals, 100), "hardware_fault")
    assert event.ended_at is not None


def test_a_tick_alone_says_nothing():
    assert detect([Tick(at(0))], 1e6) == []
