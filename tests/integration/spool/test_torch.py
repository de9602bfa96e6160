"""Tensors become numbers. Runs in the interpreter of the framework tests: STEPWARD_FRAMEWORKS_PYTHON, else .venv-frameworks."""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]
PYTHON = os.environ.get("STEPWARD_FRAMEWORKS_PYTHON") or str(ROOT / ".venv-frameworks/bin/python")
SCRIPT = """
import sys, types
try:
    import msgspec
except ImportError:
    sys.exit(77)
import torch
from stepward.sdk.values import Refused, take

for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16,
              torch.int32, torch.int64, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2):
    assert take(torch.ones((), dtype=torch.float32).to(dtype)) == 1.0, dtype
    assert take(torch.ones(1).to(dtype)) == 1.0, dtype
    assert take(torch.ones(3).to(dtype)) == [1.0] * 3, dtype
assert take(torch.tensor(2.5, requires_grad=True)) == 2.5
assert take(torch.nn.Parameter(torch.tensor([1.0, 2.0]))) == [1.0, 2.0]
assert take(torch.tensor([[3.0]])) == 3.0
assert take(torch.tensor(2**53 + 1)) == 2**53 + 1
assert take(torch.arange(4.0)[::2]) == [0.0, 2.0]

refused = [torch.ones(2, 2), torch.ones(0), torch.ones(5000), torch.ones((), dtype=torch.complex64),
           torch.ones(3).to_sparse(), torch.ones((), device="meta"),
           torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)]
for value in refused:
    try:
        taken = take(value)
    except Refused as error:
        assert "Traceback" not in str(error)
    else:
        raise AssertionError((value, taken))


class Event:
    done = False
    def record(self, stream): pass
    def query(self): return Event.done

# The path of a CUDA tensor, with the calls that need a device replaced: copied at once, read when the event says so.
torch.cuda.Event = Event
torch.cuda.current_stream = lambda device: None
torch.cuda.is_current_stream_capturing = lambda: False
empty = torch.empty
torch.empty = lambda shape, dtype, device, pin_memory: empty(shape, dtype=dtype, device=device)
from stepward.sdk.values import _CudaCopy
value = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
copy = _CudaCopy(value)
value.zero_()
assert not copy.ready()
Event.done = True
assert copy.ready() and copy.read() == [1.0, 2.0]
"""


def test_tensors_of_every_kind():
    if not os.access(PYTHON, os.X_OK):
        pytest.skip(f"no torch: {PYTHON} is missing; see tests/integration/frameworks-requirements.txt")
    done = subprocess.run(
        [PYTHON, "-c", SCRIPT], env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True
    )
    if done.returncode == 77:
        pytest.skip(f"msgspec is not installed for {PYTHON}")
    assert done.returncode == 0, done.stderr
