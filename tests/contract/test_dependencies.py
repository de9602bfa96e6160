"""Every runtime dependency is justified in ARCHITECTURE.md, imported somewhere, and pinned in the lock."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUNTIME = [
    *PROJECT["dependencies"],
    *PROJECT["optional-dependencies"]["server"],
    *PROJECT["optional-dependencies"]["agent"],
]
NAMES = [re.split(r"[<>=\[; ]", requirement)[0] for requirement in RUNTIME]
IMPORTED_AS = {"pyyaml": "yaml", "nvidia-ml-py": "pynvml"}


@pytest.mark.parametrize("name", NAMES)
def test_a_dependency_is_justified_used_and_pinned(name: str) -> None:
    justified = (ROOT / "ARCHITECTURE.md").read_text().partition("## Dependencies")[2]
    assert re.search(rf"\b{re.escape(name)}\b", justified), f"ARCHITECTURE.md does not say why {name} is there"
    module = IMPORTED_AS.get(name, name.replace("-", "_"))
    source = "\n".join(path.read_text() for path in (ROOT / "src").glob("**/*.py"))
    assert re.search(rf"(?:import|from) {module}\b|import_module\(\"{module}|\"{module}\"", source), (
        f"nothing imports {name}"
    )
    assert re.search(rf"^{re.escape(name)}==", (ROOT / "requirements.lock").read_text(), re.MULTILINE), "make lock"
