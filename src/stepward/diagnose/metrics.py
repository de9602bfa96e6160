"""What statements about metrics mean: thresholds in, clues out.

Thresholds are those of ``stepward.detect``; a comparison needs something to compare with, in the statement itself or in
the same metric of other nodes and ranks. A statement that denies (``no throttle reason``) speaks against its label.
"""

import math
from collections import defaultdict
from collections.abc import Callable

from stepward.detect.loss import judge_loss
from stepward.detect.series import median
from stepward.detect.speed import DATA_WAIT_SHARE, behind, waits_least
from stepward.detect.usage import CLOCK_LOST, DUTY_LOW, HOT_C, NEARLY_FULL, grows_to_limit, share
from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.devices import last_idle, living, spinning, unread
from stepward.diagnose.figures import Statement
from stepward.diagnose.losses import loss_clues
from stepward.diagnose.peers import PREFIX, course_clues, slower

Judged = tuple[str, Role, float, str] | None
_OF_NODES = {"thermal_power", "host_contention", "network_link"}
PRESSED = 20.0
"""Per cent of ten seconds in which some task waited for the resource (PSI)."""


class Metrics:
    """Statements of all inputs, and what follows from them."""

    def __init__(self, statements: list[Statement]) -> None:
        self.statements = [one for one in statements if not one.tracked]
        self.courses = [one for one in statements if one.tracked]
        self.idle = any(low_duty(one) for one in self.statements if one.metric == "duty")
        self.flat = any(
            one.metric == "progress" and ("flat" in one.text or "no " in one.text.lower()) for one in statements
        )

    @property
    def slower(self) -> bool:
        """Whether steps got slower, known cause or not."""
        return slower(self.courses)

    def clues(self) -> list[Clue]:
        """Clues of single statements and of comparisons between nodes and ranks."""
        found = []
        for one in self.statements:
            judge = JUDGES.get(one.metric)
            judged = judge(one, self) if judge and not one.denied else None
            if judged:
                label, role, more, says = judged
                found.append(_clue(one, label, role, more, says))
        found += [*self._between(), *course_clues(self.courses)]
        if not any(one.rule.startswith(PREFIX) for one in found):
            found += spinning(self.courses)
        return [*found, *loss_clues(self.courses)]

    def idle_at_end(self) -> list[Statement]:
        """What single devices did last, where they idled while most others worked: they have no course to be judged by."""
        return last_idle(self.courses)

    def unread_at_end(self) -> list[Statement]:
        """Devices whose readings do not go as far as their host's."""
        return unread(self.courses)

    def living_at_end(self) -> set[int]:
        """Ranks whose process is known to have been there to the end."""
        return living(self.courses)

    def denied(self) -> dict[str, str]:
        """Labels that a statement speaks against, and its text."""
        spoken = {
            "throttle": "thermal_power",
            "clock": "thermal_power",
            "link_errors": "network_link",
            "nvlink_errors": "nvlink_fabric",
            "memory_kills": "host_oom",
        }
        found = {spoken[one.metric]: one.text for one in self.statements if one.metric in spoken and one.denied}
        zero = {
            spoken[one.metric]: one.text
            for one in self.statements
            if one.metric in {"link_errors", "nvlink_errors", "memory_kills"} and one.value == 0
        }
        return {**found, **zero}

    def _between(self) -> list[Clue]:
        """One node or rank against the others in the same metric."""
        found: list[Clue] = []
        groups: dict[str, list[Statement]] = defaultdict(list)
        for one in self.statements:
            if (one.node or one.rank is not None) and math.isfinite(one.value):
                groups[one.metric].append(one)
        for metric, group in groups.items():
            values = [one.value for one in group]
            for one in group:
                others = [other.value for other in group if other is not one]
                if len(values) >= 2 and (judged := _apart(metric, one.value, median(others))):
                    found.append(_clue(one, *judged))
        for metric, judge in (("wait", waits_least), ("own_time", behind)):
            by_rank = {one.rank: one for one in groups[metric] if one.rank is not None}
            for rank in judge({who: one.value for who, one in by_rank.items()}):
                found.append(
                    _clue(by_rank[rank], "workload_imbalance", Role.CONFIRM, 0.5, f"rank {rank} is behind the others")
                )
        return found


def _apart(metric: str, value: float, others: float) -> tuple[str, Role, float, str] | None:
    if metric == "clock" and value < CLOCK_LOST * others:
        return "thermal_power", Role.ROOT, 0.3, "its clock is below the others'"
    if metric == "temperature" and value >= 80 and value >= others + 10:
        return "thermal_power", Role.EITHER, 0.8, "it is hotter than the others"
    if metric in {"retransmits", "link_errors"} and value > 20 * max(others, 1.0):
        return "network_link", Role.ROOT, 0.3, "its link errors stand out"
    if metric == "load" and value > 3 * max(others, 1.0):
        return "host_contention", Role.EITHER, 0.8, "its load stands out"
    return None


def low_duty(one: Statement) -> bool:
    """Whether a device is at work less than half of its time."""
    return math.isfinite(one.value) and share([one.value], one.unit) < DUTY_LOW


