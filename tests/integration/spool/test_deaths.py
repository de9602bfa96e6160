"""A process that is killed at any moment loses nothing that ``log`` returned from."""

import os
import random
import subprocess
import sys
import time
from collections import Counter

import pytest

from stepward.spool.sync import sync

pytestmark = pytest.mark.integration


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", ["rows", "signals", "forks", "threads"])
def test_killed_at_a_random_moment_nothing_accepted_is_lost(
    mode, spool, start_writer, liar, settings_of, wait_for, full_scale
):
    for seed in range(50 if full_scale else 3):
        writer = start_writer(mode)
        time.sleep(random.Random(seed).uniform(0.0, 0.6))
        writer.kill()
        liar.forget()
        report = sync(settings_of(liar))
        assert (report.problem, report.gaps, report.left_bytes) == ("", 0, 0)
        new = liar.rows()
        assert set(new.values()) <= ({1, 2} if mode == "threads" else {1})
        rows = [step for (_, step), times in new.items() for _ in range(times) if step >= 0]
        counts = [writer.accepted(0), writer.accepted(1)] if mode in ("forks", "threads") else [writer.accepted(0)]
        # One row more may have been written than was returned from.
        assert sum(counts) <= len(rows) <= sum(counts) + len(counts), Counter(name for name, _ in new)
        times = Counter(rows)
        assert all(times[step] == len(counts) for step in range(min(counts)))
        assert all(times[step] for step in range(max(counts)))
        if mode == "forks":
            assert len({name for name, _ in new}) == sum(count > 0 for count in counts)
    if mode == "signals":
        assert len(liar.lines("events")) >= writer.accepted(1) > 0

    # The last one killed may have been dying still when its folder was looked at: whoever ships next removes it. What was
    # killed while its folder was in the making is swept later (test_sweeps).
    def all_gone():
        assert sync(settings_of(liar)).problem == ""
        return not [path for path in spool.glob("run_*/*/") if not path.name.startswith(".")]

    wait_for(all_gone, "the last folder to go")


def test_killed_while_it_ships_each_row_arrives_once(spool, start_writer, liar, settings_of, wait_for, full_scale):
    for _ in range(20 if full_scale else 2):
        before = liar.rows()
        writer = start_writer("ship", {"STEPWARD_SERVER": liar.url, "STEPWARD_TOKEN": "t"})
        wait_for(lambda before=before: liar.rows() - before, "the first rows")
        writer.kill()
        assert sync(settings_of(liar)).problem == ""
        new = liar.rows() - before
        assert set(new.values()) == {1}
        assert {step for _, step in new} >= set(range(writer.accepted()))


def test_the_server_is_killed_under_load_and_comes_back(start_writer, liar, settings_of, wait_for, spool):
    """Its memory is lost with it: what was acknowledged before is a gap to the new one, the rest arrives once."""
    writer = start_writer("ship", {"STEPWARD_SERVER": liar.url})
    wait_for(liar.rows, "the first rows")
    liar.stop()
    time.sleep(0.5)
    liar.start()
    seen = len(liar.rows())
    wait_for(lambda: len(liar.rows()) > seen, "rows after the restart")
    writer.kill()
    assert sync(settings_of(liar)).problem == ""
    rows = liar.rows()
    assert {step for _, step in rows} >= set(range(writer.accepted()))


def test_the_next_process_of_the_run_ships_for_the_dead_one(start_writer, liar, wait_for):
    env = {"STEPWARD_SERVER": liar.url}
    first, second = start_writer("ship", env), start_writer("ship", env)
    wait_for(lambda: len({name for name, _ in liar.rows()}) == 2, "rows of both")
    first.kill()
    accepted = first.accepted()
    seen = second.accepted()
    wait_for(lambda: sum(liar.rows().values()) >= accepted + seen, "all rows of the dead one, and more of the other")
    assert set(liar.rows().values()) == {1}


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_costs_points_that_are_counted_and_no_process(small_disk, liar, settings_of):
    script = f"""
import sys
from stepward.spool.journal import Journal, WriterMeta
from stepward.model.frames import Source
from stepward.model.words import SourceKind
source = Source(kind=SourceKind.RANK, attempt="a")
meta = WriterMeta(project="p", run="run_{"b" * 26}", writer="w" * 26, source=source, created_at=0)
journal = Journal.create({str(small_disk)!r}, meta)
keyset = journal.define([(f"m{{n}}", "", None) for n in range(50)])
kept = [journal.row(keyset, n, n, [0.0] * 50) for n in range(20000)]
assert journal.dropped == 50 * kept.count(False) > 0, journal.dropped
print(kept.count(True))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    settings = type(settings_of(liar))(server=liar.url, spool=str(small_disk))
    assert sync(settings).problem == ""
    assert sum(liar.rows().values()) == int(done.stdout) > 1000


def test_a_forked_child_that_logs_nothing_leaves_nothing(spool, create):
    journal = create()
    journal.row(journal.define([("a", "", None)]), 1, 1, [1.0])
    before = sorted(os.listdir(os.path.dirname(journal.folder)))
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert sorted(os.listdir(os.path.dirname(journal.folder))) == before
    assert journal.row(1, 2, 2, [1.0])


def test_sweeps_what_a_killed_process_had_in_the_making(spool, create, liar, settings_of):
    journal = create()
    journal.row(journal.define([("a", "", None)]), 1, 1, [1.0])
    young, old = (os.path.join(os.path.dirname(journal.folder), f".{name}") for name in ("young", "old"))
    for folder in (young, old):
        os.mkdir(folder)
        with open(f"{folder}/writer.json", "w"):
            pass
    os.utime(old, (1, 1))
    sync(settings_of(liar))
    assert os.path.isdir(young)
    assert not os.path.exists(old)
    os.utime(young, (1, 1))
    journal.close()
    sync(settings_of(liar))
    assert os.listdir(spool) == []
