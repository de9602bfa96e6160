"""The soak benchmark in small: a real server, live runs, a browser with twenty charts. No figure of it is judged here."""

import json
import shutil
import subprocess
import sys

import pytest

from .conftest import ROOT, STATIC

pytestmark = pytest.mark.integration


def test_twenty_runs_and_a_page_of_charts(tmp_path) -> None:
    if not STATIC.is_file():
        pytest.skip("the UI is not built: make ui")
    if shutil.which("chromium") is None and shutil.which("chromium-browser") is None:
        pytest.skip("no chromium on this machine: apt install chromium")
    command = [sys.executable, str(ROOT / "bench" / "soak.py"), "--runs", "20", "--seconds", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["points"], told["refused"], told["charts"]) == (20 * 20 * 20, 0, 20)
    assert told["acknowledged"]["n"] == 400
    # Every step that was logged while the page was open came onto the screen.
    assert 0 < told["on_screen"]["n"] == told["on_screen"]["steps"]
    assert told["server"]["rss_max_mb"] > 0
