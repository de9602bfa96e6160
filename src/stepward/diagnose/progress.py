"""Progress as a log shows it: steps, losses, times of phases, a normal end; and what these numbers say by themselves.

Reads what trainers print in their many forms: ``step 400 time 1.10 s (data 0.03 ...)``, ``{'loss': ...}``, Megatron's
bars, ``Epoch: [0][ 8/2502] Time 29.8 Data 29.2``. Judged by ``stepward.detect``.
"""

import re
from collections import defaultdict

import msgspec

from stepward.detect.loss import judge_loss
from stepward.detect.series import median
from stepward.detect.speed import DATA_WAIT_SHARE, Slowdown, data_wait_share, slowdown, waits_least
from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.lines import Line

_NUMBER = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)\b)"
_STEP = re.compile(
    r"(?:\b(?:global[_ ]?)?step|\biter(?:ation)?|\bit|\bEpoch:? ?\[?\d+\]?\[?|\bbatch|\bepoch)['\"]?\s*[:=#]?\s*\[?\s*(\d+)",
    re.IGNORECASE,
)
_MEASURED = re.compile(r"loss|\btime\b|\d\s*m?s\b|s/it|it/s|/s\b|\blr\b|learning|tok|acc|ppl|grad", re.IGNORECASE)
_BAR = re.compile(
    r"\[\s*\d+/\d+\]|^\s*\d+/\d+\s|\b\d+/\d+ \[\d+:\d\d|\d{1,3}%\S* +\d+/\d+|train_runtime|^\{'(?:loss|train_loss|eval_loss)'"
)
_TROUBLE = re.compile(
    r"(?:error|exception|fail(?:ed|ure)?|timeout|timed out|killed|abort(?:ed)?)s?\b(?!\w*[=:]\s*[\d.])|"
    r"traceback|warning|\bno (?:\w+ )?(?:step|progress)|last (?:completed|enqueued)",
    re.IGNORECASE,
)
_LOSS = re.compile(
    rf"(?<!val_)(?<!val/)(?<!aux_)\bl?m?[ _]?(?:train[/_]|total_)?loss['\"]?\s*[:=]?\s*{_NUMBER}", re.IGNORECASE
)
_GRAD = re.compile(rf"grad(?:ient)?[ _]?norm['\"]?\s*[:=]?\s*{_NUMBER}", re.IGNORECASE)
_TIMES = [
    re.compile(
        r"(?:elapsed time per iteration|iteration[ _]time|step[ _]time)\s*(?:\(ms\))?\s*[:=]?\s*([\d.]+)", re.IGNORECASE
    ),
    re.compile(r"\btime['\"]?\s*[:=]?\s*([\d.]+)", re.IGNORECASE),
    re.compile(r"(?<![\d.])([\d.]+)\s*(?:ms|s|sec)/(?:it|iter|step)\b", re.IGNORECASE),
    re.compile(r"(?:^|[|\s])([\d.]+) ?(?:s|ms|sec)(?:\s*(?:\||$|[a-z]+ ))"),
]
_DATA = re.compile(
    r"\b(?:data(?:[_ ](?:time|wait|load\w*|fetch))?|loader|dataload\w*|input[_ ]?wait|fetch|load_batch|"
    r"batch_wait|wait[_ ](?:for[_ ])?(?:data|input|batch))['\"]?\s*[:=]?\s*([\d.]+)",
    re.IGNORECASE,
)
_PHASE = re.compile(r"\b([A-Za-z][\w/]*(?:\([\w ]+\)| [a-z]\w*)?)\s*[:=]?\s*([\d.]+)\s*(ms|s|us)\b(?!/)")
_WAIT = re.compile(r"wait|all_?reduce|a2a|all_?to_?all|comm|barrier|sync|collective|nccl|idle|bubble", re.IGNORECASE)
_END = re.compile(
    r"training (?:is |has |run )?(?:finish|complet|done|ended)|(?:finished|completed|done) (?:the )?training|train(?:ing)? done|"
    r"\bexit(?:ing|ed|s)?\b(?: with)?(?: exit)?(?: code| status)?[ :=]{0,2}0\b|exits successfully|train_runtime|"
    r"reached (?:the )?(?:max(?:imum)?|final|last|target)[_ ]?\w*|max_(?:steps|epochs)\S* reached|epochs completed in|"
    r"(?:run|job|all (?:ranks|workers|steps|epochs|processes)) (?:is |has |have )?(?:finished|completed|done)\b|"
    r"finished \d+ (?:steps|epochs|iterations)|"
    r"^(?:done|finished|complete)\b.{0,60}$|completed successfully|successfully (?:finished|completed)|"
    r"Trainer\.fit.? stopped|stop requested|"
    r"saved final|final (?:model|checkpoint|weights) (?:saved|written|exported)|wrote .{0,60}final|"
    r"\(end of training\)|early stopping|^=* ?\d+ passed\b[^=]{0,80} in [\d.]+ ?s\b",
    re.IGNORECASE,
)
_SAVED = re.compile(
    r"(?:sav(?:ed|ing)|checkpoint\w*|ckpt|snapshot)\b.{0,120}?\b(?:in|took|after)\s*(\d+(?:\.\d+)?) ?(s|min)",
    re.IGNORECASE,
)
_SAVE_STEMS = ("sav", "checkpoint", "ckpt", "snapshot")
STALLED = 3.0
PAUSED_AMONG = 20
"""Rows from which on one that waits alone is told from the others."""
LONGEST = 1500
"""Characters beyond which no trainer goes in a line of progress."""
_NO_END = re.compile(r"\bnot\b|fail|error|cancel|kill|before|SIG|\bcrash", re.IGNORECASE)
_END_STEMS = ("train", "finish", "complet", "done", "exit", "reach", "max_", "final", "stop", "passed")
_CAUSES = [
    (re.compile(r"data|load|fetch|input", re.I), "input_bound", Role.ROOT, 0.0),
    (re.compile(r"ckpt|checkpoint|save", re.I), "checkpoint_stall", Role.ROOT, 0.0),
    (re.compile(r"compil|trace", re.I), "recompilation", Role.ROOT, 0.0),
    (re.compile(r"cpu|host|offload|launch|gc\b|python|optim", re.I), "host_contention", Role.EITHER, 0.6),
    (re.compile(r"read|write|\bio\b|disk", re.I), "storage_io", Role.EITHER, 0.5),
    (
        re.compile(r"expert|moe|gemm|attn|attention|fwd|forward|bwd|backward|compute|stage|mlp|layer|kernel", re.I),
        "workload_imbalance",
        Role.EITHER,
        0.8,
    ),
]


