"""From a text or a JSON value to a ``ClusterSpec``, or to all that is wrong with it at once.

Each problem has the path (``node_pools[0].shape.cpus``), the line of the text where there is one, and what is allowed.
Nothing is touched before a specification is whole.
"""

import types
import typing
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import msgspec
import yaml

from stepward.clusters.rules import contradictions
from stepward.clusters.spec import ClusterSpec
from stepward.clusters.yaml_tree import Tree, parse
from stepward.errors import UsageError

MAX_BYTES = 1 << 20
MOST_ITEMS = 256
"""Items of a list; no specification that a person writes has more."""
MOST_PROBLEMS = 100
"""Problems after which no more are looked for."""
_SHOWN = 5
"""Problems that the message itself names; the context has all that were found."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong with a specification."""

    path: str
    line: int | None = None
    message: str

    def __str__(self) -> str:
        where = self.path or "the specification"
        return f"{f'line {self.line}: ' if self.line else ''}{where}: {self.message}"


def read_spec(text: str) -> ClusterSpec:
    """The specification that a YAML or JSON text holds.

    Raises:
        UsageError: ``bad_cluster_spec``, with all ``problems``.
    """
    if len(text) > MAX_BYTES:
        raise refusal([Problem(path="", message=f"longer than {MAX_BYTES >> 10} KiB")])
    try:
        tree = parse(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        said = " ".join(part for part in (error.context, error.problem) if part)
        raise refusal([Problem(path="", line=line, message=f"neither YAML nor JSON: {said}")]) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise refusal([Problem(path="", message=f"neither YAML nor JSON: {error}")]) from None
    return _spec(tree)


def spec_of(value: object) -> ClusterSpec:
    """The specification that a JSON value is; a string is one as a person has written it, see ``read_spec``.

    Raises:
        UsageError: ``bad_cluster_spec``, with all ``problems``.
    """
    if isinstance(value, str):
        return read_spec(value)
    return _spec(Tree(value))


def refusal(problems: list[Problem]) -> UsageError:
    """The error that says what is wrong with a specification."""
    shown = "; ".join(str(problem) for problem in problems[:_SHOWN])
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return UsageError(
        f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'} in the cluster's specification: {shown}{more}",
        code="bad_cluster_spec",
        hint="docs/clusters.md describes every field; `stepward cluster validate -f FILE` checks one",
        problems=[msgspec.to_builtins(problem) for problem in problems],
        line=next((problem.line for problem in problems if problem.line), None),
    )


def _spec(tree: Tree) -> ClusterSpec:
    problems = list(islice(chain(tree.problems(), _misfits(ClusterSpec, tree.value, "")), MOST_PROBLEMS))
    spec: ClusterSpec | None = None
    if not problems:
        spec = msgspec.convert(tree.value, ClusterSpec)
        problems = list(islice(contradictions(spec), MOST_PROBLEMS))
    if spec is None or problems:
        raise refusal([Problem(path=path, line=tree.line(path), message=message) for path, message in problems])
    return spec


def _misfits(kind: Any, value: object, path: str) -> Iterator[tuple[str, str]]:
    """Path and message of every value that is not of its field's type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is not None:
            yield from _misfits(next(one for one in arguments if one is not type(None)), value, path)
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from _of_struct(kind, value, path)
    elif origin is list:
        if not isinstance(value, list):
            yield path, f"{_shown(value)} is no list"
        elif len(value) > MOST_ITEMS:
            yield path, f"{len(value)} items are more than {MOST_ITEMS}"
        else:
            for place, item in enumerate(value):
                yield from _misfits(arguments[0], item, f"{path}[{place}]")
    else:
        yield from _of_leaf(kind, value, path)


def _of_struct(kind: type[msgspec.Struct], value: object, path: str) -> Iterator[tuple[str, str]]:
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    if not isinstance(value, dict):
        yield path, f"{_shown(value)} is no mapping with {', '.join(fields)}"
        return
    below = f"{path}." if path else ""
    for name, given in value.items():
        if name in fields:
            yield from _misfits(fields[name].type, given, f"{below}{name}")
        else:
            yield f"{below}{str(name)[:80]}", f"there is no such field; known: {', '.join(fields)}"
    for name, field in fields.items():
        if field.required and name not in value:
            yield f"{below}{name}", "is missing"


def _of_leaf(kind: Any, value: object, path: str) -> Iterator[tuple[str, str]]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        yield path, f"{_shown(value)} is not {_allowed(kind)}"


def _allowed(kind: Any) -> str:
    for mark in getattr(kind, "__metadata__", ()):
        if isinstance(mark, msgspec.Meta) and mark.description:
            return mark.description
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(typing.get_args(kind))}"
    return {bool: "true or false"}.get(kind, str(kind))


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
