"""User configuration of every custom becomes a plain, typed tree."""

import argparse
import dataclasses
import datetime
import enum
import math
import types
from collections import UserDict
from pathlib import Path

import msgspec
import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.sdk.config import MAX_TEXT, PIECE_BYTES, UserConfig, as_tree, pieces, plain
from stepward.store.catalog.bounds import merged


class Optimizer(enum.Enum):
    ADAM = "adam"


class Odd(enum.Enum):
    X = object()


@dataclasses.dataclass
class Model:
    width: int = 4
    path: Path = Path("/data/x")


class Struct(msgspec.Struct):
    lr: float = 0.1


class Pydantic(pydantic.BaseModel):
    depth: int = 2
    inner: dict[str, int] = {"a": 1}


class Missing(UserDict):
    """Like an OmegaConf mapping with a value that is still ``???``."""

    def __getitem__(self, key):
        if key == "gone":
            raise KeyError(key)
        return super().__getitem__(key)


class HasToDict:
    def to_dict(self):
        return {"hidden": 8}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Model(), {"width": 4, "path": "/data/x"}),
        (argparse.Namespace(lr=1e-3, sub=Model()), {"lr": 1e-3, "sub": {"width": 4, "path": "/data/x"}}),
        (types.SimpleNamespace(a=True), {"a": True}),
        (Struct(), {"lr": 0.1}),
        (Pydantic(), {"depth": 2, "inner": {"a": 1}}),
        (Missing({"a": 1, "gone": 2}), {"a": 1, "gone": "<KeyError>"}),
        (HasToDict(), {"hidden": 8}),
        ({Optimizer.ADAM: Optimizer.ADAM, 3: Odd.X}, {"adam": "adam", "3": "X"}),
        ({"f32": np.float32(0.5), "i": np.int64(7), "b": np.bool_(True)}, {"f32": 0.5, "i": 7, "b": True}),
        ({"a": np.arange(3), "dtype": np.dtype("f4")}, {"a": [0, 1, 2], "dtype": "float32"}),
        ({"big": np.zeros((100, 100))}, {"big": "<ndarray (100, 100) float64>"}),
        (
            {"when": datetime.date(2026, 1, 2), "s": {2, 1}, "t": (1, None)},
            {"when": "2026-01-02", "s": [1, 2], "t": [1, None]},
        ),
        (
            {"f": print, "c": Path, "o": HasToDict},
            {"f": "builtins.print", "c": "pathlib.Path", "o": f"{__name__}.HasToDict"},
        ),
        ({"n": 2**63, "m": -(2**63)}, {"n": str(2**63), "m": -(2**63)}),
        ({"b": b"\xff", "u": "\ud800"}, {"b": "\ufffd", "u": "?"}),
        ({"o": object()}, {"o": "<object>"}),
        (None, {}),
        ([1], {"value": [1]}),
    ],
)
def test_kinds(value, expected):
    tree = as_tree(value)
    assert tree == expected
    assert {k: type(v) for k, v in tree.items()} == {k: type(v) for k, v in expected.items()}
    msgspec.msgpack.encode(tree)


def test_cycles_and_long_texts_are_cut():
    loop = {"a": 1}
    loop["self"] = loop
    assert plain(loop) == {"a": 1, "self": "…"}
    assert len(plain("x" * 10**6)) == MAX_TEXT + 1
    assert plain(10**5000) == math.inf


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
)


@given(VALUES)
def test_any_value_can_be_sent(value):
    msgspec.msgpack.encode(plain(value))


def test_updates_send_what_changed_masked_and_keep_the_value():
    sent = []
    config = UserConfig(sent.append)
    config.update({"lr": 0.1, "api_key": "abc"}, epochs=3)
    config["lr"] = np.float32(0.5)
    config.setdefault("lr", 9)
    assert sent == [{"lr": 0.1, "api_key": "***", "epochs": 3}, {"lr": 0.5}]
    assert config == {"lr": 0.5, "api_key": "abc", "epochs": 3}


def test_assigning_by_merging_is_sent_too():
    sent = []
    config = UserConfig(sent.append)
    config |= {"lr": 0.1}
    assert sent == [{"lr": 0.1}] and isinstance(config, UserConfig)


@pytest.mark.parametrize(
    "tree",
    [
        {str(n): "x" * MAX_TEXT for n in range(100)},
        {"model": {"layers": {str(n): {"a": "x" * 1000, "b": n} for n in range(3000)}}, "lr": 0.1},
    ],
)
def test_a_configuration_of_any_size_fits_into_records(tree):
    sent = []
    UserConfig(sent.append).update(tree)
    assert len(sent) > 1 and all(len(msgspec.msgpack.encode(piece)) <= PIECE_BYTES for piece in sent)
    whole = {}
    for piece in sent:
        whole = merged(whole, piece)
    assert whole == tree


def test_a_leaf_without_end_is_cut_and_the_rest_is_sent():
    tree = {"a": {"long": ["x" * MAX_TEXT] * 20, "short": 1}}
    assert list(pieces(tree)) == [{"a": {"long": "…"}}, {"a": {"short": 1}}]
