"""All kinds of faults that the simulator knows, by name, and the oddities that are none."""

from stepward.testing.simulator.faults.ends import ENDS
from stepward.testing.simulator.faults.hangs import HANGS
from stepward.testing.simulator.faults.hardware import HARDWARE
from stepward.testing.simulator.faults.numbers import NUMBERS
from stepward.testing.simulator.faults.oddities import ODDITIES
from stepward.testing.simulator.faults.speed import SPEED
from stepward.testing.simulator.faults.starts import STARTS
from stepward.testing.simulator.trouble import Trouble

KINDS: dict[str, type[Trouble]] = {kind.kind: kind for kind in (*SPEED, *NUMBERS, *HARDWARE, *HANGS, *ENDS, *STARTS)}

__all__ = ["KINDS", "ODDITIES"]
