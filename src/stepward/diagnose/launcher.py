"""What launchers and watchdogs report of processes: exits, the root-cause block, collectives that timed out, activities.

Watchdog reports are turned into what they mean: which collective, since when (the time-out is subtracted), who reports
and who is silent, whose sequence number lags, who called something else.
"""

import re
from collections import Counter

import msgspec

from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.lines import Line
from stepward.diagnose.tables import table

_BLOCK = re.compile(r"^\W*(rank|host|exitcode|time|traceback)\s*:\s*(\S+)")
_PROCESS = re.compile(r"(?:^|[\s:])([A-Za-z][\w.-]*):(\d{1,9}):\d+ \[\d+\](?:.*?\brank (\d{1,7}) nranks)?")
_BLOCK_PID = re.compile(r"\(pid: (\d{1,9})\)")
MOST_PROCESSES = 1 << 16
_ELASTIC = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)")
_EXIT = re.compile(r"(?:return code|exit(?:ed)?(?: with)?(?: exit)? ?code)[ =:]+(-?\d+)", re.IGNORECASE)
_WORK = re.compile(
    r"WorkNCCL\((?:SeqNum|OpSeq|Seq)=(\d+), OpType=(\w+)(?:, NumelIn=(\d+), NumelOut=(\d+))?"
    r".{0,40}?Timeout\(ms\)=(\d+)\) ran for (\d+)"
)
_QUEUE = re.compile(r"last enqueued (?:NCCL )?work: (\d+), last completed (?:NCCL )?work: (\d+)")
_FINGERPRINT = re.compile(r"Rank (\d+) is running collective: .{0,80}?OpType=(\w+)")
_REPORTER = re.compile(r"\[[Rr]ank ?(\d+)\]")
_WORLD = re.compile(r"world[ _]?size\W{1,3}(\d+)", re.IGNORECASE)
_PEER = re.compile(
    r"(?:peer|remote|from|with|closed by|connect(?:ing)? to)\s+\[?([A-Za-z][\w.-]*\d[\w-]*)(?:<\d+>|[\]:])",
    re.IGNORECASE,
)
_VICTIM = re.compile(
    r"another task died|detected fatal errors|To avoid (?:data )?inconsistency|failed or timed out|ncclRemoteError|watchdog",
    re.IGNORECASE,
)
_UNHEALTHY = re.compile(r"/task:(\d+)")
_BUSY = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in table("activities")["work"].items()}
_OVER = re.compile(
    r"error|exception|traceback|fail|timeout|timed out|\bdone\b|finished|complete|succeed|saved .{0,80} in ",
    re.IGNORECASE,
)
"""Work of which this is said is no longer going on."""
_FINISHED = re.compile(
    r"(?:finished|complet|done|took|succeed)\w*\b.{0,40}?\d (?:s|sec|min|ms)|in [\d.]+ ?(?:s|sec|min)\b", re.IGNORECASE
)
"""Work that came to its end, and how long it took."""
_STEMS: list[str] = table("activities")["prefilter"]["stems"]
"""Cheap to look for; what has none of them announces no long work."""


class Exit(msgspec.Struct):
    """An end of one process, as a launcher saw it."""

    code: int
    line: Line
    rank: int | None = None
    node: str | None = None


class Watch(msgspec.Struct):
    """A rank's report of a collective that timed out."""

    rank: int | None
    line: Line
    sequence: int
    operation: str
    size: str
    timeout_s: float


class Activity(msgspec.Struct):
    """The last long work that a rank announced."""

    kind: str
    line: Line


