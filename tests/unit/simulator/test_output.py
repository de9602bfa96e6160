"""The forms in which a simulated run leaves: the same bytes each time, folders that the diagnosis reads, frames that decode."""

import io
import json
from contextlib import redirect_stdout
from itertools import islice

import msgspec
import pytest

from stepward.diagnose.engine import diagnose
from stepward.diagnose.sources import discover
from stepward.ingest.decode import decode_frame
from stepward.model import frames
from stepward.testing.simulator import KINDS, Text, simulate
from stepward.testing.simulator.__main__ import main
from stepward.testing.simulator.wire import Source, source_of


def said(simulation):
    return msgspec.msgpack.encode([(type(item).__name__, list(item)) for item in simulation.items()], enc_hook=sorted)


def test_the_same_seed_says_the_same_bytes():
    one = simulate(12, kind="node_loss", ranks=8, steps=150)
    assert said(one) == said(one) == said(simulate(12, kind="node_loss", ranks=8, steps=150))
    assert said(one) != said(simulate(13, kind="node_loss", ranks=8, steps=150))


def test_a_large_run_is_made_as_it_is_listened_to():
    simulation = simulate(2, kind="clean", ranks=1024, steps=100_000, step_s=1.0)
    assert len(list(islice(simulation.signals(), 20_000))) == 20_000


@pytest.mark.parametrize("kind", ["clean", "node_loss", "host_oom", "pending", "deadlock", "xid_79", "restart_loop"])
def test_the_diagnosis_reads_every_file_for_what_it_is(tmp_path, kind):
    simulation = simulate(5, kind=kind, ranks=8, steps=200)
    simulation.write(str(tmp_path))
    notes = {note.source: note for note in diagnose(discover([str(tmp_path)])).inputs}
    assert notes["scheduler.txt"].kind == "scheduler"
    assert notes["metrics.jsonl"].kind == "metrics"
    logs = [note for name, note in notes.items() if name.endswith(".log") and not name.startswith("kernel")]
    assert logs and all(note.kind == "log" and not note.truncated for note in logs)
    assert all(note.kind == "kernel" for name, note in notes.items() if name.startswith("kernel"))
    assert not any("truth" in name for name in notes)
    truth = json.loads((tmp_path / ".truth.json").read_text())
    assert [fault["kind"] for fault in truth["faults"]] == ([] if kind == "clean" else [kind])


def test_lines_name_the_rank_that_wrote_them(tmp_path):
    forms = set()
    for seed in range(1, 8):
        folder = tmp_path / str(seed)
        simulate(seed, kind="user_error", ranks=4, steps=120).write(str(folder))
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.log"))
        forms.add(
            "job" if "job.log" in names else "flat" if any(name.startswith("rank") for name in names) else "nodes"
        )
        found = diagnose(discover([str(folder)]))
        truth = json.loads((folder / ".truth.json").read_text())["faults"][0]
        lines = [line for cause in found.causes for line in cause.evidence if line.rank is not None]
        assert {line.rank for line in lines if "Error:" in line.text} <= set(truth["ranks"])
    assert forms == {"job", "flat", "nodes"}


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_frame_decodes(kind):
    simulation = simulate(6, kind=kind, ranks=4, steps=80)
    sources, items = {}, {}
    for item in simulation.items():
        who = source_of(item, simulation.plan)
        if who is not None:
            items.setdefault(who, []).append(item)
    points = 0
    for who, some in items.items():
        source = sources.setdefault(who, Source("run_" + "a" * 26, "p", simulation.plan, who))
        decoded = decode_frame(frames.encode(source.frame(some, now=1)))
        points += decoded.points
        assert decoded.frame.source.attempt == f"simulated.{who[0]}"
    assert points > 0 or kind in {"rendezvous", "dns"}
    texts = sum(isinstance(item, Text) for item in simulation.items())
    assert texts == sum(isinstance(item, Text) for some in items.values() for item in some)


def test_the_command_lists_kinds_and_tells_the_truth(tmp_path):
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["--list"]) == 0
    assert {line.split()[0] for line in out.getvalue().splitlines()} == set(KINDS)
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["--seed", "3", "--fault", "xid_48", "--ranks", "4", "--steps", "80", "--out", str(tmp_path)]) == 0
    (fault,) = json.loads(out.getvalue())["faults"]
    assert (fault["label"], fault["type"]) == ("gpu_memory_ecc", "hardware_fault")
    assert sum(path.read_text().count("Xid") for path in tmp_path.glob("kernel*.log")) == 1
