"""Points leave by ``stepward export`` and come back by ``stepward import``, through a real server and spool."""

import json
import math
import os
import struct
import subprocess
import sys

import pytest

from stepward.model.frames import Block, Points, SeriesDef

from .conftest import now, points

VALUES = [0.1, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 1 / 3]


@pytest.fixture
def cli(server, tmp_path):
    def run(*words):
        env = os.environ | {
            "STEPWARD_SERVER": f"http://127.0.0.1:{server.port}",
            "STEPWARD_TOKEN": server.token,
            "STEPWARD_DIR": str(tmp_path / "spool"),
        }
        done = subprocess.run([sys.executable, "-m", "stepward", *words], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def exported(server, run):
    lines = [json.loads(line) for line in server.get(f"/api/v1/runs/{run}/export").body.splitlines()]
    keys = ("metric", "unit", "attempt", "rank", "device", "step", "time", "rounded")
    return sorted((*(str(line.get(key)) for key in keys), struct.pack("<d", float(line["value"]))) for line in lines)


def test_parquet_there_and_back_is_the_same_to_the_bit(server, cli, tmp_path):
    writer = server.writer("out", rank=3).begin(name="out")
    writer.send(points(list(range(len(VALUES))), loss=VALUES, other=VALUES))
    numbers = struct.pack("<d", 2.0**53)
    one = Points([SeriesDef(7, "tokens")], [Block([7], struct.pack("<q", 1), struct.pack("<q", now()), numbers, [0])])
    writer.send(("points", one))
    assert sum(line[7] == "True" for line in exported(server, writer.run)) == 1
    file = str(tmp_path / "out.parquet")
    cli("export", "out", "--format", "parquet", "-o", file)
    run = cli("import", "parquet", file, "--name", "back", "--project", "q").split(":")[0]
    assert exported(server, run) == exported(server, writer.run)
    state = server.get(f"/api/v1/runs/{run}").json
    assert (state["name"], state["project"], state["state"]) == ("back", "q", "finished")


def test_event_files_become_runs(server, cli, tmp_path):
    from stepward.importers.tensorboard import masked_crc

    for place in ("a", "b"):
        (tmp_path / "logs" / place).mkdir(parents=True)
        value = b"\n\x04loss\x15" + struct.pack("<f", 0.25)
        data = b"\x09" + struct.pack("<d", 1.7e9) + b"\x10\x07" + b"*" + bytes([len(value) + 2, 10, len(value)]) + value
        head = struct.pack("<Q", len(data))
        content = head + struct.pack("<I", masked_crc(head)) + data + b"\0\0\0\0"
        (tmp_path / "logs" / place / "events.out.tfevents.1").write_bytes(content)
    out = cli("import", "tensorboard", str(tmp_path / "logs"))
    runs = [line.split(":")[0] for line in out.splitlines() if line.startswith("run_")]
    assert [server.get(f"/api/v1/runs/{run}").json["name"] for run in runs] == ["a", "b"]
    (line,) = server.get(f"/api/v1/runs/{runs[0]}/points?metric=loss").json["lines"]
    assert (line["x"], line["last"]) == ([7.0], [0.25])