class Launcher:
    """Everything that launchers and watchdogs say in one diagnosis."""

    def __init__(self) -> None:
        self.exits: list[Exit] = []
        self.watches: list[Watch] = []
        self.enqueued: dict[int, tuple[int, Line]] = {}
        self.reporters: set[int] = set()
        self.ranks: set[int] = set()
        self.unhealthy: dict[int, Line] = {}
        self.busy: dict[int | None, Activity] = {}
        self.finished: dict[str, Activity] = {}
        """The last work of each kind that is told to have ended well."""
        self.fingerprints: dict[int, tuple[str, Line]] = {}
        self.world = 0
        self.processes: dict[tuple[str | None, int], int] = {}
        """(node, process id) -> rank, as far as lines tell."""
        self._block: dict[str, str] = {}

    def read(self, line: Line, *, progress: bool) -> None:
        """Take a line of a log."""
        if line.rank is not None:
            self.ranks.add(line.rank)
        text, low = line.text, line.text.lower()
        if "exit" in low or "return code" in low or self._block or " : " in text:
            self._exits(line)
        if "NCCL" in text and (found := _PROCESS.search(text)) and (found[3] or line.rank is not None):
            self._process(found[1], int(found[2]), int(found[3]) if found[3] else line.rank or 0)
        if "world" in low and (found := _WORLD.search(text)):
            self.world = max(self.world, min(int(found[1]), 1 << 20)) if len(found[1]) < 8 else self.world
        if "running collective" in text:
            self.fingerprints.update({int(rank): (operation, line) for rank, operation in _FINGERPRINT.findall(text)})
        reporter = _REPORTER.search(text) if "ank" in text else None
        who = int(reporter[1]) if reporter else line.rank
        work = _WORK.search(text) if "Work" in text else None
        queue = _QUEUE.search(text) if "enqueued" in text else None
        if work:
            self.watches.append(Watch(who, line, int(work[1]), work[2], f"{work[3]}/{work[4]}", int(work[5]) / 1000))
        if queue:
            self.enqueued[who if who is not None else -1] = (int(queue[1]), line)
        if (work or queue or _VICTIM.search(text)) and who is not None:
            self.reporters.add(who)
        if "unhealthy" in text:
            self.unhealthy.update({int(task): line for task in _UNHEALTHY.findall(text)})
        elif not (work or queue or progress) and any(stem in low for stem in _STEMS):
            self._activity(line)

    def _activity(self, line: Line) -> None:
        # Indented lines are the code of a traceback's frames.
        if line.body.startswith("  "):
            return
        kind = next((kind for kind, pattern in _BUSY.items() if pattern.search(line.body)), None)
        if kind is None:
            return
        if not _OVER.search(line.body):
            self.busy[line.rank] = Activity(kind, line)
        elif _FINISHED.search(line.body):
            self.finished[kind] = Activity(kind, line)

    def _exits(self, line: Line) -> None:
        if block := _BLOCK.match(line.body):
            self._block[block[1]] = block[2]
            if block[1] == "exitcode" and re.fullmatch(r"-?\d{1,5}", block[2]):
                rank = self._block.get("rank", "")
                if rank.isdigit() and len(rank) < 8 and (process := _BLOCK_PID.search(line.body)):
                    self._process(self._block.get("host"), int(process[1]), int(rank))
                self.exits.append(
                    Exit(
                        int(block[2]),
                        line,
                        int(rank) if rank.isdigit() and len(rank) < 8 else line.rank,
                        self._block.get("host"),
                    )
                )
            return
        found = _ELASTIC.search(line.text) or _EXIT.search(line.text)
        if found and len(found[1]) < 6 and int(found[1]) != 0:
            self.exits.append(Exit(int(found[1]), line, line.rank, line.node))

    def silent(self) -> list[int]:
        """Ranks that are known and do not report what the others report; empty unless most ranks report."""
        if len(self.reporters) < (1 if self.world == 2 else 2):
            return []
        known = self.ranks | (set(range(self.world)) if self.world <= 4096 else set())
        missing = sorted(known - self.reporters)
        return missing if len(missing) <= max(1, len(self.reporters) // 2) else []

    def _process(self, node: str | None, number: int, rank: int) -> None:
        if len(self.processes) < MOST_PROCESSES:
            self.processes[node, number] = rank

    def rank_of(self, node: str | None, process: int) -> int | None:
        """The rank that a process of a node is; None where none, or ranks of several nodes, could be meant."""
        if (node, process) in self.processes:
            return self.processes[node, process]
        ranks = {
            rank
            for (where, number), rank in self.processes.items()
            if number == process and (node is None or where is None)
        }
        return ranks.pop() if len(ranks) == 1 else None

    def lagging(self) -> list[int]:
        """Ranks whose last enqueued collective is behind the others'."""
        numbers = {rank: number for rank, (number, _) in self.enqueued.items() if rank >= 0}
        if len(numbers) < 2 or len(set(numbers.values())) == 1:
            return []
        low = min(numbers.values())
        return sorted(rank for rank, number in numbers.items() if number == low)

    def clues(self) -> list[Clue]:
        """Desynchronisation as the reports themselves show it."""
        odd = self._odd({watch.rank: (f"{watch.operation} {watch.size}", watch.line) for watch in self._latest()})
        odd = odd or self._odd(dict(self.fingerprints))
        if odd:
            return [
                clue("odd_collective", "collective_desync", Kind.LOG, line,
                     "ranks are in different collectives, or in one of different sizes", more=1.2, rank=rank)
                for rank, line in odd
            ]  # fmt: skip
        return [
            clue("lagging_rank", "collective_desync", Kind.LOG, line,
                 f"rank {rank} is behind the others in its collectives", role=Role.EITHER, more=0.6, rank=rank)
            for rank in self.lagging()
            for _, line in [self.enqueued[rank]]
        ]  # fmt: skip

    def _latest(self) -> list[Watch]:
        """Reports of the sequence number that most ranks name."""
        counts = Counter(watch.sequence for watch in self.watches)
        most = counts.most_common(1)[0][0] if counts else None
        return [watch for watch in self.watches if watch.sequence == most]

    @staticmethod
    def _odd(calls: dict[int | None, tuple[str, Line]] | dict[int, tuple[str, Line]]) -> list[tuple[int | None, Line]]:
        counts = Counter(call for call, _ in calls.values())
        if len(counts) < 2:
            return []
        # Of equally rare calls the first one reported is the odd one.
        rare = min(counts, key=lambda call: counts[call])
        return [(rank, line) for rank, (call, line) in calls.items() if call == rare]


def named_peer(text: str) -> str | None:
    """The host that a transport error names as its peer."""
    found = _PEER.search(text)
    return found[1] if found else None
