"""Rules of people, as TOML: a metric, what it must not do, and for how long.

    [[rule]]
    name = "hot"                            # also the title of its events
    metric = "system/device/temperature"    # a glob over metric names
    when = "above"                          # above, below, equals, not_finite
    threshold = 90.0
    aggregate = "mean"                      # last, mean, min, max, delta over the window
    window_s = 60                           # 0: each sample
    for_s = 120                             # how long it must hold until it is confirmed; suspected at once
    severity = "critical"                   # info, warning, critical

A file with one wrong rule is refused whole, with its line and the reason.
"""

import math
import re
import tomllib
from typing import Any, Literal

import msgspec

from stepward.errors import UsageError

MAX_RULES = 200
MAX_S = 7 * 86400.0
_RULE = re.compile(r"^\s*\[\[\s*rule\s*\]\]")
_KEY = re.compile(r"^\s*([A-Za-z_]\w*)\s*=")
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule. Seconds are those of the signals."""

    name: str
    metric: str
    when: Literal["above", "below", "equals", "not_finite"]
    threshold: float = math.nan
    aggregate: Literal["last", "mean", "min", "max", "delta"] = "last"
    window_s: float = 0.0
    for_s: float = 0.0
    severity: Literal["info", "warning", "critical"] = "warning"


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules of a TOML text.

    Raises:
        UsageError: ``bad_rule``, with the ``line`` that is wrong; none of the rules is taken.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        line = int(found[1]) if found else len(text.splitlines())
        raise _refused(line, _PLACE.sub("", str(error)).strip()) from None
    starts = [number for number, line in enumerate(text.splitlines(), 1) if _RULE.match(line)]
    for key in tree:
        if key != "rule":
            raise _refused(_line_of(text, 1, key), f"{key!r} is no table of rules: write [[rule]]")
    entries = tree.get("rule", [])
    if not isinstance(entries, list) or len(entries) != len(starts):
        raise _refused(starts[0] if starts else 1, "each rule is a table [[rule]] of its own")
    if len(entries) > MAX_RULES:
        raise _refused(starts[MAX_RULES], f"more than {MAX_RULES} rules")
    rules: list[Rule] = []
    names: set[str] = set()
    for start, entry in zip(starts, entries, strict=True):
        rule = _rule(text, start, entry)
        if rule.name in names:
            raise _refused(_line_of(text, start, "name"), f"a second rule is named {rule.name!r}")
        names.add(rule.name)
        rules.append(rule)
    return tuple(rules)


def _rule(text: str, start: int, entry: dict[str, Any]) -> Rule:
    try:
        rule = msgspec.convert(entry, Rule)
    except msgspec.ValidationError as error:
        words = str(error)
        found = re.search(r"`\$\.(\w+)`|field `(\w+)`", words)
        key = next((group for group in found.groups() if group), "") if found else ""
        raise _refused(_line_of(text, start, key), words.replace("`$.", "`").replace("Object", "the rule")) from None
    for key, wrong, reason in (
        ("name", not 0 < len(rule.name.strip()) <= 100, "a name has 1 to 100 characters"),
        ("metric", not 0 < len(rule.metric) <= 1024, "metric is a glob of 1 to 1024 characters"),
        ("threshold", rule.when != "not_finite" and not math.isfinite(rule.threshold), "threshold must be a number"),
        ("window_s", not 0 <= rule.window_s <= MAX_S, "window_s is between 0 and 7 days"),
        ("for_s", not 0 <= rule.for_s <= MAX_S, "for_s is between 0 and 7 days"),
        ("window_s", rule.aggregate != "last" and rule.window_s == 0, f"{rule.aggregate} needs a window_s"),
        ("aggregate", rule.when == "not_finite" and rule.aggregate != "last", "not_finite looks at single samples"),
    ):
        if wrong:
            raise _refused(_line_of(text, start, key), reason)
    return rule


def _line_of(text: str, start: int, key: str) -> int:
    """Line of a key of the table that begins at ``start``; that of the table where it has no line of its own."""
    for number, line in enumerate(text.splitlines()[start - 1 :], start):
        if number > start and line.lstrip().startswith("["):
            break
        found = _KEY.match(line)
        if found and found[1] == key:
            return number
    return start


def _refused(line: int, reason: str) -> UsageError:
    return UsageError(
        f"rules, line {line}: {reason}",
        code="bad_rule",
        hint="no rule was taken; docs/detect.md has an example",
        line=line,
        reason=reason,
    )
