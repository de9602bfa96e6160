"""What the catalog costs, without HTTP.

``python bench/catalog.py [RUNS] [METRICS]``: how long a page of runs takes (10,000 runs x 50 metrics), filtered, sorted, two
pages deep; one JSON line a query, the goal is 50 ms a page.

``python bench/catalog.py wide [RUNS] [METRICS]``: a page of 100 runs with 5,000 metrics each, by what is asked for.

``python bench/catalog.py live [RUNS]``: judging that many live runs of four ranks, as the server does each second: CPU and
statements of the first turn, of turns a second apart in which nothing changes, and of one in which all runs turn out to be lost.
"""

import json
import random
import statistics
import sys
import tempfile
import time

import msgspec
import sqlalchemy as sa

from stepward.ingest.hearing import Hearing
from stepward.model.identity import derived_run_id
from stepward.store.catalog import Edits, Metrics, Runs, open_database, schema

QUERIES = [
    ("", None),
    ("state = running", None),
    ("metric.m3 < 0.5", "metric.m7"),
    ("metric.m3 < 0.5 AND metric.m4 > 0.2 AND state = finished AND tag:t3", "-metric.m7"),
    ("config.optim.lr < 0.1", "metric.m1"),
    ("name:99", "name"),
    ("metric.m3:*", "-metric.m3"),
]
START = 1_800_000_000_000_000


def fill(path: str, runs: int, metrics: int) -> Runs:
    """A catalog with that many runs of one attempt and four ranks each."""
    chance, database = random.Random(1), open_database(path)
    rows: dict[sa.Table, list[dict[str, object]]] = {}
    for number in range(runs):
        run, at = derived_run_id("p", str(number)), START + number * 1_000_000
        state = chance.choice(["running", "finished", "failed"])
        base = {"run": run}
        head = {"id": run, "project": "p", "name": f"run {number}", "kind": "training", "state": state, "live": False}
        rows.setdefault(schema.runs, []).append(
            head | {"name_edited": False, "tags_edited": False, "created_at": at, "started_at": at}
        )
        rows.setdefault(schema.attempts, []).append(
            base | {"key": "a", "number": 1, "state": state, "started_at": at, "announced_start": True}
        )
        for rank in range(4):
            counters = {"pending": 0, "dropped": 0, "gaps": 0, "alive": [], "stopped": [], "offset_us": 0}
            who = {"writer": f"w{rank}", "attempt": "a", "kind": "rank", "rank": rank, "role": "trainer", "node": "n"}
            rows.setdefault(schema.sources, []).append(base | who | counters | {"pid": 1, "last_seen": at})
        for metric in range(metrics):
            point = {"metric": f"m{metric}", "step": 100, "time": at, "value": chance.random(), "rank": 0}
            rows.setdefault(schema.latest, []).append(base | point | {"attempt": "a", "system": False})
        lr = chance.random()
        rows.setdefault(schema.config_leaves, []).append(base | {"path": "optim.lr", "number": lr, "text": str(lr)})
        rows.setdefault(schema.tags, []).append(base | {"tag": f"t{number % 7}"})
    with database.write() as connection:
        for table, content in rows.items():
            connection.execute(sa.insert(table), content)
    database.tidy()
    return Runs(database, Hearing(START), lambda: START)


def measure(runs: Runs, filter: str, sort: str | None, rounds: int = 7) -> dict[str, object]:
    """Medians of the first and the second page, milliseconds."""
    first, second = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        page = runs.page(None, filter=filter, sort=sort)
        first.append(time.perf_counter() - began)
        if page.next:
            began = time.perf_counter()
            runs.page(None, filter=filter, sort=sort, cursor=page.next)
            second.append(time.perf_counter() - began)
    median = {"page_ms": first, "next_page_ms": second}
    spent = {name: round(statistics.median(times) * 1000, 1) for name, times in median.items() if times}
    return {"filter": filter, "sort": sort, "total": page.total, **spent}


def wide(runs: int, metrics: int) -> None:
    """Measure pages of runs with very many metrics, by what is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        catalog = fill(f"{folder}/catalog.db", runs, metrics)
        for asked in (None, ["m7"], ["m7", "m1*"], [""], ["*"]):
            times = []
            for _ in range(5):
                began = time.perf_counter()
                page = catalog.page(None, limit=min(runs, 500), metrics=Metrics.asked(asked))
                times.append(time.perf_counter() - began)
            size = len(msgspec.json.encode(page))
            line = {"asked": asked, "page_ms": round(statistics.median(times) * 1000, 1), "json_kb": size >> 10}
            print(json.dumps(line), flush=True)


def live(runs: int, rounds: int = 10) -> None:
    """Measure the judgement of live runs."""
    clock = [START + runs * 1_000_000]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/catalog.db"
        fill(path, runs, 0)
        database = open_database(path)

        def beat() -> None:
            heard = {"heard_at": clock[0], "last_seen": clock[0], "status_at": clock[0], "step": 5}
            with database.write() as connection:
                connection.execute(sa.update(schema.sources).values(heard))

        with database.write() as connection:
            connection.execute(sa.update(schema.runs).values(live=True, state="running"))
            connection.execute(sa.update(schema.attempts).values(state="running"))
        beat()
        statements = [0]
        sa.event.listen(database.engine, "before_cursor_execute", lambda *_: statements.append(statements.pop() + 1))
        edits = Edits(database, Hearing(START), lambda: clock[0], lambda changes: None)
        print(json.dumps({"live": runs, "turn": "first", **_turn(edits, statements)}))
        quiet = []
        for second in range(1, rounds + 1):
            clock[0] += 1_000_000
            if second % 4 == 0:
                beat()
            quiet.append(_turn(edits, statements))
        spent = {name: round(statistics.mean(turn[name] for turn in quiet), 1) for name in quiet[0]}
        print(json.dumps({"live": runs, "turn": "nothing changes", **spent}))
        clock[0] += 3_600_000_000
        print(json.dumps({"live": runs, "turn": "all are lost", **_turn(edits, statements)}))


def _turn(edits: Edits, statements: list[int]) -> dict[str, float]:
    began, cpu, before = time.perf_counter(), time.process_time(), statements[0]
    changed = edits.judge_live()
    wall_ms = (time.perf_counter() - began) * 1000
    cpu_ms = (time.process_time() - cpu) * 1000
    return {"cpu_ms": cpu_ms, "wall_ms": wall_ms, "statements": statements[0] - before, "changed": changed}


def main() -> None:
    """Fill a catalog and measure."""
    if sys.argv[1:2] == ["live"]:
        live(int([*sys.argv[2:], "1000"][0]))
        return
    if sys.argv[1:2] == ["wide"]:
        runs, metrics = (int(argument) for argument in [*sys.argv[2:], "100", "5000"][:2])
        wide(runs, metrics)
        return
    runs, metrics = (int(argument) for argument in [*sys.argv[1:], "10000", "50"][:2])
    with tempfile.TemporaryDirectory() as folder:
        catalog = fill(f"{folder}/catalog.db", runs, metrics)
        for filter, sort in QUERIES:
            print(json.dumps(measure(catalog, filter, sort)))


if __name__ == "__main__":
    main()
