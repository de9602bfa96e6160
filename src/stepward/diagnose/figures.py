"""Metrics in every form that people have them in, made into statements: a known metric, its values, what they compare to.

Forms: JSON lines, CSV, Prometheus text, a YAML or JSON list of ``{name, description?, unit?, values}`` or of sentences,
prose. A statement keeps the line that it was read from. What it means is the matter of ``metrics``.
"""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from stepward.diagnose.lines import Line, clean

VOCABULARY: list[tuple[str, re.Pattern[str]]] = [
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in [
        (
            "data_wait",
            r"data[ _.]?(?:wait|load\w*|time|stall|fetch)\w*|(?:loader|input|batch)[ _.]?(?:wait|stall|time)\w*|wait(?:s|ing)? (?:for|on) (?:data|input|batch\w*|the loader)",
        ),
        ("loader_cpu", r"(?:loader|dataloader|decode|input) (?:workers?|processes|threads)"),
        (
            "queue",
            r"(?:prefetch|input|batch|data|loader)\w*[ _.]?(?:queue|buffer)\w*(?:[ _.](?:depth|size|len\w*|fill))?",
        ),
        (
            "ecc_uncorrected",
            r"(?:ecc|volatile|aggregate|dram|sram|hbm)?[ _.]?(?:uncorrect\w*|dbe)(?:[ _.]\w*)?(?:[ _.](?:ecc|errors?))*|double[- ]bit\w*",
        ),
        ("ecc_corrected", r"(?:single[- ]bit|correct(?:ed|able)|\bsbe\b)[ _.]?\w*(?:[ _.](?:ecc|errors?))*"),
        ("remap", r"row[ _]?remap\w*|remapped rows|retired pages|page retirement"),
        (
            "nvlink_errors",
            r"nvlink[ _.]?(?:\w+[ _.])?(?:crc|replay|recovery|flit|data|errors?)\w*(?:[ _.](?:errors?|count))*|ici[ _.]\w*err\w*",
        ),
        (
            "link_errors",
            r"symbol[ _.]?err\w*|link[ _.]?(?:downed|error[ _.]recovery|flaps?)|port[ _.]?(?:rcv|xmit)[ _.]?\w+|(?:rx|tx|crc|fec|phy)[ _.]?(?:err\w*|drop\w*|discard\w*)|packet[ _]?(?:loss|drops?)|out[ _.]of[ _.](?:sequence|buffer)|pfc[ _.]?\w*|pause frames|\bcnp\b",
        ),
        ("retransmits", r"\w*retrans\w*|rnr[ _.]?nak\w*|local[ _.]ack[ _.]timeout\w*"),
        ("link_state", r"(?:port|link|carrier|oper)[ _.]?(?:state|status)|ibstat"),
        (
            "net_rate",
            r"(?:nic|ib|rdma|network|net|roce|busbw|bus|all_?reduce|nccl|inter-?node)[ _.]?(?:bandwidth|throughput|bw|rate|rx|tx|busbw)\w*|busbw",
        ),
        (
            "storage_rate",
            r"(?:read|write|disk|storage|nfs|lustre|fs|filesystem|i/?o|object store|dataset)[ _.]?(?:read[ _.]|write[ _.])?(?:bandwidth|throughput|latency|iops|rate|speed|mb_s|await)\w*",
        ),
        (
            "disk",
            r"(?:disk|volume|file ?system|fs|partition|ckpt|checkpoint|scratch|root|/[\w/.-]+)[ _.]?(?:usage|used|free|avail\w*|full|space|capacity)\w*|inodes?(?:[ _.](?:used|free))?|quota|df -\w",
        ),
        ("shm", r"/dev/shm|shared memory|shm[ _.]\w+"),
        (
            "throttle",
            r"throttl\w*(?:[ _.]reasons?\w*)?|clocks?[ _.]event[ _.]reasons?|(?:hw|sw)[ _.](?:thermal[ _.]|power[ _.])?(?:slowdown|brake)|thermal[ _.](?:violation|slowdown)\w*|power[ _.](?:violation|brake)\w*",
        ),
        (
            "temperature",
            r"(?:gpu|hbm|memory|mem|core|device|hotspot|inlet|cpu|chip|junction|dimm)?[ _.]?temp(?:erature)?s?\b(?:[ _.]c\b)?",
        ),
        ("clock", r"(?:sm|gpu|graphics|core|mem|cpu)[ _.]?(?:clock|freq\w*)\w*|\bclocks?\b"),
        (
            "device_memory",
            r"(?:gpu|device|hbm|vram|cuda|fb|tpu)[ _.]?(?:mem(?:ory)?|fb)?[ _.]?(?:used|usage|alloc\w*|reserved|in use|peak)|(?:gpu|device|cuda|hbm|tpu)[ _.]mem(?:ory)?\b|\bvram\b|\bhbm\b",
        ),
        (
            "duty",
            r"(?:gpu|device|accelerator|tpu|tensor\w*|tensorcore|sm|mxu|xpu|npu)s?[ _.]?(?:core[ _.])?(?:util\w*|duty[ _.]?cycle|busy|active\w*|occupancy)|duty[ _.]?cycle|gpu_util",
        ),
        ("power", r"(?:gpu|board|device|node)?[ _.]?power(?:[ _.](?:draw|usage|w))?"),
        ("cpu_pressure", r"cpu[ _.]?pressure\w*(?:[ _.](?:some|full|avg10))*|psi[ _.]cpu"),
        ("io_pressure", r"io[ _.]?pressure\w*(?:[ _.](?:some|full|avg10))*|psi[ _.]io"),
        ("memory_pressure", r"mem(?:ory)?[ _.]?pressure\w*(?:[ _.](?:some|full|avg10))*|psi[ _.]mem\w*"),
        ("iowait", r"io[ _.]?wait|\bwa\b"),
        ("steal", r"(?:cpu[ _.])?steal\w*"),
        ("cfs", r"nr_throttled|cfs[ _.]throttl\w*|cpu throttl\w*|throttled[ _.](?:time|periods)"),
        ("load", r"(?:node_)?load(?:[ _.]?average|[ _.]?avg|1|5|15)\b|\bload(?= \d)|run ?queue"),
        ("cpu", r"(?:host |node |cgroup )?cpu(?:[ _.](?:util\w*|usage|use|percent|busy))?(?: of the cgroup)?"),
        (
            "host_memory",
            r"\brss\b\w*|(?:host|node|system|container|cgroup|pod|process|worker)?[ _.]?(?:mem(?:ory)?|ram)(?:[ _.](?:current|usage|used|working_set\w*|rss))?|anon\w*",
        ),
        (
            "save_time",
            r"(?:checkpoint|ckpt|save|snapshot)\w*(?:[ _.](?:save|write|upload))?[ _.](?:time|duration|took|seconds|stall|blocking|block)\w*|(?:time (?:to|of|in) (?:save|checkpoint)\w*)|\bsaves?\b|checkpoint saves?",
        ),
        (
            "compiles",
            r"(?:re)?compil\w*(?:[ _.](?:count|events|cache|time|share))*|(?:jit|trace|graph)[ _.]?cache[ _.]?miss\w*|graph[ _.]breaks",
        ),
        ("grad_norm", r"grad(?:ient)?[ _.]?norm\w*"),
        ("loss", r"(?:train[ _./]|lm[ _.]|total[ _.])?loss\b"),
        ("imbalance", r"\w*imbalance\w*|(?:tokens|samples|seq\w*)[ _.](?:per|len\w*)[ _.]?\w*|max/mean"),
        (
            "wait",
            r"(?:all_?reduce|collective|comm\w*|nccl|a2a|barrier|sync)[ _.]?(?:wait|time)\w*|wait[ _.](?:all_?reduce|collective)\w*",
        ),
        ("own_time", r"(?:self|own|compute|forward|backward|fwd|bwd|kernel)[ _.]?time\w*|stage[ _.]?time\w*"),
        ("step_time", r"(?:step|iteration|iter)[ _.]?(?:time|duration)\w*|(?:s|sec|ms)/(?:step|it|iter)"),
        ("throughput", r"throughput|tokens?[ _./](?:per[ _.])?s\w*|samples?[ _./](?:per[ _.])?s\w*|\bmfu\b|img/s"),
        ("files", r"(?:open )?(?:fds?|file descriptors|open files)"),
        ("progress", r"(?:step )?(?:counter|progress)|last step"),
    ]
]
_ANY = re.compile(
    "|".join(f"(?P<m{at}>{pattern.pattern})" for at, (_, pattern) in enumerate(VOCABULARY)), re.IGNORECASE
)
_NUMBER = re.compile(
    r"(?<![\w.])([-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?|nan|[-+]?inf)\s*(%|°?c\b|mhz|ghz|[kmgt]i?b?/s|[kmgt]ib?\b|gb\b|ms\b|s\b|w\b|x\b|cores\b)?",
    re.IGNORECASE,
)
_AGAINST = re.compile(
    r"\b(?:was|were|normal(?:ly)?|usual(?:ly)?|before|previous(?:ly)?|baseline|others?|peers?|rest|else(?:where)?|vs\.?|versus|against|from|median|compared|instead|typical|fleet|healthy)\b\D{0,30}$",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"(?:\bof|/|\blimit(?:ed)?|\bcap(?:acity)?|\bmax(?:imum)?|\bout of|\bon|\btotal)\W{0,3}(?:a |the )?$", re.IGNORECASE
)
_NO = re.compile(
    r"\b(?:no|none|zero|not|without|never|normal|equal|same|unchanged|constant|stable|ok|healthy|inactive|within|below)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(r"([a-z]\w*-[\w-]*\w|[a-z]\w*\d[\w-]*)[ :,]")
_SENTENCE = re.compile(r"(?<=[.;!?])\s+(?=[A-Za-z])|;\s*")


class Statement(msgspec.Struct):
    """What one line says of one metric. ``against``: what it was, or what others have; ``limit``: what it may be."""

    metric: str
    values: list[float]
    unit: str
    text: str
    line: Line
    against: float | None = None
    limit: float | None = None
    denied: bool = False
    rank: int | None = None
    node: str | None = None

    @property
    def value(self) -> float:
        """Median of the finite values; NaN if there is none."""
        finite = sorted(value for value in self.values if math.isfinite(value))
        return finite[len(finite) // 2] if finite else math.nan


def read_metrics(lines: list[Line], text: str) -> list[Statement]:
    """Statements of one metrics input, in whatever form it is."""
    head = text.lstrip()[:1]
    if head in "[-" and (listed := _listed(text, lines)) is not None:
        return listed
    rows = _json_rows(lines) if head == "{" else _csv_rows(lines) if lines and lines[0].text.count(",") >= 1 else []
    if rows:
        return _columns(rows)
    found: list[Statement] = []
    for line in lines:
        found += prometheus(line) or prose(line)
    return found


def prose(line: Line) -> Iterator[Statement]:
    """Statements of a line of prose: each known metric with the numbers that follow it."""
    for sentence in _SENTENCE.split(line.body.lstrip("- ")):
        lead = _LEAD.match(sentence)
        if line.node is None and lead and not _ANY.match(sentence):
            line.node = lead[1]
        hits = list(_ANY.finditer(sentence))
        for at, hit in enumerate(hits):
            end = hits[at + 1].start() if at + 1 < len(hits) else len(sentence)
            before = sentence[hits[at - 1].end() if at else 0 : hit.start()]
            yield _stated(hit, sentence, sentence[hit.end() : end], before, line)


def _stated(hit: re.Match[str], sentence: str, behind: str, before: str, line: Line) -> Statement:
    metric = VOCABULARY[int((hit.lastgroup or "m0")[1:])][0] if hit.lastgroup else "other"
    one = Statement(metric, [], "", sentence, line, rank=line.rank, node=line.node)
    one.denied = bool(_NO.search(before[-24:]) or _NO.search(behind[:40]))
    for found in _NUMBER.finditer(behind):
        value, unit, lead = float(found[1].replace(",", "")), (found[2] or "").lower(), behind[: found.start()]
        if _AGAINST.search(lead[-40:]):
            one.against = value if one.against is None else one.against
        elif one.values and _LIMIT.search(lead[-16:]):
            one.limit = value if one.limit is None else one.limit
        elif not one.values or unit == one.unit or not unit:
            one.values.append(value)
            one.unit = one.unit or unit
    return one


def prometheus(line: Line) -> list[Statement]:
    """The sample of a line of Prometheus text; empty if it is none."""
    found = re.fullmatch(
        r"([A-Za-z_:][\w:]*)(?:\{([^}]*)\})?\s+([-+.\deE]+|NaN|[-+]?Inf)(?:\s+\d+)?", line.text.strip()
    )
    if not found:
        return []
    labels = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
    return _named(
        found[1],
        [float(found[3])],
        "",
        line,
        labels.get("rank"),
        labels.get("node") or labels.get("hostname") or labels.get("instance"),
    )


def _named(
    name: str, values: list[float], unit: str, line: Line, rank: Any = None, node: Any = None, text: str = ""
) -> list[Statement]:
    """A statement of a series by its name; empty for a name that means nothing here."""
    hit = _ANY.search(name) or _ANY.search(text)
    if hit is None or hit.lastgroup is None or not values:
        return []
    metric = VOCABULARY[int(hit.lastgroup[1:])][0]
    who = int(rank) if str(rank).isdigit() and len(str(rank)) < 8 else line.rank
    shown = f"{name} {text} {', '.join(f'{value:g}' for value in values[-8:])} {unit}".replace("  ", " ").strip()
    return [
        Statement(metric, values, unit.lower(), clean(shown), line, rank=who, node=str(node) if node else line.node)
    ]


def _listed(text: str, lines: list[Line]) -> list[Statement] | None:
    """Statements of a YAML or JSON list; None if it is not one."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        items = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(items, list) or not lines:
        return None
    found: list[Statement] = []
    for at, item in enumerate(items):
        line = lines[min(at, len(lines) - 1)]
        if isinstance(item, dict) and isinstance(item.get("values"), list):
            values = [value for one in item["values"] if (value := _float(one)) is not None]
            name, unit, more = (str(item.get(key) or "") for key in ("name", "unit", "description"))
            found += _named(name, values, unit, line, item.get("rank"), item.get("node"), more)
        else:
            from stepward.diagnose.lines import Attribution, read_line  # a sentence has a head as a line has

            words = (
                item
                if isinstance(item, str)
                else ", ".join(f"{key} {value}" for key, value in item.items())
                if isinstance(item, dict)
                else str(item)
            )
            sentence = read_line(line.source, line.number, str(words), Attribution(line.rank), _utc())
            found += prose(sentence)
    return found


def _utc() -> Any:
    from datetime import UTC

    return UTC


def _json_rows(lines: list[Line]) -> list[tuple[dict[str, Any], Line]]:
    rows = []
    for line in lines:
        try:
            row = msgspec.json.decode(line.text)
        except (msgspec.DecodeError, RecursionError):
            try:
                import json

                row = json.loads(line.text)  # NaN, which is no JSON but common
            except (ValueError, RecursionError):
                continue
        if isinstance(row, dict):
            rows.append((row, line))
    return rows


def _csv_rows(lines: list[Line]) -> list[tuple[dict[str, Any], Line]]:
    import csv

    try:
        table = list(csv.reader(line.text for line in lines))
    except csv.Error:
        return []
    header = table[0]
    if (
        not all(len(row) == len(header) for row in table[1:])
        or len(table) < 2
        or any(_float(name) is not None for name in header)
    ):
        return []
    return [(dict(zip(header, row, strict=True)), line) for row, line in zip(table[1:], lines[1:], strict=True)]


def _columns(rows: Iterable[tuple[dict[str, Any], Line]]) -> list[Statement]:
    """Rows to series: one per column (or per ``name``/``value`` pair), rank and node."""
    series: dict[tuple[str, Any, Any], tuple[list[float], Line]] = {}
    for row, line in rows:
        rank, node = row.get("rank"), row.get("node") or row.get("host") or row.get("hostname")
        named = row.get("metric") or row.get("name")
        pairs = [(str(named), row.get("value"))] if named and "value" in row else list(row.items())
        if named and isinstance(row.get("values"), list):
            pairs = [(str(named), one) for one in row["values"]]
        for name, raw in pairs:
            if (value := _float(raw)) is not None and name not in {"rank", "step", "time", "t", "timestamp"}:
                series.setdefault((name, str(rank), node), ([], line))[0].append(value)
    return [
        one
        for (name, rank, node), (values, line) in series.items()
        for one in _named(name, values, "", line, rank, node)
    ]


def _float(value: Any) -> float | None:
    if value is None or isinstance(value, (bool, dict, list)):
        return None
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return None
