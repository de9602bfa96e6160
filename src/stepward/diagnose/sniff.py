"""What an input is, by its name where that says so and else by its first lines.

Never fails: what looks like nothing else is a log.
"""

import re
from typing import Literal

Sort = Literal["log", "scheduler", "kernel", "stacks", "metrics", "empty", "binary"]

_NAMES: list[tuple[str, Sort]] = [
    (
        r"(?:^|/)(?:scheduler|sacct|squeue|scontrol|slurm-?state|kubectl|describe|k8s-?events|events?)[\w.-]*\.(?:txt|out|log)$",
        "scheduler",
    ),
    (r"(?:^|/)(?:kernel|dmesg|kern|syslog|messages|journal)[\w.-]*\.?(?:log|txt|out)?(?:\.\d)?$", "kernel"),
    (r"(?:^|/)(?:stacks?|py-?spy|stacktraces?|pystacks?)[\w.-]*\.(?:txt|log|out)$", "stacks"),
    (r"(?:^|/)metrics?[\w.-]*\.(?:txt|jsonl?|csv|ya?ml|prom|ndjson)$|\.(?:csv|prom|jsonl|ndjson)$", "metrics"),
]
_SCHEDULER = re.compile(
    r"^JobID\w*\|.*\bState\b|^\s*JobId=\d+|^NodeName=\S+ Arch|^Name:\s{2,}\S+|^\s*JOBID\s+PARTITION|^LAST SEEN\s+TYPE|"
    r"^\s*JobState=|^\s*PARTITION\s+AVAIL",
    re.MULTILINE,
)
_STACKS = re.compile(
    r"^\s*Thread (?:0x)?[0-9a-f]+ \((?:active|idle)|^Process \d+: |^\s+\w[^\n]* \([\w./<>-]+\.py:\d+\)$", re.MULTILINE
)
_KERNEL = re.compile(
    r"^(?:\S+ )?\[\s*\d+\.\d+\] |^(?:\S+ )?\[\w{3} \w{3}\s+\d+ [\d:]+ \d{4}\] |\bkernel: |^(?:\S+ )?NVRM: "
)
_PROMETHEUS = re.compile(r'^# (?:TYPE|HELP) \w+|^[a-zA-Z_:][\w:]*\{[^}]*="[^}]*\} [-+.\dNIe]+', re.MULTILINE)
_CSV_NUMBERS = re.compile(r"^[^,\n]*(?:,\s*[-+.\deE]*|,\s*nan|,\s*inf){1,}\s*$", re.IGNORECASE)


def sniff(name: str, head: str) -> Sort:
    """The sort of an input from its name below the given path and its first lines."""
    if not head.strip():
        return "empty"
    for pattern, sort in _NAMES:
        if re.search(pattern, name, re.IGNORECASE):
            return sort
    if len(_STACKS.findall(head)) >= 2:
        return "stacks"
    if _SCHEDULER.search(head):
        return "scheduler"
    lines = [line for line in head.splitlines() if line.strip()][:50]
    if sum(bool(_KERNEL.search(line)) for line in lines) * 2 > len(lines):
        return "kernel"
    return "metrics" if _numbers(head, lines) else "log"


def _numbers(head: str, lines: list[str]) -> bool:
    if len(_PROMETHEUS.findall(head)) * 2 >= len(lines):
        return True
    if all(line.startswith("{") and line.rstrip().endswith("}") and '":' in line for line in lines[:5]):
        return '"message"' not in head and '"msg"' not in head and '"log"' not in head
    return len(lines) >= 3 and "," in lines[0] and all(_CSV_NUMBERS.match(line) for line in lines[1:6])
