"""Lines of a log with what their heads say: rank, node, clock; steering characters are gone.

Attribution follows one order: the line's prefix, then the file's name, then the folders below the path that was given.
A name is a node where it stands as a host stands (``[n07]``, ``gpu-18: ``, ``host:pid:tid [0]``); it is a rank only
where something says so.
"""

import re
from datetime import tzinfo

import msgspec

from stepward.diagnose.clocks import clock

LONGEST = 4000
"""Characters of a line that are kept; what signatures look for stands at its head."""
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff\ud800-\udfff]"
)

_NAME = r"[A-Za-z][A-Za-z0-9_.-]*\d[A-Za-z0-9_.-]*|[a-z][a-z0-9]*(?:-[a-z0-9]+)+"
_HEADS = [
    re.compile(r"\[(?:default|rank|Rank|RANK)[ _:=]?(?P<rank>\d+)\]:? ?"),
    re.compile(
        r"\((?:\w*?_?TP|\w*?[Rr]ank[ _]?|task\s*|EP|PP|DP)(?P<rank>\d+)(?:[ ,_]\w*)?\s+pid=\d+(?:, ip=(?P<node>[\w.]+))?\) ?"
    ),
    re.compile(r"\(\w+(?: \w+)? ?pid=\d+(?:, ip=(?P<node>[\w.]+))?\) ?"),
    re.compile(r"\[1,(?P<rank>\d+)\](?:<std(?:out|err)>)?:? ?"),
    re.compile(r"\[(?:task|worker|proc|process|w|p|replica)[ _:-]?(?P<rank>\d+)\]:? ?"),
    re.compile(r"\[(?P<rank>\d{1,5})\]: ?"),
    re.compile(r"\s{0,5}(?P<rank>\d{1,5}): (?=\D|\d)"),
    re.compile(rf"slurmstepd-(?P<node>{_NAME}): (?=\S)"),
    re.compile(rf"(?P<node>{_NAME}):\d+:\d+ (?:\[\d+\] )?"),
    re.compile(rf"\[(?P<node>{_NAME})(?:\|\d+)?\]:? ?"),
    re.compile(rf"(?P<node>{_NAME}): (?=\S)"),
    re.compile(rf"(?P<node>{_NAME}) (?:kernel: |(?:[a-z]+ )?(?=\[\s*\d+\.\d+\] |\[\w{{3}} \w{{3}})|(?=[EWFI] [a-z]))"),
    re.compile(r"(?:Rank|rank)[ =:](?P<rank>\d{1,6})\b[:,]? ?"),
    re.compile(r"\w{3}\s+\d{1,2} \d\d:\d\d:\d\d (?P<node>[\w.-]+) (?=[\w./-]+(?:\[\d+\])?:)"),
]
_STAMP = re.compile(
    r"\s*(?:\[?\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d\S*?\]?|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?|"
    r"\d\d/\d\d/\d{4} [\d:]+)\s+(?:- )?(?:\w+ - )?"
)
_INNER = re.compile(
    r"\[[Rr]ank ?(\d+)\]|\brank[=:] ?(\d+)\b|\[PG ID \S+ PG GUID \S+ Rank (\d+)\]|"
    r"^\W*Rank (\d+)[ :,]|\bon rank (\d+)\b|\brank (\d+):"
)
_INNER_NODE = re.compile(
    r"\b(?:(?:node|host|hostname)[:= ] ?|(?:on|at|of|from) (?:node |host )?(?=[\w-]*-\w*\d)|"
    r"(?:ON|Nodes?) (?=\S+ (?:CANCELLED|not responding))|Node failure on )"
    r"([A-Za-z][\w.-]*\d[\w-]*|[a-z]\w*-[\w-]*\d[\w-]*)"
)
_NAMED_NODE = re.compile(r"\b(?:[Nn]ode|[Hh]ost|hostname)(?:[:=/] ?| (?=\S+\d))([A-Za-z][\w.-]*\d[\w-]*)\b(?![/:])")
"""A name that a line calls a node, which outranks one that only stands where a node could."""
_SRUN = re.compile(r"^srun: error: (?P<node>\S+): tasks? (?P<rank>\d+)\b(?![-,])|^srun: error: (?P<only>\S+): tasks? ")
_NO_NODE = re.compile(
    r"^(?:step|iter|iteration|epoch|episode|it|epochs|cuda|layer|attempt|run|stage|phase|try|retry|batch|rank|"
    r"line|page|fp|bf|int|http|https|tls|ipv|sm|ep|pp|tp|dp|level|chunk|shard|part|trial|fold|seed|device|task|round|"
    r"python|torch|jax|numpy|urllib|boto|botocore|h5py|psycopg|xid|error|mp|req|env|pid)[-_.]?\d*$|"
    r"^(?:gpu|xpu|tpu|npu)\d*$|^(?:lm[-_]|val[-_]|train[-_](?:loss|acc)|grad[-_]|\w+[-_](?:device-plugin|manager|hub|daemon|plugin|operator|controller|scheduler))|"
    r"\.(?:py|sh|so|pt|pth|bin|json|yaml|yml|log|out|err|cc|cpp|h|cu|safetensors|tar|gz|ckpt|txt|csv|parquet|whl)$|\d-of-\d",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"^(?:trainer|task|proc|process|rank|jax|tpu-?worker|replica|shard)[-_]?(\d+)$", re.IGNORECASE)
