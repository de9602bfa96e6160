"""Kubernetes' own words: ``kubectl describe``, ``kubectl get events``, audit lines.

Signatures name the causes; this reader knows the state of the whole, which pod ran on which node, and that a warning
before a pod started is history once it ran.
"""

import re
from collections.abc import Iterable

from stepward.diagnose.clues import Kind, Role, clue
from stepward.diagnose.lines import Line
from stepward.diagnose.verdicts import End, SchedulerVerdict

_PODS = re.compile(r"Pods Statuses:\s*(\d+) (?:Active|Running).*?/ (\d+) Succeeded / (\d+) Failed")
_FIELD = re.compile(r"^\s*([A-Z][\w ]*?):\s+(\S.*?)\s*$")
_STATES: dict[str, End] = {"Running": "running", "Pending": "pending", "Succeeded": "completed", "Failed": "failed"}
_DONE = re.compile(
    r"\bNormal\s+Completed\b|\bJob completed\b|\bComplete\s+True\b|AllJobsCompleted|JobSucceeded|\bSucceeded\s+True\b"
)


def read_kubernetes(lines: Iterable[Line]) -> SchedulerVerdict:
    """What Kubernetes' text says of the job; gives lines the node of the pod or node that they describe."""
    verdict = SchedulerVerdict()
    name, node, kind, reason = "", None, "", ""
    for line in lines:
        text = line.text
        if _DONE.search(text):
            verdict.settle("completed")
        if pods := _PODS.search(text):
            active, succeeded, failed = (int(part) for part in pods.groups())
            verdict.settle("failed" if failed else "running" if active else "completed" if succeeded else "pending")
        field = _FIELD.match(text)
        key, value = (field[1], field[2]) if field else ("", "")
        if key == "Name" and not text.startswith(" "):
            name, node, kind = value, None, "pod"
        elif key in {"Roles", "Unschedulable", "Non-terminated Pods"} and kind == "pod" and node is None:
            node, kind = name, "node"
        elif key == "Node" and value not in {"<none>", ""}:
            node = value.partition("/")[0]
            verdict.pod_nodes[name] = node
            verdict.nodes.append(node)
        elif key == "Status" and not text.startswith("  "):
            _status(verdict, value)
        elif key == "Reason":
            reason = value
            verdict.says_oom = verdict.says_oom or value == "OOMKilled"
        elif key == "Exit Code" and value.isdigit():
            verdict.knows_exits = True
            verdict.settle("completed" if value == "0" and reason == "Completed" else "failed")
        line.node = line.node or node
        if re.search(r"\bReady\s+(?:False|Unknown)\b", text) and kind == "node":
            verdict.clues.append(
                clue(
                    "node_condition", "node_failure", Kind.SCHEDULER, line, "the node is not ready",
                    role=Role.EITHER, more=1.0, node=node, names_node=True,
                )
            )  # fmt: skip
    return verdict


def _status(verdict: SchedulerVerdict, value: str) -> None:
    word = value.partition(" ")[0]
    if word in _STATES:
        verdict.settle(_STATES[word])
