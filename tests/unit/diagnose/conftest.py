"""Inputs from text, as a person would have them in a folder."""

import pytest

from stepward.diagnose.engine import diagnose
from stepward.diagnose.sources import discover


@pytest.fixture
def diagnosed(tmp_path):
    """Diagnose texts by file name: ``diagnosed({"job.log": ..., "kernel.log": ...})``."""

    def run(files, **settings):
        for name, text in files.items():
            path = tmp_path / "case" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return diagnose(discover([str(tmp_path / "case")]), **settings)

    return run


@pytest.fixture
def log(diagnosed):
    """Diagnose one job log."""
    return lambda text, **settings: diagnosed({"job.log": text}, **settings)
