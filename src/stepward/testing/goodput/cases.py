"""The timelines of the suite, and how an answer is compared with the truth."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stepward.testing.goodput.construction import Case
from stepward.testing.goodput.stories import stories

Ledger = Callable[[Sequence[bytes]], Mapping[str, Any]]
"""JSON lines of a timeline -> the document ``stepward.goodput/1``."""

TOLERANCE = 1e-6
_FOLDER = Path(__file__).parent
_NOT_COMPARED = ("why", "other_reading")


def cases() -> list[Case]:
    """Every timeline: the shipped files, then the stories."""
    return [*shipped(), *stories()]


def shipped() -> list[Case]:
    """The timelines that rest as files."""
    truth: dict[str, dict[str, Any]] = msgspec.json.decode((_FOLDER / "truth.json").read_bytes())
    return [
        Case(name, (_FOLDER / "timelines" / f"{name}.jsonl").read_bytes().splitlines(), known)
        for name, known in truth.items()
    ]


def differences(truth: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    """Where an answer departs from the truth: a line each; a bucket that is not named is 0."""
    return [
        f"{field}: {want} expected, {found} came" for field, want, found in _pairs(truth, got) if not _same(want, found)
    ]


def _pairs(truth: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for field, want in truth.items():
        if field in _NOT_COMPARED:
            continue
        found = got.get(field)
        if isinstance(want, dict) and isinstance(found, Mapping):
            for bucket in sorted({*want, *found}):
                yield f"{field}.{bucket}", want.get(bucket, 0), found.get(bucket, 0)
        else:
            yield field, want, found


def _same(want: Any, found: Any) -> bool:
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in (want, found)):
        return type(want) is type(found) and want == found
    return bool(abs(want - found) <= TOLERANCE)
