"""Runs as they happen on clusters, each with its truth by construction (``construction``)."""

from collections.abc import Iterator

from stepward.testing.goodput.construction import US, Case, Story, shuffled


def stories() -> Iterator[Case]:
    """All of them."""
    yield from (told() for told in STORIES)


def quiet_run() -> Case:
    """Nothing happens but training."""
    s = Story("quiet_run", ideal=2.5)
    s.submit(30)
    s.attempt()
    s.phase("init", 12)
    s.steps(range(40), 2.5)
    s.finish()
    return s.case()


def hungry_steps() -> Case:
    """Every third step waits for data inside; the waits are no part of the net step."""
    s = Story("hungry_steps", ideal=4)
    s.attempt()
    for step in range(30):
        s.step(step, *([("data_wait", 3.0)] if step % 3 == 2 else []), ("productive", 4))
    s.finish()
    return s.case()


def saves_and_evaluations() -> Case:
    """A save inside a step, an evaluation between two, idle at the end."""
    s = Story("saves_and_evaluations", ideal=1)
    s.attempt()
    s.phase("init", 3)
    for step in range(50):
        save = [("checkpoint_save", 0.75)] if step % 10 == 9 else []
        s.step(step, ("productive", 1), *save)
        if save:
            s.durable(step)
            s.phase("evaluation", 2)
    s.phase("idle", 5)
    s.finish()
    return s.case()


def killed_twice() -> Case:
    """Two kills in mid-step; each resume goes back to the newest checkpoint."""
    s = Story("killed_twice", ideal=10)
    s.attempt(resume=0)
    s.phase("init", 20)
    s.steps(range(15), 10)
    s.durable(9)
    s.step(15, ("productive", 4), ended=False, fate="dead")
    s.end("crashed")
    s.spend("down", 90)
    s.attempt(resume=10)
    s.phase("restore", 7)
    s.steps(range(10, 18), 10)
    s.step(18, ("productive", 9), ended=False, fate="dead")
    s.end("lost")
    s.spend("down", 30)
    s.attempt(resume=10)
    s.phase("restore", 7)
    s.steps(range(10, 30), 10)
    s.finish()
    return s.case()


def crash_loop() -> Case:
    """Four attempts that die before their first step."""
    s = Story("crash_loop", ideal=None)
    for _ in range(4):
        s.attempt()
        s.phase("init", 11)
        s.spend("other", 2)
        s.end("failed")
        s.spend("down", 60)
    s.finish("failed")
    return s.case()


def in_flight() -> Case:
    """The run goes on: the step in flight and all behind the checkpoint could still be lost."""
    s = Story("in_flight", ideal=10)
    s.attempt(resume=0)
    s.steps(range(12), 10)
    s.durable(9)
    s.step(12, ("productive", 6), ended=False, fate="flight")
    s.event("checkpoint_durable", step=9)
    return s.case(is_open=True, provisional=26)


def seen_hang() -> Case:
    """A detector saw the stall: the step is an ideal one beside it."""
    s = Story("seen_hang", ideal=10)
    s.attempt()
    s.steps(range(20), 10)
    s.event("stall", attempt=1, until=(s.now / US) + 95)
    s.step(20, ("hang", 95), ("productive", 10))
    s.steps(range(21, 40), 10)
    s.finish()
    return s.case()


def unseen_hang() -> Case:
    """Nobody saw it: over ten ideals and a minute in one step."""
    s = Story("unseen_hang", ideal=10)
    s.attempt()
    s.steps(range(20), 10)
    s.step(20, ("productive", 10), ("hang", 400))
    s.steps(range(21, 40), 10)
    s.finish()
    return s.case()


def slow_half() -> Case:
    """The second half is half as fast: lost to the program, not to the runtime."""
    s = Story("slow_half", ideal=5)
    s.attempt()
    s.steps(range(40), 5)
    for step in range(40, 80):
        s.step(step, ("productive", 5), ("slow_steps", 5))
    s.finish()
    return s.case()


def within_tolerance() -> Case:
    """Steps up to ten per cent over the ideal are productive, to the microsecond."""
    s = Story("within_tolerance", ideal=10)
    s.attempt()
    s.steps(range(25), 10)
    s.step(25, ("productive", 11))
    s.step(26, ("productive", 10), ("slow_steps", 1.000001))
    s.finish()
    return s.case()


