"""Event files that TensorBoard wrote read the same as by its own reader, which runs in the frameworks' interpreter."""

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

from stepward.importers.tensorboard import EventFile, folders

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]
PYTHON = os.environ.get("STEPWARD_FRAMEWORKS_PYTHON") or str(ROOT / ".venv-frameworks/bin/python")

WRITE_AND_READ = """
import json, random, struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
folder, odd = sys.argv[1], [float("nan"), float("inf"), -0.0, 1e-40]
writer = EventFileWriter(folder)
for step in range(500):
    values = {"loss": random.gauss(0, 1), "a/ü": odd[step % 4]}
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
    writer.add_event(Event(wall_time=1.7e9 + step * 0.1, step=step, summary=summary))
writer.close()
reader = EventAccumulator(folder, size_guidance={"scalars": 0})
reader.Reload()
print(json.dumps({
    tag: [[one.step, round(one.wall_time * 1e6), struct.pack("<f", one.value).hex()] for one in reader.Scalars(tag)]
    for tag in reader.Tags()["scalars"]
}))
"""


def test_values_are_those_of_tensorboards_own_reader(tmp_path: Path) -> None:
    there = (
        subprocess.run([PYTHON, "-c", "import tensorboard"], capture_output=True) if os.path.exists(PYTHON) else None
    )
    if there is None or there.returncode:
        pytest.skip(f"tensorboard is not installed for {PYTHON}: tests/integration/frameworks-requirements.txt")
    done = subprocess.run([PYTHON, "-c", WRITE_AND_READ, str(tmp_path)], capture_output=True, text=True, check=True)
    found: dict[str, list[list[object]]] = {}
    for folder in folders(str(tmp_path)):
        for path in folder.files:
            for point in EventFile(path).read():
                found.setdefault(point.metric, []).append(
                    [point.step, point.time_us, struct.pack("<f", point.value).hex()]
                )
    assert found == json.loads(done.stdout)
