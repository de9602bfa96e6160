"""What the goodput of many runs side by side costs a server: CPU and time of a fleet's answer and of ``/metrics``.

    python bench/fleet.py [--runs N] [--live N] [--steps N] [--ranks N] [--out FILE]

The runs come by real frames into a real data folder; most have ended, some go on. Each of these is a new process that
opens the folder: *computed* finds no ledger kept (as after an upgrade) and computes them all; *cold* finds those of the
ended runs; *warm* asks the same server again. Without HTTP and JSON but for ``json_ms``. CPU is of the whole process.
"""

import argparse
import asyncio
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from stepward.api.goodput import gauges
from stepward.model import frames
from stepward.model.frames import Config, Event, Events, PhaseColumn, Source, Status
from stepward.model.identity import derived_run_id
from stepward.model.states import Exit, Witness
from stepward.model.words import SourceKind, TokenKind
from stepward.server.app import Server, ServerSettings
from stepward.store.catalog import Principal
from stepward.testing.frames import FrameWriter, steps_part

S = 1_000_000
STEP_S = 0.5
ALL = Principal(token="bench", name="bench", kind=TokenKind.ADMIN, projects=None)


async def fill(folder: str, options: argparse.Namespace) -> None:
    """Send all runs to a server on the folder."""
    server = Server(ServerSettings(data=folder))
    await server.parts.ingestor.start()
    try:
        for first in range(0, options.runs, 50):
            numbers = range(first, min(first + 50, options.runs))
            await asyncio.gather(*(send(server, number, options) for number in numbers))
    finally:
        await server.parts.ingestor.stop()
        server.close()


async def send(server: Server, number: int, options: argparse.Namespace) -> None:
    """One run: its ranks' steps and phases, a checkpoint every hundred steps, and an end unless it lives."""
    lives = number < options.live
    seconds = options.steps * STEP_S
    began = server.parts.clock() - int((seconds + (1 if lives else 3600)) * S)
    run = derived_run_id("bench", str(number))
    starts = began + 5 * S + (np.arange(options.steps) * STEP_S * S).astype(np.int64)
    for rank in range(options.ranks):
        source = Source(kind=SourceKind.RANK, attempt="launch.0", rank=rank, node=f"n{number % 64}")
        writer = FrameWriter(run, f"{run[4:]}-{rank}", project=f"p{number % 5}", source=source)
        config = Config(name=f"run {number}", ranks=options.ranks, started_at=began)
        waited = np.full((options.steps, 1), 0.05)
        steps = np.arange(options.steps)
        table = steps_part([PhaseColumn("data_wait")], steps, starts, np.full(options.steps, STEP_S), waited)
        saved = [
            Event(id=f"{rank}-{step}", type="checkpoint_durable", started_at=int(starts[step]), step=int(step))
            for step in range(99, options.steps, 100)
        ]
        end = int(starts[-1] + STEP_S * S)
        parts = [frames.part("config", config), table, frames.part("events", Events(saved))]
        parts.append(
            frames.part("status", Status(at=end))
            if lives
            else frames.part("exit", Exit(at=end, by=Witness.SDK, exit_code=0))
        )
        frame = msgspec.structs.replace(writer.frame(*parts), sent_at=server.parts.clock(), alive=lives)
        await server.parts.ingestor.submit(frames.encode(frame), authorize=lambda _: None)


def timed(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """CPU and time of a call, s."""
    cpu, clock = time.process_time(), time.perf_counter()
    answer = work()
    return {"cpu_s": round(time.process_time() - cpu, 4), "s": round(time.perf_counter() - clock, 4)}, answer


def ask(folder: str) -> dict[str, Any]:
    """A new server's answers."""
    server = Server(ServerSettings(data=folder))
    parts = server.parts
    try:
        first, found = timed(lambda: parts.accounts.fleet(None, None, None, 3600.0))
        again, _ = timed(lambda: parts.accounts.fleet(None, None, None, 3600.0))
        scrape, text = timed(lambda: "".join(gauges(parts, ALL)))
        written, body = timed(lambda: msgspec.json.encode(found))
    finally:
        server.close()
    return {
        "runs": len(found.runs),
        "pending": found.pending,
        "first": first,
        "warm": again,
        "metrics_warm": scrape,
        "json_ms": round(1e3 * written["cpu_s"], 1),
        "json_kb": len(body) // 1000,
        "metrics_lines": text.count("\n"),
    }


def scrape(folder: str) -> dict[str, Any]:
    """A new server's first ``/metrics``."""
    server = Server(ServerSettings(data=folder))
    try:
        first, text = timed(lambda: "".join(gauges(server.parts, ALL)))
    finally:
        server.close()
    pending = next(line for line in text.splitlines() if line.startswith("stepward_goodput_pending_runs"))
    return first | {"pending": int(pending.split()[1])}


def child(what: str, folder: str) -> dict[str, Any]:
    """Run a part of this file in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", what, folder], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=450)
    parser.add_argument("--live", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", help="write the report as JSON")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps({"ask": ask, "scrape": scrape}[options.child[0]](options.child[1])))
        return
    with tempfile.TemporaryDirectory(prefix="bench-fleet-") as folder:
        filled, _ = timed(lambda: asyncio.run(fill(folder, options)))
        report = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "asked": {name: getattr(options, name) for name in ("runs", "live", "steps", "ranks")},
            "filled": filled,
            "computed": child("ask", folder),
            "cold": child("ask", folder),
            "metrics_cold": child("scrape", folder),
        }
    print(json.dumps(report, indent=1))
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
