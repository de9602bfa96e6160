"""The examples run as they stand, and the server has what they logged."""

import json
import os
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.e2e]

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "sdk.py": ("line", "loss", 199, 1),
    "jax_loop.py": ("jax-loop", "loss", 299, 1),
    "slurm_resume.py": ("slurm-resume", "loss", 299, 1),
    "torch_ddp.py": ("torch-ddp", "loss", 199, 2),
    "hf_trainer.py": ("hf-trainer", "eval_loss", 60, 1),
    "lightning_fit.py": ("lightning-fit", "loss", 124, 1),
}
# Read at import: within a test STEPWARD_ variables are gone.
FRAMEWORKS = os.environ.get("STEPWARD_FRAMEWORKS_PYTHON") or str(ROOT / ".venv-frameworks/bin/python")
PLAIN = ("sdk.py", "jax_loop.py", "slurm_resume.py")


def interpreter(example):
    if example in PLAIN:
        return sys.executable
    if not Path(FRAMEWORKS).exists():
        pytest.skip(f"{FRAMEWORKS} is not there: `make system` installs torch, transformers and lightning")
    return FRAMEWORKS


def test_every_example_is_tried():
    assert set(EXAMPLES) == {path.name for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.parametrize("example", EXAMPLES)
def test_runs_as_it_stands(house, example):
    name, metric, last_step, ranks = EXAMPLES[example]
    python = interpreter(example)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2"] if example == "torch_ddp.py" else []
    wrapper = [sys.executable, "-m", "stepward", "run", "--", python, *launcher, ROOT / "examples" / example]
    log = house.folder / f"{example}.log"
    process = house.spawn(wrapper, output=log, module=None, PYTHONPATH=str(ROOT / "src"), OMP_NUM_THREADS="1")
    assert process.wait(240) == 0, log.read_text()[-3000:]
    (run,) = (run for run in json.loads(house.cli("ls", "--format", "json")) if run["name"] == name)
    (attempt,) = run["attempts"]
    assert (attempt["state"], attempt["exit_code"], attempt["ranks"]) == ("finished", 0, ranks)
    assert run["latest"][metric]["step"] == last_step
    assert 0 <= run["latest"][metric]["value"] < 5
