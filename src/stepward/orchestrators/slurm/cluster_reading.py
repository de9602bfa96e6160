"""The cluster itself as records: ``scontrol -o show node|partition``, ``show config``, ``ping``. Pure.

These are written by administrators, and their keys are known: a value reaches to the next known key, so that it may hold
blanks and equal signs of its own.
"""

import re
from collections.abc import Iterator, Sequence

from stepward.errors import ParseError
from stepward.model.slurm_text import duration_s
from stepward.orchestrators.slurm.reading import integer, moment, nodes
from stepward.orchestrators.slurm.records import Controller, SlurmNode, SlurmPartition
from stepward.orchestrators.slurm.states import node_state
from stepward.orchestrators.slurm.table import NOTHING

_NODE_KEYS = (
    "NodeName", "Arch", "CoresPerSocket", "CPUAlloc", "CPUEfctv", "CPUErr", "CPUTot", "CPULoad", "AvailableFeatures",
    "ActiveFeatures", "Gres", "GresDrain", "GresUsed", "NodeAddr", "NodeHostName", "Port", "Version", "OS", "RealMemory",
    "AllocMem", "FreeMem", "Sockets", "Boards", "CoreSpecCount", "CPUSpecList", "MemSpecLimit", "State", "ThreadsPerCore",
    "TmpDisk", "Weight", "Owner", "MCS_label", "Partitions", "NextState", "BootTime", "SlurmdStartTime", "LastBusyTime",
    "ResumeAfterTime", "CfgTRES", "AllocTRES", "CapWatts", "CurrentWatts", "AveWatts", "ExtSensorsJoules",
    "ExtSensorsWatts", "ExtSensorsTemp", "Reason", "Comment", "Extra", "InstanceId", "InstanceType", "ReservationName",
)  # fmt: skip
SLURMD_PORT = 6818
"""Slurm's own default, which its answers leave out (slurm.conf(5), SlurmdPort)."""
_PARTITION_KEY = re.compile(r"(?:^|\s)([A-Z]\w*)=")
_REASON = re.compile(r"(?P<words>.*?)\s*\[(?P<who>[^\]@]*)@(?P<when>[^\]]*)\]", re.DOTALL)
_PING = re.compile(r"Slurmctld\(([^)]*)\) at (\S+) is (\w+)")


def read_nodes(text: str) -> list[SlurmNode]:
    """The nodes of ``scontrol -o show node``.

    Raises:
        ParseError: ``slurm_malformed``.
    """
    return [_node(fields) for fields in _records(text, "NodeName", _NODE_KEYS)]


def read_partitions(text: str) -> list[SlurmPartition]:
    """The partitions of ``scontrol -o show partition``; raises as ``read_nodes``."""
    return [_partition(fields) for fields in _records(text, "PartitionName", None)]


def read_config(text: str) -> dict[str, str]:
    """The lines ``key = value`` of ``scontrol show config``."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip(): "" if value.strip() in NOTHING else value.strip() for key, equals, value in pairs if equals}


def read_ping(text: str) -> list[Controller]:
    """The controllers of ``scontrol ping``: the primary first."""
    return [Controller(found[2], found[3] == "UP") for found in _PING.finditer(text)]


def _records(text: str, first: str, keys: Sequence[str] | None) -> Iterator[dict[str, str]]:
    known = None if keys is None else re.compile(rf"(?:^|\s)({'|'.join(keys)})=")
    for line in text.splitlines():
        if not line.strip():
            continue
        if not line.startswith(f"{first}="):
            if line.startswith("No ") or "not found" in line:
                continue
            raise ParseError(f"{line[:120]!r} is no record of scontrol", code="slurm_malformed", sample=line[:300])
        # A key that comes again is part of a value: what people write freely is at the end of a record.
        firsts: dict[str, re.Match[str]] = {}
        for one in (known or _PARTITION_KEY).finditer(line):
            firsts.setdefault(one[1], one)
        found = list(firsts.values())
        ends = [*(one.start() for one in found[1:]), len(line)]
        fields = {one[1]: line[one.end() : end].strip() for one, end in zip(found, ends, strict=True)}
        yield {key: "" if value in NOTHING else value for key, value in fields.items()}


def _node(fields: dict[str, str]) -> SlurmNode:
    base, flags = node_state(fields.get("State", ""))
    told = _REASON.fullmatch(fields.get("Reason", ""))
    return SlurmNode(
        name=fields["NodeName"],
        base=base,
        flags=flags,
        reason=told["words"] if told else fields.get("Reason", ""),
        reason_by=told["who"] if told else "",
        reason_at=moment(told["when"]) if told else None,
        partitions=_names(fields.get("Partitions", "")),
        address=fields.get("NodeAddr", ""),
        port=integer(fields.get("Port", "")) or SLURMD_PORT,
        host=fields.get("NodeHostName", ""),
        cpus=integer(fields.get("CPUTot", "")) or 0,
        allocated_cpus=integer(fields.get("CPUAlloc", "")) or 0,
        memory_mb=integer(fields.get("RealMemory", "")) or 0,
        allocated_memory_mb=integer(fields.get("AllocMem", "")) or 0,
        free_memory_mb=integer(fields.get("FreeMem", "")),
        load=_number(fields.get("CPULoad", "")),
        gres=fields.get("Gres", ""),
        gres_used=fields.get("GresUsed", ""),
        tres=fields.get("CfgTRES", ""),
        allocated_tres=fields.get("AllocTRES", ""),
        features=fields.get("ActiveFeatures", ""),
        boot_at=moment(fields.get("BootTime", "")),
        slurmd_start_at=moment(fields.get("SlurmdStartTime", "")),
        version=fields.get("Version", ""),
        comment=fields.get("Comment", ""),
        extra=fields.get("Extra", ""),
    )


def _partition(fields: dict[str, str]) -> SlurmPartition:
    limit = duration_s(fields.get("MaxTime", ""))
    return SlurmPartition(
        name=fields["PartitionName"],
        state=fields.get("State", "UNKNOWN").upper(),
        default=fields.get("Default") == "YES",
        nodes=nodes(fields.get("Nodes", "")),
        node_count=integer(fields.get("TotalNodes", "")) or 0,
        cpu_count=integer(fields.get("TotalCPUs", "")) or 0,
        max_time_s=None if limit == float("inf") else limit,
        default_time_s=duration_s(fields.get("DefaultTime", "")),
        min_nodes=integer(fields.get("MinNodes", "")) or 0,
        max_nodes=integer(fields.get("MaxNodes", "")),
        allow_accounts=_allowed(fields.get("AllowAccounts", "ALL")),
        allow_groups=_allowed(fields.get("AllowGroups", "ALL")),
        qos=fields.get("QoS", ""),
        tres=fields.get("TRES", ""),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _allowed(text: str) -> tuple[str, ...] | None:
    return None if text in {"ALL", ""} else _names(text)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