class Row(msgspec.Struct):
    """One progress line: its numbers in the line's own units, phases and times in seconds where a unit is there."""

    line: Line
    step: int | None
    loss: float | None
    grad: float | None
    time_s: float | None
    data_s: float | None
    phases: dict[str, float]


class Progress:
    """Progress of all sources of one diagnosis."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.first: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.finite: dict[str, int] = {}
        self.saves: list[tuple[float, Line]] = []
        self.seen: dict[str, list[tuple[int, int | None]]] = defaultdict(list)

    def read(self, line: Line) -> bool:
        """Take a line; True if it shows progress or a normal end."""
        if len(line.body) > LONGEST:
            return False
        low = line.body.lower()
        if any(stem in low for stem in _END_STEMS) and _END.search(line.body) and not _NO_END.search(line.body):
            self.ends[line.source] = line.number
        if any(stem in low for stem in _SAVE_STEMS) and (saved := _SAVED.search(line.body)):
            self.saves.append((float(saved[1]) * (60 if saved[2].startswith("m") else 1), line))
        found = _STEP.search(line.body)
        if not ((found and _MEASURED.search(line.body)) or _BAR.search(line.body)) or _TROUBLE.search(line.body):
            return line.source in self.ends and self.ends[line.source] == line.number
        row = _row(line, int(found[1]) if found and len(found[1]) < 15 else None)
        self.rows.append(row)
        self.first.setdefault(line.source, line.number)
        self.seen[line.source].append((line.number, line.rank))
        if any(value is not None and value - value == 0 for value in (row.loss,)) and not _bad(row.grad):
            self.finite[line.source] = line.number
        return True

    def after(self, source: str, number: int, rank: int | None) -> int:
        """How many progress lines follow a line of a source, by the same rank where both are known."""
        return sum(at > number and (rank is None or who is None or who == rank) for at, who in self.seen[source][-200:])

    def span_s(self) -> float | None:
        """Time between the first and the last step that were printed; None where they have no clock, or not from the start."""
        dated = [row for row in self.rows if row.line.time is not None]
        if not dated or dated[0].step not in (0, 1):
            return None
        times = [row.line.time for row in dated if row.line.time is not None]
        return max(times) - min(times)

    def step_times(self) -> list[float]:
        """Step times of the rank that prints most of them."""
        by_rank: dict[int | None, list[float]] = defaultdict(list)
        for row in self.rows:
            if row.time_s:
                by_rank[row.line.rank].append(row.time_s)
        return max(by_rank.values(), key=len, default=[])

    def slowed(self) -> Slowdown | None:
        """Whether steps became slower over the log."""
        return slowdown(self.step_times())

    def clues(self) -> list[Clue]:
        """What the numbers say by themselves."""
        return [*self._save_clues(), *self._loss_clues(), *self._data_clues(), *self._wait_clues()]

    def _save_clues(self) -> list[Clue]:
        """Saves that take three times what they took are a stall (the detectors' table), from a minute on."""
        if len(self.saves) < 3:
            return []
        usual = median([seconds for seconds, _ in self.saves[: (len(self.saves) + 1) // 2]])
        last, line = self.saves[-1]
        if last < max(STALLED * usual, 60.0):
            return []
        says = f"a save takes {last:g} s, and took {usual:g} s"
        return [clue("save_time", "checkpoint_stall", Kind.LOG, line, says, more=0.3)]

    def _loss_clues(self) -> list[Clue]:
        rows = [row for row in self.rows if row.loss is not None]
        verdict = judge_loss([row.loss for row in rows if row.loss is not None])
        if verdict != "divergence" or len(rows) < 5:
            return []
        last = rows[-1].line
        return [
            clue("loss_diverges", "numerics_nan", Kind.LOG, last,
                 "the loss rises far above its best", role=Role.EITHER, more=0.7)
        ]  # fmt: skip

    def _data_clues(self) -> list[Clue]:
        rows = [row for row in self.rows if row.time_s and row.data_s is not None]
        share = data_wait_share([row.time_s or 0 for row in rows], [row.data_s or 0 for row in rows])
        if share is None or len(rows) < 2 or share <= DATA_WAIT_SHARE:
            return []
        longest = max(rows, key=lambda row: row.data_s or 0)
        others = [row for row in rows if row is not longest]
        usual = data_wait_share([row.time_s or 0 for row in others], [row.data_s or 0 for row in others]) or 0.0
        # One long wait among many short ones is a pause, whoever made it, and no loader that does not keep up.
        if len(rows) >= PAUSED_AMONG and usual <= DATA_WAIT_SHARE:
            return []
        last = longest.line
        return [
            clue("data_share", "input_bound", Kind.LOG, last,
                 f"steps wait for data {share:.0%} of their time", more=1.0 if share > 0.4 else 0.0)
        ]  # fmt: skip

    def _wait_clues(self) -> list[Clue]:
        waits: dict[int, float] = {}
        phases: dict[int, dict[str, float]] = defaultdict(dict)
        lines: dict[int, Line] = {}
        for row in self.rows:
            if row.line.rank is None:
                continue
            for name, value in row.phases.items():
                if _WAIT.search(name):
                    waits[row.line.rank] = value
                    lines[row.line.rank] = row.line
                else:
                    phases[row.line.rank][name] = value
        found = []
        for rank in waits_least(waits):
            label, role, more, name = _why_late(rank, phases)
            line = lines[rank]
            found.append(
                clue("waits_least", label, Kind.LOG, line,
                     f"rank {rank} hardly waits while the others wait for it" + (f": its {name} is long" if name else ""),
                     role=role, more=more, rank=rank)
            )  # fmt: skip
        return found


def _why_late(rank: int, phases: dict[int, dict[str, float]]) -> tuple[str | None, Role, float, str]:
    """Label of the phase in which a late rank spends most beyond the others."""
    excess: dict[str, float] = {}
    for name, value in phases[rank].items():
        others = [other[name] for who, other in phases.items() if who != rank and name in other]
        excess[name] = value - (median(others) if others else 0.0)
    name = max(
        (one for one in excess if excess[one] > 0 and not re.fullmatch(r"time|step|total|it", one)),
        key=lambda one: excess[one],
        default="",
    )
    for pattern, label, role, more in _CAUSES:
        if name and pattern.search(name):
            return label, role, more, name
    return None, Role.CONTEXT, 0.0, name


def _row(line: Line, step: int | None) -> Row:
    text = line.body
    phases = {}
    for name, number, unit in _PHASE.findall(text):
        if (value := _float(number)) is not None:
            phases[name] = value * {"ms": 1e-3, "us": 1e-6}.get(unit, 1.0)
    time_s = next((_float(found[1]) for pattern in _TIMES if (found := pattern.search(text))), None)
    data = _DATA.search(text)
    return Row(
        line, step, _float_of(_LOSS, text), _float_of(_GRAD, text), time_s, _float(data[1]) if data else None, phases
    )


def _float_of(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return _float(found[1]) if found else None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _bad(value: float | None) -> bool:
    return value is not None and value - value != 0
