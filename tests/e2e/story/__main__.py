"""``make story``: a node of a real Slurm lab dies under a training job, and the job's people have nothing to do.

STORY_N=20 tells it twenty times on one lab. Exits with 1 where a claim does not hold, and says which.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.e2e.story.claims import Claims
from tests.e2e.story.lab import Lab, StoryError
from tests.e2e.story.telling import Telling

from stepward.clusters.providers.local.needs import is_usable
from stepward.errors import StepwardError

ARTIFACTS = Path(__file__).parents[2] / "artifacts" / "story"


def main() -> int:
    """Make the lab, tell the story as often as is asked, end the lab; 0 where every claim held."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    why = is_usable()
    if why is not None:
        print(f"no real Slurm on this host: {why}", file=sys.stderr)
        return 1
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    claims, tellings = Claims(), int(os.environ.get("STORY_N") or "1")
    try:
        with Lab(claims, ARTIFACTS) as lab:
            for number in range(1, tellings + 1):
                print(f"\n== {number} of {tellings} ==", flush=True)
                Telling(lab, claims, number, ARTIFACTS).tell()
    except (StoryError, StepwardError, subprocess.TimeoutExpired) as error:
        claims.hold("the story can be told to its end", False, error)
    claims.summary()
    (ARTIFACTS / "claims.json").write_text(json.dumps([one._asdict() for one in claims.made], indent=1))
    return int(bool(claims.broken))


if __name__ == "__main__":
    sys.exit(main())
