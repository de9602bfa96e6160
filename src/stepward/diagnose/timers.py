"""Tables of a phase's time per rank, as trainers print them between steps: a phase's name, then a line a rank.

A rank that computes longer than the others is a straggler; whether work or hardware makes it one, other inputs say.
"""

import re
from collections import defaultdict

from stepward.detect.speed import behind
from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.lines import Line

_HEAD = re.compile(r"^\s*([A-Za-z][\w./-]{2,40})(?: \(ms\)| \(s\))?:\s*$")
_ENTRY = re.compile(r"^\s*rank\s+(\d{1,6}):\s*([\d.]+)\s*(?:ms|s)?\s*$", re.IGNORECASE)
_COMPUTES = re.compile(r"forward|backward|compute|fwd|bwd|gemm|attn|mlp|expert|layer", re.IGNORECASE)
_COMMUNICATES = re.compile(r"recv|send|wait|reduce|gather|sync|comm|barrier|all_?to", re.IGNORECASE)


class Timers:
    """The last table of each phase."""

    def __init__(self) -> None:
        self._phase: dict[str, str] = {}
        self._times: dict[str, dict[int, tuple[float, Line]]] = defaultdict(dict)

    def read(self, line: Line) -> None:
        """Take a line of a log."""
        if not line.text.startswith((" ", "\t")):
            return
        if head := _HEAD.match(line.text):
            self._phase[line.source] = head[1]
        elif (entry := _ENTRY.match(line.text)) and line.source in self._phase and entry[2].count(".") < 2:
            self._times[self._phase[line.source]][int(entry[1])] = (float(entry[2]), line)

    def clues(self) -> list[Clue]:
        """Ranks whose computing stands out."""
        found = []
        for phase, times in self._times.items():
            if not _COMPUTES.search(phase) or _COMMUNICATES.search(phase):
                continue
            for rank in behind({who: seconds for who, (seconds, _) in times.items()}):
                says = f"{phase} of rank {rank} takes longer than that of the others"
                made = clue(
                    "timer_behind",
                    "workload_imbalance",
                    Kind.LOG,
                    times[rank][1],
                    says,
                    role=Role.EITHER,
                    more=0.9,
                    rank=rank,
                )
                found.append(made)
        return found
