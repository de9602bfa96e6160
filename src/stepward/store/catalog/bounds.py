"""Making what writers sent fit into columns: a frame that was committed must never fail to be applied.

Whatever a hostile or broken writer says, these functions return something that SQLite and PostgreSQL can hold. What is
cut is cut visibly.
"""

import math
from collections.abc import Iterator
from typing import Any

from stepward.model.resources import number

MAX_TEXT = 1024
MAX_LONG_TEXT = 20_000
MAX_DEPTH = 60
"""Nesting of a configuration; deeper trees are shown as one text."""
MAX_LEAVES = 10_000
"""Leaves of a configuration that filters can name."""
_MAX = (1 << 63) - 1


def int64(value: int) -> int:
    """An integer within int64."""
    return max(-_MAX - 1, min(_MAX, value))


def int32(value: int) -> int:
    """A small number (rank, exit code) within int32 and not negative."""
    return max(0, min((1 << 31) - 1, value))


def maybe_int64(value: int | None) -> int | None:
    """``int64``, or None."""
    return None if value is None else int64(value)


def text(value: str, limit: int = MAX_TEXT) -> str:
    """A text without NUL (PostgreSQL has none) and at most ``limit`` characters."""
    clean = value.replace("\0", "\ufffd")
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def tree(value: Any, depth: int = 0) -> Any:
    """A value as JSON can carry it: string keys, finite numbers, nothing deeper than ``MAX_DEPTH``."""
    if isinstance(value, dict):
        if depth >= MAX_DEPTH:
            return "…"
        return {text(str(key)): tree(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return "…" if depth >= MAX_DEPTH else [tree(item, depth + 1) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else number(value)
    if isinstance(value, str):
        return text(value, MAX_LONG_TEXT)
    if value is None or isinstance(value, bool | int):
        return value
    return text(str(value), MAX_LONG_TEXT)


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """``old`` with the keys of ``new`` put in, tree by tree."""
    result = dict(old)
    for key, value in new.items():
        known = result.get(key)
        both = isinstance(known, dict) and isinstance(value, dict)
        result[key] = merged(known, value) if both else value  # type: ignore[arg-type]
    return result


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, float | None, str]]:
    """(path, number, text) of every leaf: ``optim.betas.0``. Booleans are the texts true and false."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}.{index}" if path else str(index))
    elif isinstance(value, bool):
        yield path, None, "true" if value else "false"
    elif isinstance(value, int | float):
        yield path, _as_float(value), str(value)
    else:
        yield path, None, "" if value is None else str(value)


def _as_float(value: int | float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None
