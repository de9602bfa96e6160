"""The one table of metric names: which series means what to the detectors.

People name their metrics as they like; the last part of the path decides, other parts may exclude (a validation loss is no
training loss). Names below ``system/`` are those that ``stepward.collect`` writes.
"""

import re
from enum import Enum, auto


class Meaning(Enum):
    """What a series is to a detector."""

    LOSS = auto()
    GRAD_NORM = auto()
    STEP_TIME = auto()
    THROUGHPUT = auto()
    COMPILE_TIME = auto()
    DUTY = auto()
    DEVICE_MEMORY_USED = auto()
    DEVICE_MEMORY_TOTAL = auto()
    DEVICE_CLOCK = auto()
    DEVICE_THROTTLE = auto()
    DEVICE_ECC_CORRECTED = auto()
    DEVICE_ECC_UNCORRECTED = auto()
    DEVICES_FAILED = auto()
    HOST_CPU = auto()
    HOST_MEMORY_USED = auto()
    HOST_MEMORY_TOTAL = auto()
    CGROUP_MEMORY_USED = auto()
    CGROUP_MEMORY_LIMIT = auto()
    OOM_KILLS = auto()
    DISK_FREE = auto()
    DISK_USED = auto()
    NIC_ERRORS = auto()


_SYSTEM = {
    "system/device/utilization": Meaning.DUTY,
    "system/device/memory_used": Meaning.DEVICE_MEMORY_USED,
    "system/device/memory_total": Meaning.DEVICE_MEMORY_TOTAL,
    "system/device/clock_sm": Meaning.DEVICE_CLOCK,
    "system/device/throttle_hw_slowdown": Meaning.DEVICE_THROTTLE,
    "system/device/throttle_hw_thermal": Meaning.DEVICE_THROTTLE,
    "system/device/throttle_sw_thermal": Meaning.DEVICE_THROTTLE,
    "system/device/throttle_hw_power_brake": Meaning.DEVICE_THROTTLE,
    "system/device/throttle_power_cap": Meaning.DEVICE_THROTTLE,
    "system/device/ecc_corrected": Meaning.DEVICE_ECC_CORRECTED,
    "system/device/ecc_uncorrected": Meaning.DEVICE_ECC_UNCORRECTED,
    "system/devices_failed": Meaning.DEVICES_FAILED,
    "system/host/cpu": Meaning.HOST_CPU,
    "system/host/memory_used": Meaning.HOST_MEMORY_USED,
    "system/host/memory_total": Meaning.HOST_MEMORY_TOTAL,
    "system/host/oom_kills": Meaning.OOM_KILLS,
    "system/cgroup/memory_used": Meaning.CGROUP_MEMORY_USED,
    "system/cgroup/memory_limit": Meaning.CGROUP_MEMORY_LIMIT,
    "system/cgroup/oom_kills": Meaning.OOM_KILLS,
}
_SYSTEM_PATTERNS = (
    (re.compile(r"system/disk/[^/]+/free"), Meaning.DISK_FREE),
    (re.compile(r"system/disk/[^/]+/used"), Meaning.DISK_USED),
    (re.compile(r"system/network/[^/]+/errors"), Meaning.NIC_ERRORS),
)
_LAST_PART = (
    (re.compile(r"(?:(?:train|training|total|lm|mean|avg|step|batch|global)_?)?loss(?:_train|_step)?"), Meaning.LOSS),
    (re.compile(r"(?:(?:global|total|pre_clip|train)_)?grad(?:ient)?s?_(?:l2_)?norm(?:_total)?"), Meaning.GRAD_NORM),
    (re.compile(r"(?:train_)?(?:step|iteration|iter|batch)_time(?:_s|_sec|_ms)?|(?:s|sec|seconds)_per_(?:step|it)"),
     Meaning.STEP_TIME),
    (re.compile(r"throughput|(?:tokens|samples|examples|images|steps|it)(?:_per_s(?:ec|econd)?|_s)|tgs|tps"),
     Meaning.THROUGHPUT),
    (re.compile(r"(?:backend_)?compile(?:_time|_duration)(?:_s|_sec)?|jaxpr_to_mlir_module_duration"),
     Meaning.COMPILE_TIME),
    (re.compile(r"(?:tpu|gpu|accelerator|device)?_?duty_cycle(?:_pct)?|gpu_util(?:ization)?"), Meaning.DUTY),
)  # fmt: skip
_NOT_TRAINING = re.compile(r"(?:^|[/_.])(?:val|valid|validation|eval|evaluation|test|dev)(?:$|[/_.])")


def meaning(metric: str) -> Meaning | None:
    """What a metric means, None for one that no detector knows by its name."""
    if metric.startswith("system/"):
        known = _SYSTEM.get(metric)
        if known is None:
            known = next((what for pattern, what in _SYSTEM_PATTERNS if pattern.fullmatch(metric)), None)
        return known
    name = metric.lower().replace(" ", "_").replace("-", "_")
    if _NOT_TRAINING.search(name):
        return None
    last = re.split(r"[/.]", name)[-1]
    return next((what for pattern, what in _LAST_PART if pattern.fullmatch(last)), None)