def _ratio(one: Statement) -> float:
    """Value by what it is compared with; NaN without."""
    return one.value / one.against if one.against else math.nan


def _data_wait(one: Statement, all_: Metrics) -> Judged:
    value = one.value
    if one.unit in {"s", "ms"}:
        steps = [other for other in all_.statements if other.metric == "step_time" and other.unit == one.unit]
        step = one.limit or (steps[0].value if steps else 0.0)
        value = value / step if step else math.nan
    part = share([value], one.unit) if math.isfinite(value) else math.nan
    return (
        ("input_bound", Role.ROOT, 1.0 if part > 0.4 else 0.3, f"steps wait for data {part:.0%} of their time")
        if DATA_WAIT_SHARE < part <= 1
        else None
    )


def _duty(one: Statement, _: Metrics) -> Judged:
    return (
        ("input_bound", Role.CONFIRM, -0.4, "accelerators are idle more than half of the time")
        if low_duty(one)
        else None
    )


def _cpu(one: Statement, all_: Metrics) -> Judged:
    full = one.limit and one.value >= NEARLY_FULL * one.limit
    if full or (one.unit in {"%", ""} and 95 <= one.value <= 101):
        return ("input_bound", Role.CONFIRM, 0.3, "the host's CPUs are saturated") if all_.idle else None
    return None


def _temperature(one: Statement, _: Metrics) -> Judged:
    hottest = max((value for value in one.values if math.isfinite(value)), default=0)
    return ("thermal_power", Role.EITHER, 0.8, f"{hottest:g} °C") if HOT_C <= hottest < 130 else None


def _throttle(one: Statement, _: Metrics) -> Judged:
    if one.values and one.value == 0:
        return None
    return "thermal_power", Role.ROOT, 0.5, "the device is throttled"


def _clock(one: Statement, _: Metrics) -> Judged:
    series = [value for value in one.values if math.isfinite(value)]
    if len(series) >= 3 and series[-1] < CLOCK_LOST * max(series[:2]):
        return "thermal_power", Role.ROOT, 0.3, "clocks fell"
    return ("thermal_power", Role.ROOT, 0.3, "clocks are held down") if _ratio(one) < CLOCK_LOST else None


def _pressure(label: str, role: Role, more: float, what: str) -> Callable[[Statement, Metrics], Judged]:
    def judge(one: Statement, _: Metrics) -> Judged:
        worst = max((value for value in one.values if math.isfinite(value)), default=0)
        return (label, role, more, f"tasks wait for {what} {worst:g} % of the time") if worst >= PRESSED else None

    return judge


def _load(one: Statement, _: Metrics) -> Judged:
    if one.limit and one.value > one.limit:
        return "host_contention", Role.ROOT, 0.3, f"load {one.value:g} on {one.limit:g} threads"
    return ("host_contention", Role.EITHER, 0.5, "the load rose") if _ratio(one) > 2 else None


def _steal(one: Statement, _: Metrics) -> Judged:
    return ("host_contention", Role.ROOT, 0.5, "CPU time is stolen") if one.value >= 5 else None


def _count(label: str, least: float, role: Role, more: float, says: str) -> Callable[[Statement, Metrics], Judged]:
    """At least so many, or so many more than what it is compared with."""

    def judge(one: Statement, _: Metrics) -> Judged:
        value = max((value for value in one.values if math.isfinite(value)), default=0)
        usual = one.against is not None and value <= 2 * one.against
        return (label, role, more, f"{says} ({value:g})") if value >= least and not usual else None

    return judge


def _retransmits(one: Statement, _: Metrics) -> Judged:
    return (
        ("network_link", Role.ROOT, 0.3, "retransmissions rose")
        if _ratio(one) >= 20 or (one.against is None and one.unit == "%" and one.value >= 1)
        else None
    )


def _link_state(one: Statement, _: Metrics) -> Judged:
    text = one.text.lower()
    return (
        ("network_link", Role.ROOT, 0.8, "a port is down")
        if any(word in text for word in ("down", "polling", "inactive", "disabled", "init"))
        else None
    )


def _rate(label: str) -> Callable[[Statement, Metrics], Judged]:
    def judge(one: Statement, _: Metrics) -> Judged:
        ratio = _ratio(one)
        worse = ratio >= 3 if "latency" in one.text.lower() or "await" in one.text.lower() else ratio <= 0.5
        return (label, Role.ROOT, 0.0, "it became much slower") if worse else None

    return judge


def _full(label: str, role: Role, more: float, says: str) -> Callable[[Statement, Metrics], Judged]:
    def judge(one: Statement, _: Metrics) -> Judged:
        finite = [value for value in one.values if math.isfinite(value)]
        if not finite:
            return None
        free = any(word in one.text.lower() for word in ("free", "avail"))
        if free and one.metric == "disk":
            return (label, role, more, says) if finite[-1] <= 0.5 else None
        at_limit = bool(one.limit) and finite[-1] >= NEARLY_FULL * (one.limit or 0)
        at_limit = at_limit or (one.unit == "%" and 97 <= finite[-1] <= 101)
        return (label, role, more, says) if at_limit or grows_to_limit(finite, one.limit or 0) else None

    return judge


