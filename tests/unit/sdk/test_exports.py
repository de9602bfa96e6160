"""The public surface: complete, sorted, lazy, and the same in the stub."""

import ast
import importlib.util
import subprocess
import sys

import pytest

import stepward


def test_every_name_is_there_and_sorted():
    assert stepward.__all__ == sorted(stepward.__all__)
    assert all(callable(getattr(stepward, name)) for name in stepward.__all__)
    assert set(stepward.__all__) <= set(dir(stepward))
    with pytest.raises(AttributeError, match="nothing"):
        stepward.nothing  # noqa: B018


def test_the_stub_names_the_same():
    stub = importlib.util.find_spec("stepward").origin + "i"
    with open(stub) as file:
        tree = ast.parse(file.read())
    imported = {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(stepward.__all__)


def test_import_loads_fewer_than_120_modules_and_no_framework():
    source = "import sys, stepward; print(len(sys.modules), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    count, *names = done.stdout.split()
    assert int(count) < 120
    assert not {"numpy", "torch", "jax", "subprocess", "http.client", "hashlib"} & set(names)


def test_the_sdk_itself_brings_no_framework_and_no_network():
    source = "import sys, stepward; stepward.init; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    heavy = {"numpy", "torch", "jax", "subprocess", "http.client", "hashlib", "logging", "asyncio", "stepward.collect"}
    assert not heavy & set(done.stdout.split())
