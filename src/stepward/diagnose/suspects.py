"""Who is to be looked at: the ranks, nodes and devices that a cause names; nobody where everybody says the same.

A broken part is named by its own words first (the kernel log of its node), then by whoever saw it first; a rank that is
silent or lags while the others wait is named for the waits that it causes.
"""

from stepward.diagnose.clues import Clue, Kind
from stepward.diagnose.document import Suspects
from stepward.diagnose.ranking import Ranked
from stepward.diagnose.reading import Reading
from stepward.model.taxonomy import LABELS, Layer

NOBODY = frozenset(
    {
        "checkpoint_corrupt",
        "scheduler_limit",
        "preemption",
        "user_cancelled",
        "unschedulable",
        "storage_full",
        "recompilation",
        "input_bound",
    }
)
"""Labels for which no rank is to blame."""
PART = frozenset(
    label for label, (layer, _) in LABELS.items() if layer is Layer.INFRASTRUCTURE
) - {"storage_full", "network_config", "os_limits", "host_oom", "external_service"}  # fmt: skip
"""Labels whose cause sits in a part of one node that can be named and exchanged."""
WAITED_FOR = frozenset({"collective_desync", "hang_in_user_code"})
SEEN_AS = frozenset(
    {
        "cuda_kernel_fault",
        "gpu_driver_firmware",
        "input_bound",
        "workload_imbalance",
        "user_code_index",
        "data_pipeline",
        "hang_in_user_code",
    }
)
"""As what the rank on a broken part sees it."""
TOGETHER_S = 0.1
"""Within this of the first report, several ranks report at once."""


def suspects(one: Ranked, ranked: list[Ranked], reading: Reading) -> Suspects:
    """Suspects of a cause."""
    anchors = _first_by_clock([clue for clue in one.clues if clue.anchors]) if one.label in PART else one.clues
    anchors = [clue for clue in anchors if clue.anchors]
    ranks = _ranks(one, anchors, ranked, reading)
    devices = sorted({clue.device for clue in anchors if clue.device}) if one.label in PART else []
    return Suspects(_nodes(one, anchors, ranks, reading), ranks, devices)


def _first_by_clock(anchors: list[Clue]) -> list[Clue]:
    """Of several ranks with clocks that report the same, those who did first; the others share their fate."""
    timed = [clue.time for clue in anchors if clue.time is not None and clue.rank is not None and clue.kind is Kind.LOG]
    if len(timed) < 2:
        return anchors
    first = min(timed)
    return [
        clue for clue in anchors if clue.kind is not Kind.LOG or clue.time is None or clue.time <= first + TOGETHER_S
    ]


def _ranks(one: Ranked, anchors: list[Clue], ranked: list[Ranked], reading: Reading) -> list[int]:
    if one.label in NOBODY:
        return []
    # A time-out that is too short is nobody's fault; the rank that works meanwhile is worth naming all the same.
    named = [clue for clue in anchors if one.label != "timeout_budget" or clue.rule.startswith(("busy_", "stack_"))]
    own = {clue.rank for clue in named if clue.rank is not None}
    stacks = {clue.rank for clue in named if clue.kind is Kind.STACKS and clue.rank is not None}
    if stacks and one.anchor.kind is Kind.STACKS:
        return sorted(stacks)
    if one.label in WAITED_FOR and not stacks and (silent := reading.launcher.silent()):
        return silent
    if one.label in PART:
        return sorted(own | _seen_by(one, ranked, reading)) or _on_node(anchors, reading)
    # Where many see it in their numbers, who says it in words saw it first.
    if len(own) > 1 and one.anchor.kind is Kind.LOG and one.anchor.rank is not None:
        own = {clue.rank for clue in named if clue.rule == one.anchor.rule and clue.rank is not None}
    few = one.anchor.kind is Kind.METRICS and 2 * len(own) <= len(reading.places or reading.launcher.ranks)
    if len(own) > 1 and one.label not in WAITED_FOR and not few:
        return []
    return [] if own == reading.launcher.ranks == {0} else sorted(own)


def _seen_by(one: Ranked, ranked: list[Ranked], reading: Reading) -> set[int]:
    """Ranks that saw a broken part as an error of another label, or that the others waited for."""
    explained = [other for other in ranked if other.explained_by == one.label and other.label in SEEN_AS]
    found = {clue.rank for other in explained for clue in other.clues if clue.anchors}
    found |= {clue.rank for clue in reading.clues if clue.rule == "waits_least"}
    return {rank for rank in found if rank is not None}


def _on_node(anchors: list[Clue], reading: Reading) -> list[int]:
    """Ranks of the one node that a broken part is on: the silent one, the first that ended, else the only one there."""
    nodes = {clue.node for clue in anchors if clue.node}
    there = [rank for rank, node in sorted(reading.places.items()) if nodes == {node}]
    silent = [rank for rank in reading.launcher.silent() if rank in there]
    ended = [one.rank for one in reading.launcher.exits if one.rank in there]
    return silent or [rank for rank in ended[:1] if rank is not None] or (there if len(there) == 1 else [])


def _nodes(one: Ranked, anchors: list[Clue], ranks: list[int], reading: Reading) -> list[str]:
    if one.label in NOBODY - {"preemption"} or one.label == "timeout_budget":
        return []
    part = one.label in PART
    own = {clue.node for clue in anchors if clue.node and clue.names_node}
    peers = {clue.peer for clue in anchors if clue.peer and clue.rule in {"ib_retry", "efa"}}
    if not own and peers:
        own = set(peers)
    if not own and one.label != "network_config":
        own = {
            clue.node for clue in anchors if clue.node and (part or clue.rank is not None or clue.kind is not Kind.LOG)
        }
        own = own or {clue.node for clue in anchors if clue.node and len(reading.nodes) > 1}
    if not own and part and len(reading.nodes) == 1:
        own = set(reading.nodes)
    if not own and one.label != "network_config":
        own = {reading.places[rank] for rank in ranks if rank in reading.places}
    pods = reading.scheduler.pod_nodes
    placed = {pods.get(name, name) for name in own if name}
    everyone = {pods.get(name, name) for name in reading.nodes | set(reading.scheduler.nodes)}
    return [] if len(placed) > 1 and (not part or placed >= everyone) else sorted(placed)
