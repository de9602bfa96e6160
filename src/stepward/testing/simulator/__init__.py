"""A training job that never was, and everything that would be heard of it, with the truth beside.

``simulate(seed)`` gives a run whose steps, readings, values, lines and ends agree with each other and with what befalls
it (``docs/simulator.md``). Needs numpy. It knows nothing of how faults are detected.
"""

from stepward.testing.simulator.drawing import simulate
from stepward.testing.simulator.faults import KINDS
from stepward.testing.simulator.plan import Clocking, Plan, Split
from stepward.testing.simulator.simulation import Item, Placed, Simulation
from stepward.testing.simulator.truth import Fault
from stepward.testing.simulator.voice import Text

__all__ = ["KINDS", "Clocking", "Fault", "Item", "Placed", "Plan", "Simulation", "Split", "Text", "simulate"]
