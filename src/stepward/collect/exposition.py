"""Text of Prometheus exporters: format 0.0.4 and OpenMetrics 1.0, text in, samples out, no I/O.

A line that is no sample is counted and passed over, so that one bad exporter line costs only itself. Timestamps and
exemplars are left out: a sample is as old as the scrape. Names may be quoted (Prometheus 3).
"""

import re
from typing import NamedTuple

MAX_LABELS = 64
"""Labels of a sample beyond which its line counts as malformed."""
_NAME = r"[A-Za-z_:][A-Za-z0-9_:]*"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LABEL = re.compile(rf"\s*(?:({_NAME}|{_QUOTED})\s*=\s*)?({_QUOTED})\s*(?:,|(?=\}}))")
_END = re.compile(r"\s*\}")
_HEAD = re.compile(rf"({_NAME})?\s*")
_VALUE = re.compile(r"\s*([^\s#]+)(?:\s+[^\s#]+)?\s*(?:#.*)?")
_ESCAPE = re.compile(r"\\(.)")
_NUMBER = re.compile(
    r"[-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|nan|inf(?:inity)?)", re.I
)


class Sample(NamedTuple):
    """One value; ``labels`` in the order of the line."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Exposition(NamedTuple):
    """What a text holds: samples, lines that were not understood, and samples beyond the limit."""

    samples: list[Sample]
    malformed: int
    left_out: int


def read(text: str, *, most: int) -> Exposition:
    """The first ``most`` samples of a text; of the same name and labels the last one counts."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = {}
    malformed = left_out = 0
    for line in map(str.strip, text.split("\n")):
        if not line or line[0] == "#":
            continue
        one = sample(line)
        if one is None:
            malformed += 1
        elif len(found) < most or (one.name, one.labels) in found:
            found[one.name, one.labels] = one
        else:
            left_out += 1
    return Exposition(list(found.values()), malformed, left_out)


def sample(line: str) -> Sample | None:
    """The sample of one line; None for a line that is none."""
    head = _HEAD.match(line)
    assert head is not None
    name, at, labels = head[1] or "", head.end(), list[tuple[str, str]]()
    if line[at : at + 1] == "{":
        inside = _labels(line, at + 1)
        if inside is None:
            return None
        quoted, labels, at = inside
        name = name or quoted
    value = _VALUE.fullmatch(line, at)
    if not name or value is None or not _NUMBER.fullmatch(value[1]):
        return None
    return Sample(name, tuple(labels), float(value[1]))


def _labels(line: str, at: int) -> tuple[str, list[tuple[str, str]], int] | None:
    """Quoted name (or ""), labels, and where they end; None where they are not well formed or a name comes twice."""
    name, labels = "", list[tuple[str, str]]()
    while (end := _END.match(line, at)) is None:
        found = _LABEL.match(line, at)
        if found is None or len(labels) == MAX_LABELS:
            return None
        key, value = found[1], _unquoted(found[2])
        if key is not None:
            labels.append((_unquoted(key) if key[0] == '"' else key, value))
        elif name or labels:
            return None
        else:
            name = value
        at = found.end()
    return None if len({key for key, _ in labels}) != len(labels) else (name, labels, end.end())


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text[1:-1])


def label_text(labels: tuple[tuple[str, str], ...]) -> str:
    """Labels as the formats write them, in braces and sorted by name; "" for none."""
    if not labels:
        return ""
    escaped = (
        (key, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for key, value in sorted(labels)
    )
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped) + "}"
