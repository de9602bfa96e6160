"""A server under long, even load with a browser before it: is memory flat, and how late is a value on the screen?

    python bench/soak.py [--runs 200] [--metrics 20] [--seconds 600] [--no-browser]

A real server (``stepward up``), live runs that each log a step a second through real frames over HTTP, with a heartbeat in
each, and a real Chromium that shows one run's page with all its charts. RSS and CPU are the server process's, sampled each
second; flat means that the last fifth is no higher than the first. *Acknowledged* is from the frame's cut to the answer.
*On screen* is from the moment at which a step is logged to the second animation frame after the browser received it, both
on this machine's clock. An hour is ``--seconds 3600``.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from stepward.model import frames
from stepward.model.frames import Config, Source, Status
from stepward.model.identity import derived_run_id, ulid
from stepward.model.words import SourceKind
from stepward.testing.frames import FrameWriter, points_part

PROJECT, PERIOD_S = "soak", 1.0
METRIC = "chart/00"
"""The metric whose way to the screen is measured."""
TICK_HZ = os.sysconf("SC_CLK_TCK")

WATCH = """
const seen = (window.soakSeen = []);
const ask = window.fetch;
window.fetch = async (...given) => {
  const answer = await ask(...given);
  const url = new URL(given[0].url ?? given[0], document.baseURI);
  if (url.pathname.endsWith("/points") && url.searchParams.get("metric") === "METRIC") {
    const chart = await answer.clone().json();
    const step = chart.lines?.at(-1)?.x_last.at(-1);
    if (step !== undefined) requestAnimationFrame(() => requestAnimationFrame(() => seen.push([step, Date.now()])));
  }
  return answer;
};
""".replace("METRIC", METRIC)


class Sent(NamedTuple):
    """What the senders did: seconds until each acknowledgement, when each step of the first run was logged, refusals."""

    acknowledged_s: list[float]
    logged_at: dict[int, float]
    refused: list[str]


class Live:
    """A live run: a rank that logs a step and beats."""

    def __init__(self, number: int, metrics: int) -> None:
        source = Source(kind=SourceKind.RANK, attempt="a", rank=0, node=f"n{number % 25}", pid=1)
        self.writer = FrameWriter(derived_run_id(PROJECT, f"run{number}"), ulid(), project=PROJECT, source=source)
        self.number, self.step = number, 0
        self._names: list[tuple[str, int | None]] = [(f"chart/{index:02d}", None) for index in range(metrics)]
        self._random = np.random.default_rng(number)

    def frame(self, at_us: int) -> bytes:
        """The next step, its heartbeat, and at first what the run is."""
        values = self._random.standard_normal((1, len(self._names)))
        parts = [points_part(self._names, [self.step], [at_us], values, define=self.step == 0)]
        parts.append(frames.part("status", Status(at=at_us, step=self.step, progress_at=at_us)))
        if self.step == 0:
            parts.insert(0, frames.part("config", Config(name=f"run{self.number}", started_at=at_us)))
        self.step += 1
        return frames.encode(self.writer.frame(*parts, sent_at=at_us))


class Senders:
    """Live runs that send, each with a connection and in a thread of its own."""

    def __init__(self, address: str, token: str, seconds: float) -> None:
        self._host, self._turns = urlsplit(address).netloc, int(seconds / PERIOD_S)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/vnd.stepward.frame"}
        self.sent = Sent([], {}, [])

    def send(self, runs: Sequence[Live]) -> None:
        """Send until the time is over; runs begin evenly over a period, as runs that know nothing of each other do."""
        begun = time.monotonic() + PERIOD_S
        threads = [
            threading.Thread(target=self._send_run, args=(live, begun + place / len(runs) * PERIOD_S))
            for place, live in enumerate(runs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send_run(self, live: Live, begun: float) -> None:
        connection = http.client.HTTPConnection(self._host, timeout=60)
        for turn in range(self._turns):
            time.sleep(max(0.0, begun + turn * PERIOD_S - time.monotonic()))
            logged, step, cut = time.time(), live.step, time.perf_counter()
            connection.request("POST", "/api/v1/ingest", body=live.frame(int(logged * 1e6)), headers=self._headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                self.sent.refused.append(f"{answer.status}: {body[:200]!r}")
            self.sent.acknowledged_s.append(time.perf_counter() - cut)
            if live.number == 0:
                self.sent.logged_at[step] = logged
        connection.close()


def send(address: str, token: str, shape: tuple[int, int], seconds: float, answer: Any) -> None:
    """The process of the senders."""
    runs, metrics = shape
    senders = Senders(address, token, seconds)
    senders.send([Live(number, metrics) for number in range(runs)])
    answer.send(senders.sent)


@contextlib.contextmanager
def serving(folder: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A server on a data folder of its own: process, address, and the link that signs a browser in."""
    places = {"XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "STEPWARD_DIR": "spool"}
    env = {**os.environ, **{name: f"{folder}/{place}" for name, place in places.items()}, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "stepward", "up", "--data", f"{folder}/data", "--port", "0"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        link = next(line.split()[-1] for line in process.stdout if "#login=" in line)
        yield process, link.partition("/#login=")[0], link
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


@contextlib.contextmanager
def browsing(link: str, page_of: str) -> Iterator[Any]:
    """A page of Chromium that shows a run with all its charts in view."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("no chromium on this machine: apt install chromium, or --no-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 2600})
        page.add_init_script(WATCH)
        page.goto(link)
        page.get_by_role("link", name="Runs").wait_for()
        page.goto(page_of)
        yield page
        browser.close()


class Memory(NamedTuple):
    """A sample of a process: seconds since the begin, resident MB, CPU seconds."""

    at_s: float
    rss_mb: float
    cpu_s: float


def sample(pid: int, begun: float) -> Memory:
    """Memory and CPU of a process now."""
    with open(f"/proc/{pid}/statm") as file:
        pages = int(file.read().split()[1])
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / TICK_HZ
    return Memory(time.monotonic() - begun, pages * os.sysconf("SC_PAGE_SIZE") / 1e6, cpu)


def late(seen: Sequence[Sequence[float]], logged_at: dict[int, float]) -> list[float]:
    """Seconds from the logging of each step to the first picture that has it; steps that no picture has are left out."""
    pictures = sorted((at_ms / 1000, step) for step, at_ms in seen)
    found = ((logged, [at for at, shown in pictures if shown >= step]) for step, logged in logged_at.items())
    return [at[0] - logged for logged, at in found if at]


def spread(values: Sequence[float]) -> dict[str, float | int | None]:
    """Median and 95th percentile, milliseconds."""
    if not values:
        return {"n": 0, "p50_ms": None, "p95_ms": None}
    p50, p95 = (round(float(np.quantile(values, share)) * 1000, 1) for share in (0.5, 0.95))
    return {"n": len(values), "p50_ms": p50, "p95_ms": p95}


def flatness(samples: Sequence[Memory]) -> dict[str, float]:
    """How memory went: its fifths, and its slope over all but the first, in which caches fill."""
    fifth = max(1, len(samples) // 5)
    rss, at = np.array([one.rss_mb for one in samples]), np.array([one.at_s for one in samples])
    slope = float(np.polyfit(at[fifth:], rss[fifth:], 1)[0]) if len(samples) > 2 * fifth else 0.0
    return {
        "rss_first_fifth_mb": round(float(np.median(rss[:fifth])), 1),
        "rss_last_fifth_mb": round(float(np.median(rss[-fifth:])), 1),
        "rss_max_mb": round(float(rss.max()), 1),
        "rss_slope_mb_h": round(slope * 3600, 1),
        "cpu_share": round((samples[-1].cpu_s - samples[0].cpu_s) / (samples[-1].at_s - samples[0].at_s), 3),
    }


def soak(runs: int, metrics: int, seconds: float, *, browser: bool) -> dict[str, Any]:
    """Run it; what came of it."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as open_things:
        server, address, link = open_things.enter_context(serving(folder))
        with open(f"{folder}/data/token") as file:
            token = file.read().strip()
        receiver, sender = context.Pipe(duplex=False)
        senders = context.Process(target=send, args=(address, token, (runs, metrics), seconds, sender))
        senders.start()
        shown = f"{address}/runs/{derived_run_id(PROJECT, 'run0')}"
        page = open_things.enter_context(browsing(link, shown)) if browser else None
        begun, samples = time.monotonic(), list[Memory]()
        while not receiver.poll():
            samples.append(sample(server.pid, begun))
            if page is not None:
                page.wait_for_timeout(1000)
            else:
                time.sleep(1.0)
        sent: Sent = receiver.recv()
        senders.join()
        result: dict[str, Any] = {
            "runs": runs,
            "metrics": metrics,
            "seconds": seconds,
            "points": len(sent.acknowledged_s) * metrics,
            "refused": len(sent.refused),
            "refusals": sent.refused[:3],
            "server": flatness(samples),
            "acknowledged": spread(sent.acknowledged_s),
        }
        if page is not None:
            page.wait_for_timeout(3000)
            seen = page.evaluate("window.soakSeen")
            # What was logged before the page was there has no way to the screen.
            opened = min((at_ms / 1000 for _, at_ms in seen), default=0.0)
            since = {step: at for step, at in sent.logged_at.items() if at >= opened}
            result["on_screen"] = {"steps": len(since), **spread(late(seen, since))}
            result["charts"] = page.locator("[data-metric] canvas").count()
            result["browser_heap_mb"] = round(page.evaluate("performance.memory.usedJSHeapSize") / 1e6, 1)
        return result


def main(argv: Sequence[str] | None = None) -> None:
    """Soak and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--metrics", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--no-browser", action="store_true")
    args = parser.parse_args(argv)
    load = os.getloadavg()[0]
    figures = soak(args.runs, args.metrics, args.seconds, browser=not args.no_browser)
    print(json.dumps({"load_average": load, **figures}, indent=2))


if __name__ == "__main__":
    main()
