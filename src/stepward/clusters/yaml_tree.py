"""YAML and JSON as plain values that remember the line on which each stood.

Scalars follow YAML 1.2's core schema: ``12:30:00`` and ``no`` stay the text that was written, as whoever writes a time
limit or a name expects. Aliases count each time they are used, so that a text that unfolds without end is refused.
"""

import re

import msgspec
import yaml

MAX_VALUES = 20_000
MAX_DEPTH = 30


class Tree:
    """A value, the lines of its parts by path, and the keys that it has twice."""

    def __init__(self, value: object, lines: dict[str, int] | None = None, twice: list[str] | None = None) -> None:
        self.value = value
        self._lines = lines or {}
        self._twice = twice or []

    def line(self, path: str) -> int | None:
        """The line of a path, or of the nearest thing around it that is there."""
        while path and path not in self._lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self._lines.get(path)

    def problems(self) -> list[tuple[str, str]]:
        """Path and message of what the text itself has wrong."""
        return [(path, "is given twice") for path in self._twice]


class _Loader(yaml.SafeLoader):
    """A safe loader without YAML 1.1's resolvers; those of the core schema are added below."""


_Loader.yaml_implicit_resolvers = {}


def _resolve(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), list(first))


_resolve("null", r"null|Null|NULL|~|", "nN~\0")
_resolve("bool", r"true|True|TRUE|false|False|FALSE", "tTfF")
_resolve("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789")
_resolve("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", "-+0123456789.")


def parse(text: str) -> Tree:
    """The tree of a text.

    Raises:
        yaml.YAMLError, ValueError: it is neither YAML nor JSON, or unfolds beyond all measure.
    """
    if text.lstrip().startswith("{") and "\t" in text:
        # Tabs may stand between the tokens of JSON, not of YAML.
        return Tree(msgspec.json.decode(text))
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return Tree(None)
        reader = _Reader(loader)
        return Tree(reader.value(root, "", 0), reader.lines, reader.twice)
    finally:
        loader.dispose()


class _Reader:
    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        self._left = MAX_VALUES
        self.lines: dict[str, int] = {}
        self.twice: list[str] = []

    def value(self, node: yaml.Node, path: str, depth: int) -> object:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise ValueError("it holds too many values, or is nested too deeply")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> object:
        try:
            return self._loader.construct_object(node)
        except (KeyError, AttributeError, ValueError) as error:
            # What a text calls a number, a truth or a date by a tag need not be one.
            said = f"{str(node.value)[:40]!r} is no {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from error

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, item in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            below = f"{path}.{name}" if path else name
            if name in found:
                self.twice.append(below)
            found[name] = self.value(item, below, depth + 1)
            self.lines[below] = key.start_mark.line + 1
        return found
