"""How long a page of runs takes: 10,000 runs x 50 metrics, filtered, sorted, two pages deep.

``python bench/catalog.py [RUNS] [METRICS]`` prints one JSON line a query; the goal is 50 ms a page. It measures the catalog
alone, without HTTP.
"""

import json
import random
import statistics
import sys
import tempfile
import time

import sqlalchemy as sa

from stepward.ingest.hearing import Hearing
from stepward.model.identity import derived_run_id
from stepward.store.catalog import Runs, open_database, schema

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


def main() -> None:
    """Fill a catalog and measure."""
    runs, metrics = (int(argument) for argument in [*sys.argv[1:], "10000", "50"][:2])
    with tempfile.TemporaryDirectory() as folder:
        catalog = fill(f"{folder}/catalog.db", runs, metrics)
        for filter, sort in QUERIES:
            print(json.dumps(measure(catalog, filter, sort)))


if __name__ == "__main__":
    main()
