"""Clocks of log lines: from the many forms in which programs write them to seconds that can be ordered.

Seconds are of the Unix epoch where a line has a date with a year, of the year 1970 where it has no year, and of a day
where it has only a time of day; ``Clock.dated`` says which may be shown to people. Uptimes are no clocks.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

_MONTHS = {
    name: at
    for at, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_TIME = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_FORMS = [
    re.compile(rf"(?P<year>\d{{4}})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _]{_TIME}\s?(?P<zone>Z|[+-]\d\d:?\d\d)?"),
    re.compile(rf"\b[IWEF](?P<month>\d\d)(?P<day>\d\d) {_TIME}"),
    re.compile(rf"(?P<mon>[A-Z][a-z]{{2}})\s+(?P<day>\d{{1,2}}) {_TIME}(?: (?P<year>\d{{4}}))?"),
    re.compile(rf"\b(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{{4}}) {_TIME}"),
    re.compile(rf"\b(?P<month>\d\d)-(?P<day>\d\d) {_TIME}"),
    re.compile(rf"^\W{{0,2}}{_TIME}\b"),
]
_NEAR = 160
"""A line's clock stands at its head; later times are part of what it says."""
_HAS_TIME = re.compile(r"\d\d:\d\d:\d\d")


class Clock(NamedTuple):
    """Seconds of a line; ``dated`` if the line says the year as well."""

    seconds: float
    dated: bool


def clock(text: str, zone: tzinfo = UTC) -> Clock | None:
    """The clock of a line, or None. ``zone`` is that of clocks that name none."""
    head = text[:_NEAR]
    if not _HAS_TIME.search(head):
        return None
    for form in _FORMS:
        if found := form.search(head):
            return _clock(found.groupdict(), zone)
    return None


def shown(seconds: float | None) -> str | None:
    """RFC 3339 UTC of a dated clock's seconds."""
    if seconds is None or seconds < 366 * 86400:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _clock(parts: dict[str, str | None], zone: tzinfo) -> Clock | None:
    month = parts.get("month") or _MONTHS.get((parts.get("mon") or "jan").lower())
    if month is None:
        return None
    year = parts.get("year")
    try:
        moment = datetime(
            int(year or 1970),
            int(month),
            int(parts.get("day") or 1),
            int(parts["h"] or 0),
            int(parts["m"] or 0),
            int(parts["s"] or 0),
            int((parts.get("f") or "0")[:6].ljust(6, "0")),
            tzinfo=_zone(parts.get("zone"), zone),
        )
        return Clock(moment.timestamp(), year is not None)
    except (ValueError, OverflowError):
        return None


def _zone(text: str | None, otherwise: tzinfo) -> tzinfo:
    if not text:
        return otherwise
    if text == "Z":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))
