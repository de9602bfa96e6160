"""The detectors, one module a subject. Each class says its signal, method, thresholds with their source, and what fools it.

"thresholds 3" in a docstring is section 3 of docs/thresholds.md; docs/detect.md has what users need of them.
"""

from stepward.detect.detectors.attempts import NoProgressRestart, RestartLoop, RunDetector, SchedulingDelay
from stepward.detect.detectors.checkpoints import CheckpointStall
from stepward.detect.detectors.compiles import RecompilationStorm
from stepward.detect.detectors.devices import DutyCycle
from stepward.detect.detectors.disk import DiskFilling
from stepward.detect.detectors.ends import Crash, OutOfMemory, Preemption
from stepward.detect.detectors.gaps import TelemetryGap
from stepward.detect.detectors.hang import Hang
from stepward.detect.detectors.hardware import HardwareFault
from stepward.detect.detectors.input_bound import InputBound
from stepward.detect.detectors.loss import LossSpike, NonFinite
from stepward.detect.detectors.memory import MemoryGrowth
from stepward.detect.detectors.slowdown import Slowdown
from stepward.detect.detectors.straggler import Straggler
from stepward.detect.scene import Detector

ATTEMPT_DETECTORS: tuple[type[Detector], ...] = (
    HardwareFault,
    OutOfMemory,
    Preemption,
    DiskFilling,
    MemoryGrowth,
    CheckpointStall,
    InputBound,
    RecompilationStorm,
    Straggler,
    Slowdown,
    DutyCycle,
    LossSpike,
    NonFinite,
    TelemetryGap,
    Hang,
    Crash,
)
"""Causes before their consequences, so that at one instant a consequence finds its cause."""
RUN_DETECTORS: tuple[type[RunDetector], ...] = (RestartLoop, NoProgressRestart, SchedulingDelay)