_IN_NAME = re.compile(
    r"(?:rank|task|proc|trainer)[-_.]?(\d+)|^(\d+)(?=\.\w+$)|_(\d+)(?=\.(?:out|err|log)$)|-(\d+)(?=\.(?:out|err)$)",
    re.IGNORECASE,
)
_NODE_IN_NAME = re.compile(
    r"(?:^|[._-])((?:node|host)[-_][a-z0-9]+|(?:node|host|gpu|cn|nid|worker|n|g|h|compute|dgx)[-_]?[a-z]{0,4}\d[\w-]*?)(?=[._]|$)",
    re.IGNORECASE,
)
_EXTENSION = re.compile(r"\.(?:gz|zst|zstd|bz2|xz|\d{1,2})$")


class Line(msgspec.Struct):
    """One line. ``body`` is the text behind its prefixes; ``order`` counts kept and skipped lines of its source."""

    source: str
    number: int
    text: str
    body: str
    rank: int | None = None
    node: str | None = None
    time: float | None = None
    dated: bool = False


class Attribution(msgspec.Struct):
    """What a file's place says about all its lines, and how the user says that ranks look (group 1 or ``rank``)."""

    rank: int | None = None
    node: str | None = None
    pattern: re.Pattern[str] | None = None


def attribution(relative: str, pattern: re.Pattern[str] | None = None, *, alone: bool = False) -> Attribution:
    """Rank and node that a file's path below the given one says; ``alone`` forbids ranks from bare numbers."""
    parts = relative.split("/")
    name = _EXTENSION.sub("", parts[-1])
    rank: int | None = None
    node: str | None = None
    for part in (name, *reversed(parts[:-1])):
        if rank is None and (found := _IN_NAME.search(part)) and not (alone and found[1] is None):
            rank = int(next(group for group in found.groups() if group is not None))
        if node is None and (host := _NODE_IN_NAME.search(part)):
            node = host[1]
    return Attribution(rank, node, pattern)


def clean(text: str) -> str:
    """A line without colours, cursor movements and the overwritten states of progress bars."""
    text = text.rstrip("\r\n")
    if "\r" in text:
        text = text.rpartition("\r")[2] or text.replace("\r", " ")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return _STEERING.sub("", text[:LONGEST])


def read_line(source: str, number: int, raw: str, place: Attribution, zone: tzinfo) -> Line:
    """A line with its rank, node and clock."""
    text = clean(raw)
    line = Line(source, number, text, text)
    if moment := clock(text, zone):
        line.time, line.dated = moment
    if place.pattern and (found := place.pattern.search(text)):
        value = found.groupdict().get("rank") or (found.groups() or (None,))[0]
        line.rank = int(value) if value and value.isascii() and value.isdigit() else None
    _heads(line)
    if line.rank is None:
        line.rank = place.rank
    if line.node is None:
        line.node = place.node
    return line


def _heads(line: Line) -> None:
    at = 0
    for _ in range(4):
        stamp = _STAMP.match(line.text, at)
        if stamp and stamp.end() > at:
            at = stamp.end()
        # What stands behind a head keeps its indentation: frames of a traceback are told by it.
        begin = len(line.text) - len(line.text[at:].lstrip(" "))
        found = next((hit for head in _HEADS if (hit := head.match(line.text, begin)) and _accept(line, hit)), None)
        if found is None:
            break
        at = found.end()
    line.body = line.text[at:]
    if line.rank is None and (inner := _INNER.search(line.text)):
        line.rank = int(next(group for group in inner.groups() if group))
    if srun := _SRUN.match(line.body):
        line.node = srun["node"] or srun["only"]
        line.rank = int(srun["rank"]) if srun["rank"] else line.rank
    elif line.node is None and (host := _NAMED_NODE.search(line.text) or _INNER_NODE.search(line.text)):
        line.node = host[1]


def _accept(line: Line, found: re.Match[str]) -> bool:
    """Take what a head says; False if it is a name that is no host."""
    groups = found.groupdict()
    rank, node = groups.get("rank"), groups.get("node")
    if node is not None:
        if _NO_NODE.search(node) or node.endswith(("Error", "Exception", "Warning")):
            return False
        if ordinal := _ORDINAL.match(node):
            if found[0].startswith("["):
                line.node = line.node or node
            elif line.rank is None:
                line.rank = int(ordinal[1])
        else:
            line.node = line.node or node
    if rank is not None and line.rank is None:
        line.rank = int(rank)
    return True
