"""The signature catalogue: message formats that name a cause, a symptom or a circumstance.

The data lies in ``catalogue/signatures/*.toml``, one key a label; this module reads it. A signature says what a line means, never
what a run's cause is: that is decided by cascade and ranking.
"""

import re
from functools import cache

import msgspec

from stepward.diagnose.clues import STRENGTH, Role
from stepward.diagnose.literals import required
from stepward.diagnose.tables import signature_files

XID = r"\bxid(?:\s*\([^)]*\)|\s+error|\s+code)?\s*[:=#]?\s*(?:{codes})\b"
"""The driver's own line, and how agents and people quote it."""
NO_LABEL = "symptoms"


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A signature as it stands in the catalogue."""

    id: str
    says: str
    match: str = ""
    xid: list[int] = []
    role: Role = Role.ROOT
    node: bool = False
    w: float = 0.0
    do: str | None = None
    only: bool = False
    needs: list[str] = []
    """Literals to look for in place of those of the expression, where those hit too many lines."""


class Signature(msgspec.Struct, frozen=True):
    """A compiled signature. ``only``: a line that it matches means nothing else."""

    id: str
    label: str | None
    role: Role
    says: str
    pattern: re.Pattern[str]
    literals: tuple[str, ...]
    strength: float
    names_node: bool
    digits_matter: bool
    do: str | None
    only: bool


@cache
def catalogue() -> tuple[Signature, ...]:
    """Every signature, read once a process."""
    found: list[Signature] = []
    for groups in signature_files():
        for label, entries in msgspec.convert(groups, dict[str, list[Entry]]).items():
            found += [_compiled(entry, None if label == NO_LABEL else label) for entry in entries]
    return tuple(found)


def _compiled(entry: Entry, label: str | None) -> Signature:
    text = XID.format(codes="|".join(map(str, entry.xid))) if entry.xid else entry.match
    return Signature(
        id=entry.id,
        label=label,
        role=entry.role,
        says=entry.says,
        pattern=re.compile(text, re.IGNORECASE),
        literals=tuple(entry.needs or required(text)),
        strength=STRENGTH[entry.role] + entry.w,
        names_node=entry.node,
        digits_matter=bool(
            re.search(r"(?<!\\)(?<!\{)(?<!,)\d(?!\d*\})|\\d\{|\\d(?![+*])", re.sub(r"\.\{\d*,?\d*\}|x27", "", text))
        ),
        do=entry.do,
        only=entry.only,
    )
