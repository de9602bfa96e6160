"""Stacks of processes (py-spy dump and its like): who waits for the others, and what the one they wait for does.

A rank whose top frames are in a collective waits. If others do not wait, they are what is waited for; what they do says
the label. One rank alone, or all ranks in the same place outside a collective, are judged by what they do, too.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.lines import Line
from stepward.diagnose.tables import table

_PROCESS = re.compile(r"^\s*(?:Process|PID|pid|=+|#+|---+)[: ]*(\d+)?.*|^\s*\[?rank ?\d+\]?.{0,60}:\s*$", re.IGNORECASE)
_RANK = re.compile(r"\brank[ _=:]?(\d+)\b", re.IGNORECASE)
_NODE = re.compile(r"\b(?:on|node|host)[ =:]+([a-z][\w-]*\d[\w-]*)", re.IGNORECASE)
_THREAD = re.compile(r"^\s*Thread\b.*", re.IGNORECASE)
_FRAME = re.compile(
    r"^\s+(?:at )?(\S.*?) \(([^()]*?)(?::(\d+))?\)\s*$|^\s+File \"([^\"]+)\", line (\d+),? in (\S+)|^\s*#\d+\s+(\S.*)$"
)
_COLLECTIVE = re.compile(
    r"\b(all_?reduce|all_?gather\w*|reduce_?scatter\w*|broadcast\w*|all_?to_?all\w*|barrier|monitored_barrier|send|recv|gather|scatter|reduce)\b.{0,60}"
    r"(?:distributed|c10d|nccl|gloo|mpi|horovod|deepspeed|comm)|wait_for_everyone|_engine_run_backward|nccl\w*(?:AllReduce|AllGather|Broadcast|ReduceScatter|Send|Recv)|"
    r"(?:cuda\w*|stream|event)[_ ]?synchronize|synchronize \(torch/cuda|block_until_ready|sync_global_devices|"
    r"wait \(torch/(?:distributed|_C)|work\.wait|"
    r"isend|irecv|batch_isend_irecv|_coalescing_manager|backward \(torch/(?:_tensor|autograd)",
    re.IGNORECASE,
)
_OPERATION = re.compile(
    r"\b(all_?reduce|all_?gather|reduce_?scatter|broadcast|all_?to_?all|barrier|send|recv|gather)", re.IGNORECASE
)


class Deed(NamedTuple):
    """What frames like these show a process to do, and what that makes it suspect of."""

    pattern: re.Pattern[str]
    label: str
    role: Role
    more: float
    says: str


DEEDS = [
    Deed(re.compile(one["match"], re.IGNORECASE), one["label"], Role(one["role"]), one["w"], one["says"])
    for one in table("stacks")["does"]
]


class Stack(msgspec.Struct):
    """Frames of one process's main thread, innermost first."""

    rank: int | None
    node: str | None
    line: Line
    frames: list[str]

    @property
    def collective(self) -> str | None:
        """The collective in whose wait the process is, or None."""
        for frame in self.frames[:4]:
            if _COLLECTIVE.search(frame):
                found = _OPERATION.search(frame)
                return found[1].lower().replace("_", "") if found else "collective"
        return None


def read_stacks(lines: Iterable[Line]) -> list[Stack]:
    """The main threads of all processes of a dump."""
    stacks: list[Stack] = []
    taking, header = False, None
    for line in lines:
        # A launcher that prefixes every line prefixes those of a dump as well.
        text = line.body if line.text.startswith("[") and line.body else line.text
        if (found := _FRAME.match(text)) and taking and stacks:
            # Python's own form is turned into py-spy's, which the tables are written for.
            stacks[-1].frames.append(f"{found[6]} ({found[4]}:{found[5]})" if found[4] else text.strip())
        elif _THREAD.match(text):
            # A dump lists the main thread first; others of the same process say little about the hang.
            main = "MainThread" in text or not stacks or stacks[-1].frames == []
            taking = main
            if main and (not stacks or stacks[-1].frames):
                stacks.append(_stack(header or line))
        elif _PROCESS.match(text) or _RANK.search(text):
            header, taking = line, True
            stacks.append(_stack(line))
    return [stack for stack in stacks if stack.frames]


def _stack(line: Line) -> Stack:
    rank, node = _RANK.search(line.text), _NODE.search(line.text)
    return Stack(int(rank[1]) if rank else line.rank, node[1] if node else line.node, line, [])


def stack_clues(stacks: list[Stack]) -> list[Clue]:
    """What the stacks of a hung run say."""
    waiting = [stack for stack in stacks if stack.collective]
    others = [stack for stack in stacks if not stack.collective]
    operations = {stack.collective for stack in waiting} - {"collective"}
    found = [one for stack in others if (one := _does(stack, bool(waiting)))]
    if not others and len(operations) > 1:
        found += _odd_collective(waiting)
    return found


def _does(stack: Stack, awaited: bool) -> Clue | None:
    """The clue of a process that does not wait in a collective; None if its frames say nothing."""
    for deed in DEEDS:
        frame = next((frame for frame in stack.frames if deed.pattern.search(frame)), None)
        if frame is not None:
            says = f"{_who(stack)} {deed.says}" + (" while the others wait" if awaited else "")
            return _clue(stack, deed.label, says, frame, role=deed.role, more=deed.more + (0.8 if awaited else 0))
    if awaited and stack.frames:
        says = f"{_who(stack)} is in its own code while the others wait"
        return _clue(stack, "hang_in_user_code", says, stack.frames[0], role=Role.EITHER, more=1.2)
    return None


def _odd_collective(waiting: list[Stack]) -> list[Clue]:
    counts: dict[str, list[Stack]] = {}
    for stack in waiting:
        counts.setdefault(stack.collective or "", []).append(stack)
    fewest = min(counts.values(), key=len)
    names = " and ".join(sorted(counts))
    says = f"ranks wait in different collectives: {names}"
    odd = fewest if len(fewest) * 2 < len(waiting) else waiting[:1]
    return [_clue(stack, "collective_desync", says, stack.frames[0], role=Role.ROOT, more=1.0) for stack in odd]


def _who(stack: Stack) -> str:
    return "a process" if stack.rank is None else f"rank {stack.rank}"


def _clue(stack: Stack, label: str, says: str, text: str, *, role: Role, more: float) -> Clue:
    line = stack.line
    return clue(
        f"stack_{label}",
        label,
        Kind.STACKS,
        line,
        says,
        text=text,
        role=role,
        more=more,
        rank=stack.rank,
        node=stack.node,
    )