def fewer_devices() -> Case:
    """A node is lost and the run goes on with half of the devices, as fast as before: the hours are cheaper."""
    s = Story("fewer_devices", ideal=10, devices=16)
    s.submit(100, attempt=1)
    s.attempt(resume=0)
    s.steps(range(20), 10)
    s.durable(19)
    s.end("lost")
    s.spend("down", 50)
    s.attempt(resume=20, devices=8)
    s.steps(range(20, 60), 10)
    s.finish()
    return s.case()


def requeued() -> Case:
    """A finished attempt's successor queues; a lost one's waits for nodes."""
    s = Story("requeued", ideal=10)
    s.submit(10, attempt=1)
    s.attempt(resume=0)
    s.steps(range(20), 10)
    s.durable(19)
    s.end("finished")
    s.submit(200, attempt=2)
    s.attempt(resume=20)
    s.steps(range(20, 40), 10)
    s.durable(39)
    s.end("preempted")
    s.spend("down", 15)
    s.submit(300, attempt=3, bucket="wait_for_nodes")
    s.attempt(resume=40)
    s.steps(range(40, 50), 10)
    s.finish()
    return s.case()


def provisioned() -> Case:
    """Machines start before the attempt does: no queue any more."""
    s = Story("provisioned", ideal=10)
    s.event("job_submitted", attempt=1)
    s.spend("queue_wait", 40)
    s.event("phase_started", attempt=1, phase="provision")
    s.spend("provision", 180)
    s.event("phase_ended", attempt=1, phase="provision")
    s.spend("queue_wait", 5)
    s.attempt()
    s.steps(range(30), 10)
    s.finish()
    return s.case()


def goes_back_by_itself() -> Case:
    """After a loss spike the same attempt loads an older checkpoint."""
    s = Story("goes_back_by_itself", ideal=10)
    s.attempt(resume=0)
    s.steps(range(30), 10)
    s.durable(19)
    s.rewind(20)
    s.phase("restore", 12)
    s.steps(range(20, 45), 10)
    s.finish()
    return s.case()


def skips_ahead() -> Case:
    """The next attempt starts behind a gap in the numbers: nothing is lost by that."""
    s = Story("skips_ahead", ideal=10)
    s.attempt(resume=0)
    s.steps(range(20), 10)
    s.end("crashed")
    s.spend("down", 44)
    s.attempt(resume=25)
    s.steps(range(25, 45), 10)
    s.finish()
    return s.case()


def every_fifty() -> Case:
    """One report for fifty steps; the kill comes between two reports."""
    s = Story("every_fifty", ideal=2)
    s.attempt(resume=0)
    for step in range(0, 400, 50):
        s.step(step, ("productive", 100), every=50)
    s.durable(399)
    s.spend("other", 20)
    s.end("preempted")
    s.spend("down", 300)
    s.attempt(resume=400)
    for step in range(400, 800, 50):
        s.step(step, ("productive", 100), every=50)
    s.finish()
    return s.case()


def torn_and_doubled() -> Case:
    """``killed_twice`` as a broken collector would deliver it: no order, lines twice."""
    case = killed_twice()
    return Case("torn_and_doubled", shuffled(case.lines, twice=range(0, len(case.lines), 3)), case.truth)


def impossible_lines() -> Case:
    """What can't be true is counted and changes nothing."""
    s = Story("impossible_lines", ideal=10)
    s.attempt()
    s.junk({"t": -50, "kind": "step_started", "attempt": 1, "step": 0})
    s.steps(range(20), 10)
    s.junk({"t": 15, "kind": "step_ended", "attempt": 1, "step": 7})
    s.junk({"t": 16, "kind": "attempt_started", "attempt": 1})
    s.junk({"t": 17, "kind": "step_started", "attempt": 9, "step": 1})
    s.junk({"t": 18, "kind": "stall", "attempt": 1, "until": 3})
    s.junk({"t": 19, "kind": "miracle"})
    s.junk({"t": "soon", "kind": "job_ended"})
    s.finish()
    s.junk({"t": 500, "kind": "step_started", "attempt": 1, "step": 99})
    return s.case()


def bad_end() -> Case:
    """The job failed: what no checkpoint holds is lost."""
    s = Story("bad_end", ideal=10)
    s.attempt(resume=0)
    s.steps(range(33), 10)
    s.durable(24)
    s.step(33, ("productive", 3), ended=False, fate="dead")
    s.fails_after(24)
    s.finish("failed")
    return s.case()


