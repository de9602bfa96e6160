"""docs/errors.md and the code name the same errors."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_code_is_documented_and_every_documented_code_exists():
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "stepward").rglob("*.py"))
    raised = set(re.findall(r'\bcode="([a-z_0-9]+)"', source))
    raised |= set(re.findall(r'document\(\s*\d+,[^)]*?"([a-z_]+)"', source))
    documented = set(re.findall(r"^\| `([a-z_0-9]+)` \|", (ROOT / "docs" / "errors.md").read_text(), re.M))
    assert sorted(raised - documented) == []
    assert sorted(code for code in documented if f'"{code}"' not in source) == []
