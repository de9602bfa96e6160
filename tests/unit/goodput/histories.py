"""Random histories: a run as it could be, then lines lost, doubled and invented."""

from hypothesis import strategies as st

PHASES = ["init", "data_wait", "checkpoint_save", "provision", "idle", "forward", "wait_for_nodes"]
REASONS = ["finished", "crashed", None]


@st.composite
def runs(draw):
    """A run of a few attempts with whole seconds."""
    t, step, events = 0, 0, []

    def say(kind, **fields):
        events.append({"t": t, "kind": kind, **{k: v for k, v in fields.items() if v is not None}})

    def wait(most):
        nonlocal t
        t += draw(st.integers(0, most))

    for number in range(1, draw(st.integers(1, 3)) + 1):
        if draw(st.booleans()):
            say("job_submitted", attempt=number)
            wait(9)
        if draw(st.integers(0, 3)) == 0:
            say("phase_started", attempt=number, phase="provision")
            wait(5)
        step = max(step - draw(st.integers(0, 6)), 0)
        say("attempt_started", attempt=number, devices=draw(st.sampled_from([None, 4, 8])), resume_step=step)
        if draw(st.booleans()):
            say("phase_started", attempt=number, phase="init")
            wait(6)
            say("phase_ended", attempt=number, phase="init")
        every = draw(st.sampled_from([None, None, 2, 5]))
        usual = draw(st.integers(1, 6))
        for _ in range(draw(st.integers(0, 14))):
            say("step_started", attempt=number, step=step, every=every)
            slow = draw(st.integers(0, 9))
            phase = draw(st.sampled_from(PHASES)) if draw(st.integers(0, 3)) == 0 else None
            if phase:
                say("phase_started", attempt=number, phase=phase)
                wait(4)
                say("phase_ended", attempt=number, phase=phase)
            if slow == 9:
                say("stall", attempt=number, until=t + draw(st.integers(0, 50)))
            t += usual * (every or 1) + (draw(st.sampled_from([0, 1, 5, 80])) if slow > 6 else 0)
            if draw(st.integers(0, 6)):
                say("step_ended", attempt=number, step=step)
            if draw(st.integers(0, 4)) == 0:
                say("checkpoint_durable", step=max(step - draw(st.integers(0, 3)), 0))
            step += every or 1
            if draw(st.integers(0, 12)) == 0:
                step = max(step - draw(st.integers(1, 5)), 0)
            wait(1)
        if draw(st.integers(0, 3)):
            say("attempt_ended", attempt=number, reason=draw(st.sampled_from(["finished", "crashed", "lost"])))
            wait(12)
    if draw(st.booleans()):
        say("job_ended", reason=draw(st.sampled_from(REASONS)))
    return events


invented = st.one_of(
    st.fixed_dictionaries(
        {"t": st.integers(0, 80), "kind": st.sampled_from(["step_started", "step_ended"])}
        | {"attempt": st.integers(1, 3), "step": st.integers(0, 12)}
    ),
    st.fixed_dictionaries(
        {"t": st.integers(0, 80), "kind": st.sampled_from(["phase_started", "phase_ended"])}
        | {"attempt": st.integers(1, 3), "phase": st.sampled_from(PHASES)}
    ),
    st.fixed_dictionaries({"t": st.integers(0, 80), "kind": st.just("checkpoint_durable"), "step": st.integers(0, 12)}),
    st.fixed_dictionaries(
        {"t": st.integers(0, 80), "kind": st.sampled_from(["attempt_started", "attempt_ended", "job_submitted"])}
        | {"attempt": st.integers(1, 4)}
    ),
)


@st.composite
def histories(draw):
    """A run of which some lines are missing and to which some were added."""
    events = [event for event in draw(runs()) if draw(st.integers(0, 19))]
    return [*events, *draw(st.lists(invented, max_size=4))]
