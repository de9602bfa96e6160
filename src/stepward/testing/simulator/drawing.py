"""Which troubles befall a run: none, one, or some, drawn from its seed."""

import msgspec

from stepward.testing.simulator.faults import KINDS, ODDITIES
from stepward.testing.simulator.layout import Layout
from stepward.testing.simulator.noise import stream
from stepward.testing.simulator.plan import Clocking, Plan, Split, draw
from stepward.testing.simulator.simulation import Placed, Simulation

CLEAN = 0.35
"""Share of runs without any fault."""
SECOND = 0.25
"""Share of faulty runs of the test split with a second fault: combinations that no training run has."""
CLEAN_KIND = "clean"
_NODES_NEEDED = frozenset(
    ["power_cap", "slow_node", "co_tenant", "cpu_contention", "network_slow", "link_flap", "telemetry_gap", "node_loss"]
)
_SAVES_NEEDED = frozenset({"checkpoint_stall", "no_progress"})
_DEVICES_NEEDED = frozenset({"slow_rank", "thermal_throttle", "power_cap", "ecc_storm", "off_bus_silent"})
_LONG = {"divergence": 1800, "checkpoint_stall": 1200}


def simulate(
    seed: int,
    *,
    split: Split = "train",
    kind: str | None = None,
    ranks: int | None = None,
    steps: int | None = None,
    step_s: float | None = None,
    cv: float | None = None,
    rho: float | None = None,
    magnitude: float | None = None,
    onset: int | None = None,
    clocking: Clocking | None = None,
    sample_s: float | None = None,
    oddities: bool = True,
) -> Simulation:
    """A run that the seed determines; whatever else is given is not drawn.

    Args:
        seed: the same seed and arguments give the same run, to the byte.
        split: ``train`` has strong faults (x1.2-2), ``test`` weak ones (x1.05-1.2) and combinations.
        kind: name of a fault of ``KINDS``, or ``clean`` for none.
        ranks: 2 to several thousand; a power of two divides best.
        steps, step_s: length of the run and of a step.
        cv, rho: noise of the step time.
        magnitude: how strong the fault is (its docstring says what is measured).
        onset: the step at which it begins.
        clocking: how phases are measured.
        sample_s: seconds between two readings of devices and hosts.
        oddities: harmless warnings and gaps come too.

    Raises:
        KeyError: no such kind.
    """
    plan = draw(
        seed, split=split, ranks=ranks, steps=steps, step_s=step_s, cv=cv, rho=rho, clocking=clocking, sample_s=sample_s
    )
    dice = stream(seed, "troubles", split)
    names = sorted(KINDS)
    drawn = names[int(dice.integers(len(names)))]
    second = [name for name in names if not KINDS[name].stops][int(dice.integers(1000)) % 20]
    clean, both = dice.random() < CLEAN, dice.random() < SECOND
    chosen = [] if (clean and kind is None) or kind == CLEAN_KIND else [kind or drawn]
    if chosen and split == "test" and both and kind is None and KINDS[chosen[0]].stops and second != chosen[0]:
        chosen.append(second)
    for name in chosen:
        plan = _fitting(plan, name, free=steps is None, free_clock=clocking is None)
    placed = [Placed(0, KINDS[name], magnitude, onset) for name in chosen[:1]]
    placed += [Placed(1, KINDS[name], None, plan.steps // 4) for name in chosen[1:]]
    if oddities:
        placed += [
            Placed(10 + at, oddity, None, None)
            for at, oddity in enumerate(ODDITIES)
            if dice.random() < 1 / len(ODDITIES)
        ]
    return Simulation(plan, placed)


def _fitting(plan: Plan, name: str, *, free: bool, free_clock: bool) -> Plan:
    """The plan changed as little as the fault needs: enough nodes and stages that the struck ones are the fewer, saves,
    devices, length; a stage that was slow from the first step on shows only where self time is measured."""
    layout, telemetry, habits = plan.layout, plan.telemetry, plan.habits
    parts = 4 if layout.ranks >= 4 and layout.ranks % 4 == 0 else 2
    if name in _NODES_NEEDED and layout.nodes < parts:
        layout = layout._replace(per_node=layout.ranks // parts, tp=1, dp=layout.ranks // layout.pp)
    if name == "slow_stage" and layout.pp < parts:
        layout = Layout(layout.ranks // parts, parts, 1, layout.per_node, layout.prefix)
    if name in _SAVES_NEEDED and not habits.checkpoint_every:
        habits = msgspec.structs.replace(habits, checkpoint_every=100)
    if name == "checkpoint_stall":
        telemetry = msgspec.structs.replace(telemetry, announced=True)
    if name == "slow_stage" and telemetry.clocking in ("none", "host_async") and free_clock:
        telemetry = msgspec.structs.replace(telemetry, clocking="device", announced=True)
    if name in _DEVICES_NEEDED:
        telemetry = msgspec.structs.replace(telemetry, devices=True)
    if name == "nan_one_rank":
        telemetry = msgspec.structs.replace(telemetry, values_of_all=True, values_every=1)
    steps = max(plan.steps, _LONG.get(name, 0)) if free else plan.steps
    return msgspec.structs.replace(plan, layout=layout, telemetry=telemetry, habits=habits, steps=steps)