def bad_end_without_checkpoints() -> Case:
    """The job failed and nobody speaks of checkpoints: complete steps are kept, which the ledger says."""
    s = Story("bad_end_without_checkpoints", ideal=10)
    s.attempt()
    s.steps(range(33), 10)
    s.step(33, ("productive", 3), ended=False, fate="dead")
    s.finish("failed")
    return s.case()


def since_the_epoch() -> Case:
    """Real clocks: microseconds far from zero."""
    s = Story("since_the_epoch", ideal=0.412345, epoch=1_796_119_200.123456)
    s.submit(1.000001)
    s.attempt()
    s.phase("compile", 33.333333)
    for step in range(100):
        s.step(step, ("data_wait", 0.000017), ("productive", 0.412345))
    s.finish()
    return s.case()


def zombie() -> Case:
    """The old attempt's processes stay for a while beside the new one: their device time is counted apart."""
    s = Story("zombie", ideal=10, devices=4)
    s.attempt(resume=0)
    s.steps(range(20), 10)
    s.durable(19)
    s.spend("other", 5)
    s.attempt(resume=20)
    s.phase("init", 15)
    s.events.append({"t": s.now / US, "kind": "attempt_ended", "attempt": 1, "reason": "lost"})
    s.overlap_us = 15 * 4 * US
    s.steps(range(20, 40), 10)
    s.finish()
    return s.case()


def straggler() -> Case:
    """Rank 1 waits for its data and rank 0 for rank 1: the wait of the critical rank is what the step waited for."""
    s = Story("straggler", ideal=8, devices=2)
    s.attempt()
    for step in range(20):
        for rank in (0, 1):
            s.event("step_started", attempt=1, step=step, rank=rank)
        s.event("phase_started", attempt=1, phase="data_wait", rank=1)
        s.event("phase_started", attempt=1, phase="collective", rank=0)
        s.executions.append((step, True, False))
        s.spend("data_wait", 3, step)
        s.event("phase_ended", attempt=1, phase="data_wait", rank=1)
        s.event("phase_ended", attempt=1, phase="collective", rank=0)
        s.spend("productive", 8, step)
        for rank in (0, 1):
            s.event("step_ended", attempt=1, step=step, rank=rank)
    s.finish()
    return s.case()


def annotated() -> Case:
    """Phases of other names only annotate; a nested one hides the one around it."""
    s = Story("annotated", ideal=6)
    s.attempt()
    for step in range(20):
        s.event("step_started", attempt=1, step=step)
        s.executions.append((step, True, False))
        s.event("phase_started", attempt=1, phase="forward")
        s.spend("productive", 4, step)
        s.event("phase_ended", attempt=1, phase="forward")
        s.event("phase_started", attempt=1, phase="evaluation")
        s.spend("evaluation", 1, step)
        s.event("phase_started", attempt=1, phase="data_wait")
        s.spend("data_wait", 2, step)
        s.event("phase_ended", attempt=1, phase="data_wait")
        s.spend("evaluation", 1, step)
        s.event("phase_ended", attempt=1, phase="evaluation")
        s.event("phase_started", attempt=1, phase="optimizer")
        s.spend("productive", 2, step)
        s.event("step_ended", attempt=1, step=step)
    s.finish()
    return s.case()


def warm_up() -> Case:
    """The first step of each attempt takes longer: taken for compilation."""
    s = Story("warm_up", ideal=10)
    for attempt in range(3):
        s.attempt(resume=20 * attempt)
        s.step(20 * attempt, ("productive", 10))
        # The excess is no phase: nobody told, so it is assumed.
        s.events.pop()
        s.spend("compile", 45, 20 * attempt)
        s.event("step_ended", attempt=s.number, step=20 * attempt)
        s.steps(range(20 * attempt + 1, 20 * attempt + 20), 10)
        s.durable(20 * attempt + 19)
        s.end("preempted" if attempt < 2 else "finished")
        if attempt < 2:
            s.spend("down", 5)
    s.finish()
    return s.case()


STORIES = (
    quiet_run,
    hungry_steps,
    saves_and_evaluations,
    killed_twice,
    crash_loop,
    in_flight,
    seen_hang,
    unseen_hang,
    slow_half,
    within_tolerance,
    fewer_devices,
    requeued,
    provisioned,
    goes_back_by_itself,
    skips_ahead,
    every_fifty,
    torn_and_doubled,
    impossible_lines,
    bad_end,
    bad_end_without_checkpoints,
    since_the_epoch,
    zombie,
    straggler,
    annotated,
    warm_up,
)
