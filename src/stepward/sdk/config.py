"""The user's configuration: whatever a training script keeps its settings in, as a tree of plain, typed values.

``plain`` never raises and never runs without end: what it doesn't know becomes its text, what is too deep, too long or
refers to itself is cut and says so. Credentials are masked on the way out (``secrets``).
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from enum import Enum
from typing import Any

import msgspec

from stepward.sdk.secrets import mask_tree

MAX_DEPTH = 32
MAX_LEAVES = 50_000
MAX_TEXT = 64 << 10
"""Characters of one text; a longer one is cut. Configuration is read by people and kept in rows, not in files."""
MAX_ITEMS = 10_000
PIECE_BYTES = 512 << 10
"""A record of the journal holds 1 MiB; a longer tree is sent in parts."""
_INT_LIMIT = 1 << 63
_CUT = "…"

Emit = Callable[[dict[str, Any]], None]


class UserConfig(dict[str, Any]):
    """The user tree of a run; assigning or updating sends the changed top-level keys.

    A change inside a nested value isn't seen: assign its top-level key again.
    """

    def __init__(self, emit: Emit) -> None:
        super().__init__()
        self._emit = emit

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __ior__(self, other: Any) -> "UserConfig":  # type: ignore[override, misc]
        self.update(other)
        return self

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As of a dict."""
        if key not in self:
            self.update({key: default})
        return self[key]

    def update(self, *configs: Any, **values: Any) -> None:
        """Merge configurations of any kind that ``init(config=...)`` takes; later ones win, key by key."""
        changed = {}
        for config in (*configs, values):
            changed.update(as_tree(config))
        super().update(changed)
        if changed:
            for piece in pieces(mask_tree(changed)):
                self._emit(piece)


def pieces(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The tree in parts that fit into a record each; merged one after the other they are the tree again."""
    if len(msgspec.msgpack.encode(tree)) <= PIECE_BYTES:
        yield tree
    elif len(tree) > 1:
        items = list(tree.items())
        yield from pieces(dict(items[: len(items) // 2]))
        yield from pieces(dict(items[len(items) // 2 :]))
    else:
        ((key, value),) = tree.items()
        for piece in pieces(value) if isinstance(value, dict) else [_CUT]:
            yield {key: piece}


def as_tree(config: Any) -> dict[str, Any]:
    """A configuration as a tree; one that is no mapping of any kind stands under ``value``."""
    if config is None:
        return {}
    tree = plain(config)
    return tree if isinstance(tree, dict) else {"value": tree}


def plain(value: Any) -> Any:
    """``value`` as None, bool, int, float, str, list and dict with text keys."""
    return _Plain().of(value, 0)


class _Plain:
    """One conversion: counts leaves, and knows the containers it is inside of."""

    def __init__(self) -> None:
        self._left = MAX_LEAVES
        self._inside: set[int] = set()

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            return _CUT
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str | int | float) and not isinstance(value, Enum):
            return _scalar(value)
        if depth > MAX_DEPTH or id(value) in self._inside:
            return _CUT
        self._inside.add(id(value))
        try:
            return self._container(value, depth)
        except Exception as error:
            return f"<{type(value).__name__}: {type(error).__name__}>"
        finally:
            self._inside.discard(id(value))

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, Enum):
            return self.of(value.value, depth + 1) if _is_scalar(value.value) else value.name
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, bytes | bytearray):
            return _scalar(bytes(value[:MAX_TEXT]).decode("utf-8", "replace"))
        if isinstance(value, Sequence | Set):
            return self._items(sorted(value, key=repr) if isinstance(value, Set) else value, depth)
        fields = _fields(value)
        if fields is not None:
            return self._mapping(fields, depth)
        return self._leaf(value, depth)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for count, key in enumerate(value):
            if count >= MAX_ITEMS:
                tree[_CUT] = f"{len(value) - count} more"
                break
            name = _scalar(key if isinstance(key, str) else str(key.value if isinstance(key, Enum) else key))
            try:
                item = value[key]
            except Exception as error:  # an OmegaConf value that is still missing, a broken interpolation
                item = f"<{type(error).__name__}>"
            tree[name] = self.of(item, depth + 1)
        return tree

    def _items(self, value: Iterable[Any], depth: int) -> list[Any]:
        items: list[Any] = []
        for count, item in enumerate(value):
            if count >= MAX_ITEMS:
                items.append(_CUT)
                break
            items.append(self.of(item, depth + 1))
        return items

    def _leaf(self, value: Any, depth: int) -> Any:
        if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            return f"{getattr(value, '__module__', '')}.{value.__qualname__}".lstrip(".")
        if hasattr(value, "__fspath__"):
            return _scalar(str(value.__fspath__()))
        if hasattr(value, "isoformat"):
            return str(value.isoformat())
        size = _array_size(value)
        if size is not None:
            return self._array(value, size, depth)
        text = str(value)
        return f"<{type(value).__qualname__}>" if " object at 0x" in text else _scalar(text)

    def _array(self, value: Any, size: int, depth: int) -> Any:
        """Scalars of numpy, torch and jax become numbers, small arrays lists; never a copy of a big one from a device."""
        if size == 1 and not getattr(value, "shape", ()):
            return self.of(value.item(), depth + 1)
        if size <= 1000:
            return self.of(value.tolist(), depth + 1)
        return f"<{type(value).__name__} {tuple(value.shape)} {value.dtype}>"


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        text = str(value) if len(value) <= MAX_TEXT else value[:MAX_TEXT] + _CUT
        return text.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return int(value) if -_INT_LIMIT <= value < _INT_LIMIT else _big(int(value))
    return float(value)


def _big(value: int) -> str | float:
    """An integer beyond 64 bits as its digits; one with thousands of digits as a float, or its sign."""
    if value.bit_length() <= 1024:
        return str(value)
    return math.inf if value > 0 else -math.inf


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _array_size(value: Any) -> int | None:
    if not (hasattr(value, "dtype") and hasattr(value, "tolist")):
        return None
    shape = getattr(value, "shape", None)
    return math.prod(int(n) for n in shape) if shape is not None else None


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """The fields of an object that carries settings, by the custom of its library; None for any other object."""
    if isinstance(value, type):
        return None
    names = getattr(type(value), "__struct_fields__", None) or getattr(type(value), "__dataclass_fields__", None)
    if names is not None:
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    attributes = getattr(type(value), "__attrs_attrs__", None)
    if attributes is not None:
        return {attribute.name: getattr(value, attribute.name) for attribute in attributes}
    for method in ("model_dump", "to_dict"):
        dump = getattr(value, method, None)
        if callable(dump):
            dumped = dump()
            return dumped if isinstance(dumped, Mapping) else None
    argparse = sys.modules.get("argparse")
    if (argparse is not None and isinstance(value, argparse.Namespace)) or type(value).__name__ == "SimpleNamespace":
        fields: Mapping[Any, Any] = vars(value)
        return fields
    return None
