"""``make story`` twice, at full scale: it takes minutes, and times what it does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepward.clusters.providers.local.needs import is_usable

pytestmark = [pytest.mark.integration, pytest.mark.e2e, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("STEPWARD_TEST_SCALE") == "full"  # within a test STEPWARD_ variables are gone


@pytest.mark.scaled
def test_a_lost_node_is_survived_twice():
    if not FULL:
        pytest.skip("`make story` tells it; here at full scale alone, as it takes minutes")
    why = is_usable()
    if why is not None:
        pytest.skip(f"no real Slurm: {why}")
    command = [sys.executable, "-m", "tests.e2e.story"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"STORY_N": "2"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
