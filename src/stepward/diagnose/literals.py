"""Literals that a regular expression cannot match without: what the multi-literal prefilter looks for.

Derived from the parsed expression, so that nobody keeps two lists alike by hand. The parser is the standard library's
own (``re._parser``), which has no public name; a test holds every signature to its literals on each Python.
"""

import re
from typing import Any

SHORTEST = 3
"""Shorter literals hit too many lines to filter anything."""

_parser: Any = re._parser  # type: ignore[attr-defined]
_constants: Any = re._constants  # type: ignore[attr-defined]


def required(pattern: str) -> list[str]:
    """Lower-case literals of which every match holds at least one.

    Raises:
        ValueError: a match needs no literal of ``SHORTEST`` characters.
    """
    found = _of_sequence(_parser.parse(pattern, re.IGNORECASE))
    if not found:
        raise ValueError(f"a match of {pattern!r} needs no literal; give the signature one")
    return sorted(found)


def _of_sequence(items: Any) -> set[str]:
    """The most selective requirement of a sequence: that whose shortest literal is longest."""
    choices, run = [], ""
    for operation, argument in items:
        if operation is _constants.LITERAL:
            run += chr(argument).lower()
            continue
        choices.append({run})
        run = ""
        choices.append(_of_item(operation, argument))
    choices.append({run})
    return max((one for one in choices if one and min(map(len, one)) >= SHORTEST), key=_selective, default=set())


def _of_item(operation: Any, argument: Any) -> set[str]:
    if operation is _constants.SUBPATTERN:
        return _of_sequence(argument[-1])
    if operation is _constants.BRANCH:
        branches = [_of_sequence(branch) for branch in argument[1]]
        return set().union(*branches) if all(branches) else set()
    if operation in (_constants.MAX_REPEAT, _constants.MIN_REPEAT) and argument[0] >= 1:
        return _of_sequence(argument[2])
    return set()


def _selective(literals: set[str]) -> tuple[int, int]:
    return min(map(len, literals)), -len(literals)
