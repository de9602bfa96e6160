"""What the node agent costs its node: CPU and memory at 10 s sampling, with everything that it does by default.

    python bench/agent.py [--seconds 120] [--processes 300]

A real agent reports to a real server; an exporter with 200 series is scraped, and the host has that many idle processes
more than before. CPU is that of the agent and its ended children (user and system) over the wall time, after a warm-up;
memory is VmRSS and VmHWM at the end. A second agent has no server: everything goes into its spool.
"""

import argparse
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from stepward.collect.process import TICKS_PER_S

WARM_UP_S = 20.0
EXPORTED = "".join(f'gauge_{n}{{gpu="{n % 8}",kind="a"}} {n}.5\n' for n in range(200)).encode()


class Exporter(http.server.BaseHTTPRequestHandler):
    """Answers like an exporter."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(EXPORTED)))
        self.end_headers()
        self.wfile.write(EXPORTED)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and its reaped children."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_PER_S


def memory_mb(pid: int) -> dict[str, float]:
    """Resident memory now and at its highest, MB (10^6 bytes)."""
    found = {}
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key in ("VmRSS", "VmHWM"):
                found[key] = round(int(value.split()[0]) * 1024 / 1e6, 1)
    return found


def agent(folder: str, scrape: str, server: str | None) -> subprocess.Popen[bytes]:
    """Start an agent with a spool of its own."""
    environ = os.environ | {"STEPWARD_DIR": f"{folder}/spool", "XDG_CONFIG_HOME": folder}
    environ |= {"XDG_STATE_HOME": f"{folder}/state" if server is None else server}
    command = [sys.executable, "-m", "stepward", "agent", "--node", "bench", "--scrape", scrape]
    return subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)


def measure(process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
    """CPU and memory of a running agent over some seconds."""
    before, began = cpu_s(process.pid), time.monotonic()
    time.sleep(seconds)
    used, took = cpu_s(process.pid) - before, time.monotonic() - began
    return {"cpu_percent": round(100 * used / took, 3), "seconds": round(took, 1), "memory_mb": memory_mb(process.pid)}


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--processes", type=int, default=300)
    asked = parser.parse_args()
    exporter = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    scrape = f"http://127.0.0.1:{exporter.server_address[1]}/metrics"
    idle = [subprocess.Popen(["sleep", "3600"]) for _ in range(asked.processes)]
    with tempfile.TemporaryDirectory() as folder:
        state = f"{folder}/up"
        up = [sys.executable, "-m", "stepward", "up", "--data", f"{folder}/data", "--port", "0"]
        server = subprocess.Popen(up, env=os.environ | {"XDG_STATE_HOME": state}, stdout=subprocess.DEVNULL)
        time.sleep(5.0)
        agents = {
            "with_server": agent(f"{folder}/a", scrape, state),
            "without_server": agent(f"{folder}/b", scrape, None),
        }
        try:
            time.sleep(WARM_UP_S)
            found: dict[str, Any] = {"interval_s": 10, "processes_on_host": len(os.listdir("/proc"))}
            threads = [
                threading.Thread(target=lambda name=name, one=one: found.update({name: measure(one, asked.seconds)}))
                for name, one in agents.items()
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found["load"] = os.getloadavg()[0]
        finally:
            for process in [*agents.values(), server, *idle]:
                process.send_signal(signal.SIGTERM)
            for process in [*agents.values(), server, *idle]:
                process.wait(30)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
