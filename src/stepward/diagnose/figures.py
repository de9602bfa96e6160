"""Metrics in every form that people have them in, made into statements: a known metric, its values, what they compare to.

Forms: JSON lines, CSV, Prometheus text, a YAML or JSON list of ``{name, description?, unit?, values}`` or of sentences,
prose. A statement keeps the line that it was read from. What it means is the matter of ``metrics``.
"""

import math
import re
from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Any

import msgspec

from stepward.diagnose.lines import Attribution, Line, clean, read_line
from stepward.diagnose.tables import table

VOCABULARY: dict[str, str] = table("vocabulary")["metrics"]
_NAMES = list(VOCABULARY)
COURSES = [(re.compile(pattern, re.IGNORECASE), name) for name, pattern in table("vocabulary")["courses"].items()]
LONG = 24
"""Values from which on a series is judged as a course over time."""
_ANY = re.compile("|".join(f"(?P<m{at}>{pattern})" for at, pattern in enumerate(VOCABULARY.values())), re.IGNORECASE)
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
_PLACE = re.compile(r"\b(?:node|host|of|on)[ =:]+([A-Za-z][\w.-]*\d[\w-]*|[a-z]\w*-[\w-]+)")
_LEAD = re.compile(r"([a-z]\w*-[\w-]*\w|[a-z]\w*\d[\w-]*)[ :,]")
_PART_OF = re.compile(
    r"(?:gpu|device|rank|port|nic|mlx\w*|cpu)\S*(?: \d+)? (?:on|of|at) ([A-Za-z][\w.-]*\d[\w-]*)", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.;!?])\s+(?=[A-Za-z])|;\s*")


_ENDS = {"loss", "grad_norm"}
"""Metrics whose last values say something that their course does not: whether they are numbers still."""
_COORDINATES = {"rank", "step", "time", "t", "timestamp", "device", "gpu", "node", "host"}


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
    device: str | None = None
    tracked: bool = False
    """Whether the values are a course over time, long enough to be judged against its peers and its past (``peers``)."""

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


def said(lines: list[Line]) -> list[Line]:
    """The lines of a metrics input that are words: names and numbers of data say nothing that a signature could mean."""
    if lines[0].text.lstrip().startswith("{") or (lines[0].text.count(",") >= 1 and _csv_rows(lines)):
        return []
    return [line for line in lines if not prometheus(line)]


def prose(line: Line) -> Iterator[Statement]:
    """Statements of a line of prose: each known metric with the numbers that follow it."""
    for sentence in _SENTENCE.split(line.body.lstrip("- ")):
        lead = _PART_OF.match(sentence) or _LEAD.match(sentence)
        if line.node is None and lead and not _ANY.match(sentence):
            line.node = lead[1]
        hits = list(_ANY.finditer(sentence))
        for at, hit in enumerate(hits):
            end = hits[at + 1].start() if at + 1 < len(hits) else len(sentence)
            before = sentence[hits[at - 1].end() if at else 0 : hit.start()]
            yield _stated(hit, sentence, sentence[hit.end() : end], before, line)


def _stated(hit: re.Match[str], sentence: str, behind: str, before: str, line: Line) -> Statement:
    metric = _NAMES[int((hit.lastgroup or "m0")[1:])] if hit.lastgroup else "other"
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
        line,
        rank=labels.get("rank"),
        node=labels.get("node") or labels.get("hostname") or labels.get("instance"),
    )


def _named(
    name: str, values: list[float], line: Line, *, unit: str = "", rank: Any = None, node: Any = None, text: str = ""
) -> list[Statement]:
    """A statement of a series by its name; empty for a name that means nothing here."""
    hit = _ANY.search(name) or _ANY.search(text)
    if hit is None or hit.lastgroup is None or not values:
        return []
    metric = _NAMES[int(hit.lastgroup[1:])]
    place = _PLACE.search(text)
    node = node or (place[1] if place else None)
    who = int(rank) if str(rank).isdigit() and len(str(rank)) < 8 else line.rank
    limits = [
        float(one[1].replace(",", "")) for one in _NUMBER.finditer(text) if _LIMIT.search(text[: one.start()][-16:])
    ]
    shown = f"{name} {text} {', '.join(f'{value:g}' for value in values[-8:])} {unit}".replace("  ", " ").strip()
    one = Statement(metric, values, unit.lower(), clean(shown), line, rank=who, node=str(node) if node else line.node)
    one.limit = limits[0] if limits else None
    return [one]