def _save_time(one: Statement, _: Metrics) -> Judged:
    series = [value for value in one.values if math.isfinite(value)]
    grew = len(series) >= 4 and series[-1] >= 3 * median(series[: len(series) // 2])
    return (
        ("checkpoint_stall", Role.ROOT, 0.3, "saving became three times slower") if grew or _ratio(one) >= 3 else None
    )


def _compiles(one: Statement, _: Metrics) -> Judged:
    value = one.values[-1] if one.values else 0
    part = one.unit == "%" and one.value >= 10
    return (
        ("recompilation", Role.ROOT, 0.3, "compiling goes on after the warm-up")
        if part or (one.unit == "" and value >= 4)
        else None
    )


def _loss(one: Statement, _: Metrics) -> Judged:
    verdict = judge_loss(one.values)
    if verdict == "non_finite" or "nan" in one.text.lower().split():
        return "numerics_nan", Role.ROOT, 0.5, "the loss is not finite"
    return (
        ("numerics_nan", Role.ROOT, 0.0, "the loss diverges") if verdict == "divergence" or _ratio(one) >= 3 else None
    )


def _grad(one: Statement, _: Metrics) -> Judged:
    if any(not math.isfinite(value) for value in one.values[-3:]):
        return "numerics_nan", Role.ROOT, 0.3, "the gradient norm is not finite"
    finite = [value for value in one.values if math.isfinite(value)]
    jumped = len(finite) >= 4 and finite[-1] > 10 * median(finite[: max(2, len(finite) // 2)])
    return (
        ("numerics_nan", Role.CONFIRM, 0.9, "the gradient norm rose tenfold") if jumped or _ratio(one) >= 10 else None
    )


def _imbalance(one: Statement, _: Metrics) -> Judged:
    named = "imbalance" in one.text.lower() or "max/mean" in one.text.lower()
    return (
        ("workload_imbalance", Role.ROOT, 0.3, "ranks get unequal work")
        if (named and 1.3 <= one.value < 1000) or _ratio(one) >= 1.5
        else None
    )


def _queue(one: Statement, _: Metrics) -> Judged:
    empty = (one.values and one.value == 0) or "empty" in one.text.lower()
    return ("input_bound", Role.ROOT, 0.5, "the input queue is empty") if empty else None


def _loader_cpu(one: Statement, _: Metrics) -> Judged:
    return (
        ("input_bound", Role.ROOT, 0.4, "the loader's workers are saturated")
        if any(95 <= value <= 101 for value in one.values)
        else None
    )


JUDGES: dict[str, Callable[[Statement, Metrics], Judged]] = {
    "data_wait": _data_wait,
    "duty": _duty,
    "cpu": _cpu,
    "loader_cpu": _loader_cpu,
    "queue": _queue,
    "temperature": _temperature,
    "throttle": _throttle,
    "clock": _clock,
    "cpu_pressure": _pressure("host_contention", Role.ROOT, 0.7, "a CPU"),
    "io_pressure": _pressure("storage_io", Role.CONFIRM, 0.2, "I/O"),
    "memory_pressure": _pressure("host_oom", Role.CONFIRM, 0.3, "memory"),
    "iowait": _pressure("storage_io", Role.CONFIRM, 0.5, "I/O"),
    "load": _load,
    "steal": _steal,
    "cfs": _count("host_contention", 10, Role.ROOT, 0.0, "the CPU quota throttles"),
    "retransmits": _retransmits,
    "link_errors": _count("network_link", 10, Role.ROOT, 0.2, "errors on the link"),
    "nvlink_errors": _count("nvlink_fabric", 1, Role.ROOT, 0.3, "errors on NVLink"),
    "link_state": _link_state,
    "net_rate": _rate("network_link"),
    "storage_rate": _rate("storage_io"),
    "ecc_uncorrected": _count("gpu_memory_ecc", 1, Role.ROOT, 0.5, "uncorrectable memory errors"),
    "ecc_corrected": _count("gpu_memory_ecc", 1000, Role.CONFIRM, 0.4, "corrected memory errors"),
    "memory_kills": _count("host_oom", 1, Role.EITHER, 0.8, "the kernel has killed for memory"),
    "host_memory": _full("host_oom", Role.EITHER, 0.8, "host memory is full"),
    "device_memory": _full("gpu_oom", Role.CONFIRM, 0.0, "device memory is full"),
    "disk": _full("storage_full", Role.ROOT, 0.3, "a volume is full"),
    "shm": _full("os_limits", Role.ROOT, 0.3, "shared memory is full"),
    "files": _full("os_limits", Role.ROOT, 0.3, "the limit of open files is reached"),
    "save_time": _save_time,
    "compiles": _compiles,
    "loss": _loss,
    "grad_norm": _grad,
    "imbalance": _imbalance,
}


def _clue(one: Statement, label: str, role: Role, more: float, says: str) -> Clue:
    line = one.line
    return clue(f"metric_{one.metric}", label, Kind.METRICS, line, says, text=one.text,
                role=role, more=more, rank=one.rank, node=one.node, names_node=label in _OF_NODES)  # fmt: skip
