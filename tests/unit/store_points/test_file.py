"""A project's file in trouble: newer, damaged, on a full disk, in two hands."""

import json
import os
from pathlib import Path

import duckdb
import pytest

from stepward.errors import IncompatibleVersion, StorageFull, Unavailable, UsageError
from stepward.ingest.decode import decode_frame
from stepward.ingest.sequence import Sequencer
from stepward.store.layout import project_folder, project_names
from stepward.store.points.duckdb import DuckDBPoints, tallies
from stepward.testing.frames import FrameWriter, points_part


def commit(store: DuckDBPoints, writer: FrameWriter, step: int = 0) -> None:
    part = points_part([("m", None)], [step], [step], [step])
    rows = Sequencer(lambda: store.positions("p")).admit(
        decode_frame(writer.encoded(part)), allow_gap=False, received_at=1
    )
    assert rows is not None
    store.commit("p", [rows])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with one commit."""
    store = DuckDBPoints(str(tmp_path))
    commit(store, FrameWriter())
    store.close()
    return tmp_path / "projects" / "p" / "points.duckdb"


def test_a_newer_file_is_refused_untouched(path: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE format SET version = 99")
    before = path.read_bytes()
    store = DuckDBPoints(str(tmp_path))
    with pytest.raises(IncompatibleVersion) as refused:
        store.series("p", "run_a")
    assert refused.value.code == "newer_format"
    store.close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", [b"not a database at all" * 500, b""], ids=["nonsense", "other tables"])
def test_a_damaged_file_is_refused_untouched(path: Path, tmp_path: Path, damage: bytes) -> None:
    if damage:
        path.write_bytes(damage)
    else:
        path.unlink()
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE mine (a INTEGER)")
    before = path.read_bytes()
    store = DuckDBPoints(str(tmp_path))
    for _ in range(2):
        with pytest.raises(Unavailable) as refused:
            store.positions("p")
        assert refused.value.code == "store_corrupt"
        assert refused.value.hint is not None
        assert "restore a backup" in refused.value.hint
    store.close()
    assert path.read_bytes() == before


def test_a_flipped_byte_in_the_head_is_seen(path: Path, tmp_path: Path) -> None:
    data = bytearray(path.read_bytes())
    for offset in (100, 4096 + 100, 8192 + 100):
        data[offset] ^= 0xFF
    path.write_bytes(data)
    store = DuckDBPoints(str(tmp_path))
    with pytest.raises(Unavailable) as refused:
        store.series("p", "run_a")
    assert refused.value.code == "store_corrupt"
    store.close()


def test_a_full_disk_refuses_writes_serves_reads_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, writer = DuckDBPoints(str(tmp_path)), FrameWriter()
    commit(store, writer, 0)
    space = os.statvfs(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(os, "statvfs", lambda _: os.statvfs_result((*space[:4], 0, *space[5:10])))
        with pytest.raises(StorageFull) as refused:
            commit(store, writer, 1)
        assert refused.value.code == "disk_full"
        assert store.series("p", "run_a")[0].count == 1
    writer.position -= 100
    commit(store, writer, 1)
    assert store.series("p", "run_a")[0].count == 2
    store.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = DuckDBPoints(str(tmp_path))
    store.close()
    with pytest.raises(Unavailable) as refused:
        store.series("p", "run_a")
    assert refused.value.code == "store_closed"


NAMES = ["default", "_nodes", "a/b", "..", ".", "~", "Ünïcode 🚀", "with space", "%2E", "con", "x" * 200]


def test_names_of_projects_and_folders_map_one_to_one(tmp_path: Path) -> None:
    folders = {project_folder(str(tmp_path), name) for name in NAMES}
    assert len(folders) == len(NAMES)
    for folder in folders:
        assert Path(folder).parent == tmp_path / "projects"
        Path(folder).mkdir(parents=True)
    assert project_names(str(tmp_path)) == sorted(NAMES)


@pytest.mark.parametrize("name", ["", "x" * 201, "é" * 40])
def test_a_name_that_makes_no_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        project_folder("/data", name)
    assert refused.value.code == "bad_project_name"


def test_an_older_file_is_copied_and_brought_up_to_date(path: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        for table in ("tallies", "step_tallies", "layout"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("ALTER TABLE series DROP COLUMN rank")
        connection.execute("DROP TABLE points")
        connection.execute(
            "CREATE TABLE points (series INTEGER, step BIGINT, time BIGINT, value DOUBLE, rounded BOOLEAN)"
        )
        for value in ("1", "0.1", "1e308", "'NaN'", "'-Infinity'", "'-0.0'"):
            connection.execute(f"INSERT INTO points VALUES (1, 0, 0, {value}::DOUBLE, FALSE)")
        connection.execute("UPDATE format SET version = 1")
    store = DuckDBPoints(str(tmp_path))
    assert [(series.metric, series.count) for series in store.series("p", "run_a")] == [("m", 6)]
    lines = b"".join(store.export("p", "run_a", attempts={})).splitlines()
    values = [str(json.loads(line)["value"]) for line in lines]
    assert values == ["1.0", "0.1", "1e+308", "NaN", "-Infinity", "-0.0"]
    store.close()
    with duckdb.connect(f"{path}.format1", read_only=True) as kept:
        assert kept.execute("SELECT version FROM format").fetchall() == [(1,)]


def test_folded_tallies_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "FOLD_ROWS", 3)
    store, writer = DuckDBPoints(str(tmp_path)), FrameWriter()
    for step in range(12):
        commit(store, writer, step)
        (series,) = store.series("p", "run_a")
        assert (series.count, series.first_step, series.last_step) == (step + 1, 0, step)
    store.close()
    with duckdb.connect(str(tmp_path / "projects" / "p" / "points.duckdb"), read_only=True) as connection:
        ((rows,),) = connection.execute("SELECT count(*) FROM tallies").fetchall()
    assert rows < 12