def _listed(text: str, lines: list[Line]) -> list[Statement] | None:
    """Statements of a YAML or JSON list; None if it is not one."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # Lists have no use for aliases, and a few lines of them can stand for billions of items.
        if "&" in text and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            return None
        items = yaml.load(text, Loader=loader)
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
            if values:
                found += _named(name, values, line, unit=unit, rank=item.get("rank"), node=item.get("node"), text=more)
            else:
                found += _sentence(f"{name} {' '.join(map(str, item['values']))} {more}", line)
        else:
            words = ", ".join(f"{key} {value}" for key, value in item.items()) if isinstance(item, dict) else str(item)
            found += _sentence(words, line)
    return found


def _sentence(words: str, line: Line) -> list[Statement]:
    """Statements of an item of a list; it has a head as a line has."""
    return list(prose(read_line(line.source, line.number, words, Attribution(line.rank), UTC)))


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
        rows = list(csv.reader(line.text for line in lines))
    except csv.Error:
        return []
    header = rows[0]
    even = len(rows) > 1 and all(len(row) == len(header) for row in rows)
    if not even or any(_float(name) is not None for name in header):
        return []
    return [(dict(zip(header, row, strict=True)), line) for row, line in zip(rows[1:], lines[1:], strict=True)]


def _columns(rows: Iterable[tuple[dict[str, Any], Line]]) -> list[Statement]:
    """Rows to series: one per column (or per ``name``/``value`` pair), rank and node."""
    series: dict[tuple[str, Any, Any, Any], tuple[list[float], Line]] = {}
    for row, line in rows:
        rank, node = row.get("rank"), _name(row.get("node") or row.get("host") or row.get("hostname"))
        device = _name(row.get("device", row.get("gpu")))
        named = row.get("metric") or row.get("name")
        pairs = [(str(named), row.get("value"))] if named and "value" in row else list(row.items())
        if named and isinstance(row.get("values"), list):
            pairs = [(str(named), one) for one in row["values"]]
        for name, raw in pairs:
            if (value := _float(raw)) is not None and name not in _COORDINATES:
                series.setdefault((name, str(rank), node, device), ([], line))[0].append(value)
    return [
        one
        for (name, rank, node, device), (values, line) in series.items()
        for one in _both(name, values, line, (rank, node, device))
    ]


def _both(name: str, values: list[float], line: Line, place: tuple[Any, Any, Any]) -> list[Statement]:
    """A series as its course; as a named metric where it has none, or where its end has a meaning of its own."""
    course = _course(name, values, line, place)
    told = not course or course[0].metric in _ENDS
    return [*course, *(_named(name, values, line, rank=place[0], node=place[1]) if told else ())]


def _name(value: Any) -> str | None:
    """A name of something; None for what is no name."""
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def _course(name: str, values: list[float], line: Line, place: tuple[Any, Any, Any]) -> list[Statement]:
    """A series that is long enough, under a name that says what it is; empty for any other."""
    found = next((metric for pattern, metric in COURSES if pattern.search(name)), None)
    if found is None or len(values) < LONG:
        return []
    rank, node, device = place
    one = Statement(found, values, "", "", line, tracked=True, node=str(node) if node else line.node)
    one.rank = int(rank) if str(rank).isdigit() and len(str(rank)) < 8 else line.rank
    one.device = None if device is None else str(device)
    who = ", ".join(f"{key} {value}" for key, value in (("rank", one.rank), ("device", device)) if value is not None)
    places = " ".join(part for part in (name, who) if part)
    one.text = clean(f"{places}: {', '.join(f'{value:g}' for value in values[:: max(1, len(values) // 8)])}")
    return [one]


def _float(value: Any) -> float | None:
    if value is None or isinstance(value, (bool, dict, list)):
        return None
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return None
