"""The tree keeps its rules: no file too long, no catch-all package, the glossary's words in the vocabulary."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = {".py", ".ts", ".tsx"}
GENERATED = {"ui/src/api.gen.ts"}
CATCH_ALL = {"utils", "util", "helpers", "helper", "common", "manager", "service", "misc", "base"}


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout: which files are tracked is not known")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_code_file_exceeds_600_lines() -> None:
    code = [path for path in tracked() if path.suffix in CODE and str(path.relative_to(ROOT)) not in GENERATED]
    assert len(code) > 20
    long = {str(path): lines for path in code if (lines := len(path.read_text().splitlines())) > 600}
    assert long == {}


def test_no_package_or_module_is_a_catch_all() -> None:
    modules = [path.relative_to(ROOT) for path in tracked() if path.suffix == ".py"]
    assert [str(path) for path in modules if {path.stem, *path.parts} & CATCH_ALL] == []


PURE = {
    "stepward.model": set(),
    "stepward.goodput": set(),
    "stepward.detect": set(),
    "stepward.diagnose": {"stepward.detect"},
}


def test_a_pure_room_may_import_no_room_that_came_later() -> None:
    """Rule 1 of ARCHITECTURE.md: its contract names every room of the tree but those that it may know."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    rooms = {f"stepward.{path.parent.name}" for path in (ROOT / "src/stepward").glob("*/__init__.py")} | {
        "stepward.settings"
    }
    contracts = [one for one in tools["importlinter"]["contracts"] if one["type"] == "forbidden"]
    assert len(rooms) > 20
    for pure, known in PURE.items():
        forbidden = next(set(one["forbidden_modules"]) for one in contracts if one["source_modules"][0] == pure)
        assert rooms - {pure, "stepward.model"} - known - forbidden == set(), pure


def test_importing_the_sdk_loads_little() -> None:
    """Rule 4 of ARCHITECTURE.md: the training process gets msgspec and a little of the standard library."""
    script = "import sys, stepward; print(len(sys.modules)); print(*sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    count, names = out.splitlines()[:2]
    assert int(count) < 120, names
    heavy = {"numpy", "torch", "jax", "litestar", "typer", "yaml", "http.client", "subprocess", "dataclasses", "psutil"}
    assert not heavy & set(names.split())


def test_the_public_names_are_complete_and_sorted() -> None:
    import stepward

    assert list(stepward.__all__) == sorted(stepward.__all__)
    assert [name for name in stepward.__all__ if getattr(stepward, name, None) is None] == []


def test_a_style_class_is_defined_in_one_file() -> None:
    """Styles are global: a second definition elsewhere changes a part that its author has never seen."""
    homes: dict[str, set[str]] = {}
    for path in (ROOT / "ui/src").glob("**/*.css"):
        for name in re.findall(r"^\.([\w-]+) \{", path.read_text(), re.MULTILINE):
            homes.setdefault(name, set()).add(path.name)
    assert len(homes) > 50
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
