"""Ingest, end to end: frames over HTTP into the points store, on one machine; and the charts that come of it.

    python bench/ingest.py [--clients 8] [--seconds 10] [--rows 160] [--series 50]

Clients are processes of their own that send ready-made frames over kept-alive connections, one in flight each, as a
shipper does. The server is uvicorn with the ingest route alone (no authentication, no catalog): what is measured is HTTP,
decoding, grouping and the commit. CPU is the server process's own; the clients' is not in it.
"""

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import resource
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from stepward.model import frames
from stepward.model.frames import Source
from stepward.model.words import SourceKind
from stepward.testing.frames import FrameWriter, points_part


def send(port: int, rank: int, shape: tuple[int, int], seconds: float, counts: Any) -> None:
    """One client: frames of rows x series points until the time is over."""
    rows, series = shape
    source = Source(kind=SourceKind.RANK, attempt="a0", rank=rank, node=f"n{rank % 4}")
    writer = FrameWriter("run_bench", f"writer{rank}", project="bench", source=source)
    names = [(f"metric/{index}", None) for index in range(series)]
    random = np.random.default_rng(rank)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    end, step, sent = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        steps = np.arange(step, step + rows)
        values = random.standard_normal((rows, series)).astype(np.float32)
        part = points_part(names, steps, steps * 1_000_000 + rank, values, define=step == 0)
        connection.request("POST", "/api/v1/ingest", body=frames.encode(writer.frame(part)))
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {body[:200]!r}")
        step += rows
        sent += rows * series
    counts[rank] = sent


def serve(data: str, sock: socket.socket, ready: Any, stop: Any, report: Any) -> None:
    """The server process."""
    import uvicorn

    from stepward.ingest.ingestor import Ingestor
    from stepward.store.points.duckdb import DuckDBPoints

    store = DuckDBPoints(data)
    ingestor = Ingestor(store, [], lambda: time.time_ns() // 1000)

    async def app(scope: dict[str, Any], receive: Any, send_: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        try:
            answer, status = {"end": await ingestor.submit(body, authorize=lambda frame: None)}, 200
        except Exception as error:
            answer, status = {"error": repr(error)}, 500
        await send_(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]}
        )
        await send_({"type": "http.response.body", "body": json.dumps(answer).encode()})

    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))

    async def main() -> None:
        await ingestor.start()
        task = asyncio.create_task(server.serve(sockets=[sock]))
        started = time.process_time()
        ready.set()
        await asyncio.to_thread(stop.wait)
        report["cpu_s"] = time.process_time() - started
        report["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        server.should_exit = True
        await task
        await ingestor.stop()

    asyncio.run(main())
    store.close()
    report["bytes"] = os.path.getsize(f"{data}/projects/bench/points.duckdb")


def measure_ingest(data: str, clients: int, seconds: float, rows: int, series: int) -> dict[str, float]:
    """Run the clients against a server; what came of it."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as shared, socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(128)
        ready, stop = shared.Event(), shared.Event()
        report, counts = shared.dict(), shared.dict()
        server = context.Process(target=serve, args=(data, sock, ready, stop, report))
        server.start()
        ready.wait()
        port, begun = sock.getsockname()[1], time.monotonic()
        senders = [
            context.Process(target=send, args=(port, rank, (rows, series), seconds, counts)) for rank in range(clients)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        wall, points = time.monotonic() - begun, sum(counts.values())
        stop.set()
        server.join()
        return {
            "points": points,
            "points_per_s": points / seconds,
            "wall_s": wall,
            "cpu_us_a_point": report["cpu_s"] / points * 1e6,
            "rss_mb": report["rss_mb"],
            "bytes_a_point": report["bytes"] / points,
        }


def measure_charts(data: str, points: int = 1_000_000) -> dict[str, float]:
    """Median milliseconds of charts over one series of ``points``, warm."""
    from stepward.ingest.decode import decode_frame
    from stepward.ingest.sequence import Sequencer
    from stepward.store.points.duckdb import DuckDBPoints
    from stepward.store.points.protocol import ChartQuery

    store = DuckDBPoints(data)
    sequencer = Sequencer(lambda: store.positions("charts"))
    writer = FrameWriter("run_chart", "w", project="charts")
    random = np.random.default_rng(0)
    for start in range(0, points, 50_000):
        steps = np.arange(start, start + 50_000)
        part = points_part([("loss", None)], steps, steps * 1_000_000, random.standard_normal(50_000))
        rows = sequencer.admit(decode_frame(writer.encoded(part)), allow_gap=False, received_at=0)
        store.commit("charts", [rows] if rows else [])
        sequencer.committed()

    def median(**asked: Any) -> tuple[float, float]:
        walls, cpus = [], []
        for _ in range(9):
            wall, cpu = time.perf_counter(), time.process_time()
            store.chart("charts", ChartQuery(run="run_chart", metric="loss", **asked))
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
        return sorted(walls)[4] * 1e3, sorted(cpus)[4] * 1e3

    times: dict[str, float] = {}
    for name, asked in {
        "whole": {},
        "tenth": {"start": 400_000.0, "end": 500_000.0},
        "thousandth": {"start": 400_000.0, "end": 401_000.0},
        "relative": {"x": "relative"},
    }.items():
        times[f"{name}_ms"], times[f"{name}_cpu_ms"] = median(**asked)
    store.close()
    return times


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rows", type=int, default=160)
    parser.add_argument("--series", type=int, default=50)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        result: dict[str, Any] = {"load_average": os.getloadavg()[0], "threads": threading.active_count()}
        result["ingest"] = measure_ingest(folder, args.clients, args.seconds, args.rows, args.series)
        result["charts"] = measure_charts(folder)
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
