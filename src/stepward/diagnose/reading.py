"""All inputs of one diagnosis, read: clues and what the readers know beside them.

Lines go through here once. What they add up to is the matter of ``cascade`` and ``ranking``.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, tzinfo

from msgspec import structs

from stepward.diagnose.clocks import shown
from stepward.diagnose.clues import Clue, Kind, Role
from stepward.diagnose.document import InputNote
from stepward.diagnose.figures import Statement, read_metrics, said
from stepward.diagnose.kubernetes import read_kubernetes
from stepward.diagnose.launcher import Launcher, named_peer
from stepward.diagnose.lines import Attribution, Line, attribution, read_line
from stepward.diagnose.matcher import Matcher
from stepward.diagnose.metrics import Metrics
from stepward.diagnose.progress import Progress
from stepward.diagnose.signatures import Signature, catalogue
from stepward.diagnose.skim import skim
from stepward.diagnose.slurm import read_slurm
from stepward.diagnose.sniff import Sort, sniff
from stepward.diagnose.sources import Source
from stepward.diagnose.stacks import Stack, read_stacks
from stepward.diagnose.tables import table
from stepward.diagnose.timers import Timers
from stepward.diagnose.verdicts import SchedulerVerdict

HEAD_LINES = 200
_DEVICE = re.compile(
    r"\((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)\)|\bGPU[ :]?(\d{1,2})\b|\b(mlx5_\d+|nvme\d+)"
)
_COMPILED = re.compile(r"Compiling (?:jit\()?(\w+)\)? (?:for|with)|Recompiling function (\w+)", re.IGNORECASE)
_ATTEMPT = re.compile(r"^\W{0,2}(?:run|attempt|try|restart)\s*#?(\d{1,4})\b", re.IGNORECASE)
_AGAIN = re.compile(
    r"^\W{0,2}(?:re-?run|restarted|second (?:run|attempt)|after restart)\b|worker group.{0,40}restart|"
    r"restart_count=[1-9]|Restarting (?:job|training|worker group|from checkpoint)|SLURM_RESTART_COUNT=[1-9]",
    re.IGNORECASE,
)
_TRACEBACK = re.compile(r"^\W{0,4}Traceback \(most recent call last\)")
_RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)")
_SPEAKERS = [(label, re.compile(pattern, re.IGNORECASE)) for label, pattern in table("speakers")["speakers"].items()]
_RAISERS = [(label, re.compile(pattern)) for label, pattern in table("speakers")["raisers"].items()]
_FRAME = re.compile(r'^\W{0,4} +File "([^"]+)", line \d+')
_PLAIN = {"index_assert", "exceptions"}
"""Signatures of exceptions that any code may raise."""
_NO_FAULT = {"SystemExit", "KeyboardInterrupt", "ChildFailedError", "GeneratorExit"}


class Reading:
    """Everything that the inputs said."""

    def __init__(self, zone: tzinfo = UTC, pattern: re.Pattern[str] | None = None) -> None:
        self.clues: list[Clue] = []
        self.notes: list[InputNote] = []
        self.progress = Progress()
        self.launcher = Launcher()
        self.timers = Timers()
        self.stacks: list[Stack] = []
        self.statements: list[Statement] = []
        self.scheduler = SchedulerVerdict()
        self.kinds: set[Kind] = set()
        self.nodes: set[str] = set()
        self.places: dict[int, str] = {}
        self.first_error: Line | None = None
        self._frames: dict[tuple[str, int | None, str | None], tuple[int, str]] = {}
        """The last frame of a traceback that each writer printed: line and file."""
        self._raising: dict[tuple[str, int | None, str | None], int] = {}
        self.compiled: dict[str, list[Line]] = defaultdict(list)
        self.hurt = False
        """Whether detectors saw it get worse."""
        self.attempts: list[tuple[int, Line]] = []
        self._matcher = Matcher(catalogue())
        self._folded: dict[tuple[str, str, str, int | None, str | None, int], Clue] = {}
        self._zone, self._pattern = zone, pattern
        self._episode = 0
        self._labels: dict[int, int] = {}

    def told(
        self, statements: Sequence[Statement], scheduler: SchedulerVerdict | None, places: Mapping[int, str]
    ) -> None:
        """Take what needs no reading."""
        self.places.update(places)
        self.nodes.update(places.values())
        if statements:
            self.kinds.add(Kind.METRICS)
            self.statements += statements
        if scheduler is not None:
            self._settle(scheduler)
            if scheduler.knows_exits:
                self.kinds.add(Kind.SCHEDULER)

    def take(self, source: Source, of: int = 1) -> None:
        """Read one input (of so many) into clues; never raises for what it holds."""
        place = attribution(source.name, self._pattern, alone=source.alone)
        if source.placed:
            place = Attribution(source.rank, source.node, self._pattern)
        note = InputNote(source.name, source.kind or "unknown", place.rank, place.node)
        self.notes.append(note)
        lines = skim(source, self._matcher, of=of)
        head: list[tuple[int, str]] = []
        for one in lines:
            head.append(one)
            if len(head) >= HEAD_LINES:
                break
        sort: Sort = source.kind or sniff(source.name, "\n".join(text for _, text in head))  # type: ignore[assignment]
        note.kind = "binary" if source.encoding == "binary" else sort
        parsed = (self._parsed(source, note, number, text, place) for part in (head, lines) for number, text in part)
        self._read(sort, parsed)
        note.lines, note.encoding, note.truncated, note.why = (
            source.lines,
            source.encoding,
            source.truncated,
            source.why,
        )

    def _parsed(self, source: Source, note: InputNote, number: int, text: str, place: Attribution) -> Line:
        line = read_line(source.name, number, text, place, self._zone)
        if line.dated:
            note.first_t = note.first_t or shown(line.time)
            note.last_t = shown(line.time)
        return line

    def _read(self, sort: Sort, lines: Iterable[Line]) -> None:
        if sort == "log":
            self.kinds.add(Kind.LOG)
            for line in lines:
                self._log(line)
            return
        kept = list(lines)
        if not kept:
            return
        if sort == "scheduler":
            self._scheduler(kept)
        elif sort == "kernel":
            self.kinds.add(Kind.KERNEL)
            self._match_all(kept, Kind.KERNEL)
        elif sort == "stacks":
            self.kinds.add(Kind.STACKS)
            self.stacks += read_stacks(kept)
            for line in kept:
                if not line.text.startswith((" ", "Thread")):
                    self._match(line, Kind.STACKS)
        elif sort == "metrics":
            self.kinds.add(Kind.METRICS)
            self.statements += read_metrics(kept, "\n".join(line.text for line in kept))
            self.places = {
                one.rank: one.node for one in self.statements if one.rank is not None and one.node
            } | self.places
            self._match_all(said(kept), Kind.METRICS)

    def _scheduler(self, lines: list[Line]) -> None:
        self.kinds.add(Kind.SCHEDULER)
        for verdict in (read_slurm(lines), read_kubernetes(lines)):
            self._settle(verdict)
        self._match_all(lines, Kind.SCHEDULER)

    def _settle(self, verdict: SchedulerVerdict) -> None:
        if verdict.end:
            self.scheduler.settle(verdict.end)
        self.scheduler.says_oom |= verdict.says_oom
        self.scheduler.knows_exits |= verdict.knows_exits
        self.scheduler.elapsed_s = max(self.scheduler.elapsed_s, verdict.elapsed_s)
        self.scheduler.nodes += verdict.nodes
        self.scheduler.pod_nodes.update(verdict.pod_nodes)
        self.clues += verdict.clues

    def _match_all(self, lines: list[Line], kind: Kind) -> None:
        for line in lines:
            self._match(line, kind)
            if line.node and kind is not Kind.METRICS:
                self.nodes.add(line.node)

    def _log(self, line: Line) -> None:
        if line.node:
            self.nodes.add(line.node)
            if line.rank is not None:
                self.places.setdefault(line.rank, line.node)
        self._count_attempts(line)
        progress = self.progress.read(line)
        self.launcher.read(line, progress=progress)
        self.timers.read(line)
        # A person who pastes a log pastes the kernel's lines into it as well.
        kind = Kind.KERNEL if any(mark in line.text for mark in ("NVRM: ", "dmesg", " kernel: ")) else Kind.LOG
        matched = [] if self._quotes(line) else self._match(line, kind)
        self._traceback(line, matched)
        if "ompiling" in line.text and (found := _COMPILED.search(line.text)):
            self.compiled[found[1] or found[2]].append(line)

    def _count_attempts(self, line: Line) -> None:
        if found := _ATTEMPT.match(line.body):
            number = int(found[1])
            if number not in self._labels:
                self._labels[number] = len(self._labels) + (
                    0 if not self._labels else self._episode + 1 - len(self._labels)
                )
                self.attempts.append((self._labels[number], line))
            self._episode = self._labels[number]
        elif _AGAIN.search(line.body) and self.clues:
            self._episode += 1
            self.attempts.append((self._episode, line))

    def _quotes(self, line: Line) -> bool:
        """Whether the line is the code of a traceback's frame: what stands in a program has not happened."""
        framed = 'File "' in line.text and _FRAME.match(line.body)
        if not framed and not (self._frames and line.body.startswith("    ")):
            return False
        who = (line.source, line.rank, line.node)
        if framed:
            self._frames[who] = (line.number, framed[1])
            return False
        at = self._frames.get(who)
        return at is not None and at[0] == line.number - 1

    def _raiser(self, line: Line) -> str | None:
        """The label of the library whose frame is the last before an exception; None where it is nobody's that says more."""
        at = self._frames.pop((line.source, line.rank, line.node), None) if _RAISED.match(line.body) else None
        if at is None or line.number - at[0] > 3:
            return None
        return next((label for label, pattern in _RAISERS if pattern.search(at[1])), None)

    def _match(self, line: Line, kind: Kind) -> list[Signature]:
        matched = self._matcher.signatures(line.text)
        if any(one.id in _PLAIN for one in matched) and (label := self._raiser(line)):
            matched = [structs.replace(one, label=label) if one.id in _PLAIN else one for one in matched]
        for signature in matched:
            self._fold(signature, line, kind)
        if self.first_error is None and any(one.id == "traceback" or (one.role is not Role.CONTEXT) for one in matched):
            self.first_error = line
        return matched

    def _fold(self, signature: Signature, line: Line, kind: Kind) -> None:
        key = (signature.id, signature.label or "", line.source, line.rank, line.node, self._episode)
        if (known := self._folded.get(key)) is not None:
            known.count += 1
            known.last_line = line.number
            return
        device = _DEVICE.search(line.text)
        made = Clue(
            rule=signature.id, label=signature.label, role=signature.role, kind=kind, source=line.source, line=line.number,
            last_line=line.number, text=line.text.strip(), says=signature.says, strength=signature.strength, time=line.time,
            rank=line.rank, node=line.node, device=next((one for one in device.groups() if one), None) if device else None,
            peer=named_peer(line.text), names_node=signature.names_node, episode=self._episode, do=signature.do,
        )  # fmt: skip
        self._folded[key] = made
        self.clues.append(made)

    def _traceback(self, line: Line, matched: list[Signature]) -> None:
        """An exception that no signature knows is still an exception of the code: the first line behind its frames."""
        who = (line.source, line.rank, line.node)
        if _TRACEBACK.match(line.body):
            self._raising[who] = line.number
            return
        begun = self._raising.get(who)
        if begun is None or not line.body.strip() or line.body.startswith((" ", "\t")):
            return
        del self._raising[who]
        raised = _RAISED.match(line.body)
        known = any(one.role is not Role.CONTEXT for one in matched)
        if raised and not known and line.number - begun < 200 and raised[1].rpartition(".")[2] not in _NO_FAULT:
            self._fold(structs.replace(_OTHER, label=speaker(line.body) or "user_code_index"), line, Kind.LOG)

    @property
    def metrics(self) -> Metrics:
        """The statements, ready to be judged."""
        return Metrics(self.statements)

    @property
    def last_episode(self) -> int:
        """Number of the last attempt; 0 where there is one alone."""
        return self._episode


def speaker(text: str) -> str | None:
    """The label of the part that speaks in an error that no signature knows; None where it is the program itself."""
    return next((label for label, pattern in _SPEAKERS if pattern.search(text)), None)


_OTHER = Signature(
    id="exception", label=None, role=Role.EITHER, says="the code raised an exception", pattern=re.compile(""),
    literals=(), strength=1.4, names_node=False, digits_matter=False, do=None,
    only=False,
)  # fmt: skip
