"""Forms that Slurm writes nodes and durations in, read on both sides of the house and in logs.

The forms are those of ``hostlist`` names (``n[0-3,7],x1``) and of ``--time`` in Slurm's ``sbatch`` manual.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

MAX_NODES = 65_536
"""Names that one list may stand for: Slurm's own limit of a cluster."""
NOBODY = frozenset({"", "(null)", "None", "none", "None assigned", "N/A", "n/a"})
"""What Slurm writes where there is no node."""
_DIGITS = 18
"""Digits of a number that may stand in brackets."""
_PIECE = re.compile(r"\[([0-9,-]+)\]|([^\[\]]+)")
_NUMBERED = re.compile(r"(.*?)([0-9]+)([^0-9]*)", re.DOTALL)
_DURATION = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})(?:\.\d+)?")
_UNENDING = frozenset({"UNLIMITED", "INFINITE"})


def expand_nodes(text: str) -> list[str]:
    """The names that a node list stands for, in its order.

    Raises:
        ValueError: the brackets do not fit, or it stands for more than ``MAX_NODES``.
    """
    if text.strip() in NOBODY:
        return []
    names: list[str] = []
    for part in _at_commas(text.strip()):
        choices = [list(itertools.islice(_choices(piece), MAX_NODES + 1)) for piece in _pieces(part)]
        total = len(names)
        for choice in choices:
            total = max(total, 1) * len(choice)
        if total > MAX_NODES:
            raise ValueError(f"{text[:80]!r} stands for more than {MAX_NODES} nodes")
        names += ["".join(chosen) for chosen in itertools.product(*choices)]
    if len(names) > MAX_NODES:
        raise ValueError(f"{text[:80]!r} stands for more than {MAX_NODES} nodes")
    return names


def fold_nodes(names: Iterable[str]) -> str:
    """The shortest list for these names, ordered by name and number, each once: the opposite of ``expand_nodes``."""
    groups: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for name in dict.fromkeys(names):
        found = _NUMBERED.fullmatch(name)
        if found is None or len(found[2]) > _DIGITS:
            groups[name, "", -1] = {0}
            continue
        head, digits, tail = found.groups()
        # Numbers without leading zeros share one bracket whatever their length; a zero keeps its width.
        groups[head, tail, len(digits) if digits[0] == "0" and len(digits) > 1 else 0].add(int(digits))
    return ",".join(_folded(*key, numbers) for key, numbers in sorted(groups.items()))


def duration_s(text: str) -> float | None:
    """Seconds of ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours[:minutes[:seconds]]``.

    Infinity for ``UNLIMITED`` and ``INFINITE``; None for anything else.
    """
    text = text.strip()
    if text.upper() in _UNENDING:
        return float("inf")
    found = _DURATION.fullmatch(text)
    if found is None or len(text) > 32:
        return None
    parts = [int(part) for part in found["parts"].split(":")]
    if found["days"] is not None:
        parts += [0] * (3 - len(parts))
    elif len(parts) < 3:
        parts = [0, *parts, 0] if len(parts) == 1 else [0, *parts]
    hours, minutes, seconds = parts
    return float(int(found["days"] or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds)


def _at_commas(text: str) -> Iterator[str]:
    """The parts between commas that are outside of brackets."""
    depth, start = 0, 0
    for place, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _pieces(part: str) -> list[str]:
    pieces = [found[0] for found in _PIECE.finditer(part)]
    if not pieces or "".join(pieces) != part:
        raise ValueError(f"{part[:80]!r} is no list of nodes")
    return pieces


def _choices(piece: str) -> Iterator[str]:
    if not piece.startswith("["):
        yield piece
        return
    for bounds in piece[1:-1].split(","):
        low, dash, high = bounds.partition("-")
        if (
            not low.isdigit()
            or (dash and not high.isdigit())
            or len(bounds) > 2 * _DIGITS + 1
            or int(high or low) < int(low)
        ):
            raise ValueError(f"{piece[:80]!r} holds no numbers and ranges")
        for number in range(int(low), int(high or low) + 1):
            yield f"{number:0{len(low)}d}"


def _folded(head: str, tail: str, width: int, numbers: set[int]) -> str:
    if width < 0:
        return head
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    shown = ",".join(f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in ranges)
    return f"{head}{shown}{tail}" if len(numbers) == 1 else f"{head}[{shown}]{tail}"
