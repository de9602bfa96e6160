"""The data of the diagnosis: TOML files in ``catalogue/``, each read once a process.

What is knowledge (message formats, names of metrics, what looks like what) is data; what is method is code.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

_FOLDER = files("stepward.diagnose") / "catalogue"


@cache
def table(name: str) -> dict[str, Any]:
    """A file of the catalogue, by its name without the ending."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8"))


def signature_files() -> list[dict[str, Any]]:
    """The files of signatures, in the order of their names: the order in which signatures are tried."""
    parts = [part for part in (_FOLDER / "signatures").iterdir() if part.name.endswith(".toml")]
    return [tomllib.loads(part.read_text("utf-8")) for part in sorted(parts, key=lambda one: one.name)]
