"""What holds for every history: order, repetition and origin of time mean nothing, time is never lost or invented."""

import json
import sys
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stepward.goodput import events, history
from stepward.goodput.ledger import account
from stepward.goodput.report import of_events, report

sys.path.insert(0, str(Path(__file__).parent))

from histories import PHASES, histories

RANKS = st.sampled_from([None, 0, 1, 2])


@st.composite
def ranked(draw):
    """A history whose step and phase events carry ranks, each a little shifted."""
    told = []
    for event in draw(histories()):
        if event["kind"].startswith(("step", "phase")):
            for rank in (0, 1):
                told.append({**event, "rank": rank, "t": event["t"] + draw(st.integers(0, 1))})
        else:
            told.append(event)
    return told


any_history = st.one_of(histories(), ranked())


def built(told):
    read, refused = events.read([json.dumps(event).encode() for event in told])
    return history.build(read, refused)


def accounted(told):
    found = built(told)
    return None if found is None else account(found)


@settings(max_examples=300, deadline=None)
@given(any_history)
def test_buckets_sum_to_the_wall_and_factors_to_the_answer(told):
    found = accounted(told)
    if found is None:
        return
    assert sum(found.buckets.values()) == found.wall
    assert sum(found.buckets_device.values()) == found.device
    assert min(found.buckets.values()) >= 0 and 0 <= found.provisional <= found.buckets["productive"]
    shown = report(found)
    factors = (shown.scheduling, shown.runtime, shown.program)
    if None not in factors:
        assert abs(factors[0] * factors[1] * factors[2] - shown.overall) < 1e-12


@settings(max_examples=300, deadline=None)
@given(any_history, st.randoms(use_true_random=False), st.integers(0, 3))
def test_order_and_repetition_mean_nothing(told, random, times):
    sound = built(told)
    if sound is None:
        return
    lines = {rejection.line for rejection in sound.rejected}
    kept = [event for number, event in enumerate(told, 1) if number not in lines]
    again = [*told, *kept[::2] * times]
    random.shuffle(again)
    assert accounted(again) == accounted(told)


@settings(max_examples=200, deadline=None)
@given(any_history, st.sampled_from([0, 2]))
def test_what_is_read_as_it_was_told_is_what_sorting_would_give(told, doubled):
    lines = sorted([*told, *told[::3][:doubled]], key=lambda event: event["t"])
    read, rejected = events.read([json.dumps(event).encode() for event in lines])
    sorted_first = history.Reader(list(rejected))
    sorted_first.read(events.in_order(read))
    wanted, found = sorted_first.history(None), history.build(read, rejected)
    assert (wanted is None) == (found is None)
    if wanted is not None:
        assert sorted(one.line for one in found.rejected) == sorted(one.line for one in wanted.rejected)
        assert msgspec.structs.replace(found, rejected=[]) == msgspec.structs.replace(wanted, rejected=[])


@settings(max_examples=200, deadline=None)
@given(any_history, st.integers(-(10**9), 2 * 10**9))
def test_the_origin_of_time_means_nothing(told, shift):
    moved = [
        {**event, "t": event["t"] + shift, **({"until": event["until"] + shift} if "until" in event else {})}
        for event in told
    ]
    assert accounted(moved) == accounted(told)


UNIT = 720_720
"""Seconds; divided by every number up to 16."""


def scaled(told, factor):
    return [
        {**event, "t": event["t"] * factor, **({"until": event["until"] * factor} if "until" in event else {})}
        for event in told
    ]


@settings(max_examples=200, deadline=None)
@given(any_history, st.integers(2, 7))
def test_a_slower_clock_scales_every_bucket(told, factor):
    # From 100 s a step on, ten times the ideal outweighs the limit of a minute. A unit that most counts of steps divide
    # leaves no rests: a rest decides where a step is just at a limit.
    found, slow = accounted(scaled(told, UNIT)), accounted(scaled(told, UNIT * factor))
    if found is None:
        return
    off = len(told) * 64  # ns: cuts and quotients are rounded down, each on its own
    assert slow.wall == factor * found.wall
    for bucket, ns in found.buckets.items():
        assert abs(slow.buckets[bucket] - factor * ns) <= off * factor


@settings(max_examples=200, deadline=None)
@given(histories())
def test_phases_that_only_annotate_change_nothing(told):
    bare = [event for event in told if event.get("phase") != "forward"]
    with_other = [{**event, "phase": "optimizer"} if event.get("phase") == "forward" else event for event in told]
    assert accounted(with_other) == accounted([*bare, *(e for e in told if e.get("phase") == "forward")])


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from([0, 1, 10**400, 1e300])
)
KINDS = st.sampled_from([*events.ORDER, "miracle"])
strange = st.dictionaries(
    st.sampled_from(["t", "attempt", "rank", "step", "phase", "until", "every", "devices", "resume_step", "reason"]),
    st.one_of(scalars, st.sampled_from(PHASES), st.lists(scalars, max_size=2)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=30), st.tuples(KINDS, strange)), max_size=20))
def test_whatever_comes_is_taken_or_refused_with_a_reason(lines):
    written = [line if isinstance(line, bytes) else json.dumps({"kind": line[0], **line[1]}).encode() for line in lines]
    read, refused = events.read(written)
    assert len(read) + len(refused) == sum(bool(line.strip()) for line in written)
    shown = of_events(read, refused)
    if shown is not None:
        assert all(rejection.reason for rejection in shown.rejected_lines)
        assert abs(sum(shown.buckets_s.values()) - shown.wall_s) <= 1e-6 * max(shown.wall_s, 1)
