"""All benchmarks that there are, one after the other, into one dated report: ``bench/reports/<date>.md``.

    python bench/run.py [--only NAME ...] [--date 2026-12-01]

A benchmark is a file beside this one that prints JSON. One that fails is in the report, with what it said; the others
go on. Figures are CPU time where they can be, for a machine is rarely idle: the load average stands beside them.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
BENCHES: dict[str, Sequence[str]] = {
    "sdk_log": (),
    "overhead": (),
    "ingest": ("--seconds", "60"),
    "query": (),
    "catalog": (),
    "scale": (),
    "peers": (),
    "diagnosis": ("speed",),
    "detect": (),
    "goodput": (),
    "agent": (),
}
"""Name of the file -> its arguments."""
TIMEOUT_S = 3600.0


def run(name: str, arguments: Sequence[str]) -> tuple[Any, float, str | None]:
    """What a benchmark printed, how many seconds it took, and what it said where it failed."""
    begun = time.monotonic()
    command = [sys.executable, f"{HERE}/{name}.py", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=os.path.dirname(HERE), check=False
        )
    except subprocess.TimeoutExpired:
        return None, TIMEOUT_S, f"not finished after {TIMEOUT_S:.0f} s"
    took = time.monotonic() - begun
    if done.returncode:
        return None, took, "\n".join(done.stderr.strip().splitlines()[-5:]) or f"exit code {done.returncode}"
    try:
        return json.loads(done.stdout), took, None
    except ValueError:
        return done.stdout.strip(), took, None


def rows(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every figure with its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from rows(inner, f"{path} · {name}" if path else str(name))
    elif isinstance(value, list) and all(not isinstance(one, dict | list) for one in value):
        yield path, ", ".join(map(figure, value))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from rows(inner, f"{path} · {number}")
    else:
        yield path, figure(value)


def figure(value: Any) -> str:
    """A number as people read it."""
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def processor() -> str:
    """The processor's model, as the kernel names it."""
    try:
        with open("/proc/cpuinfo") as file:
            models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        models = []
    return models[0] if models else platform.processor() or "unknown"


def section(name: str, result: Any, took: float, failed: str | None, load: float) -> str:
    """A benchmark's part of the report; ``load``: the machine's load average as it began."""
    head = f"## {name}\n\n`python bench/{name}.py {' '.join(BENCHES.get(name, ()))}`".rstrip("` ") + "`"
    head += f", {took:.0f} s, load {load:.1f}\n\n"
    if failed is not None:
        return head + f"Failed:\n\n```\n{failed}\n```\n"
    if not isinstance(result, dict):
        return head + f"```\n{result}\n```\n"
    table = "\n".join(f"| {path} | {shown} |" for path, shown in rows(result))
    return head + f"| what | figure |\n| --- | --- |\n{table}\n"


def report(names: Sequence[str]) -> str:
    """Run benchmarks; the whole page."""
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE, check=False
    ).stdout.strip()
    parts = [
        f"# Benchmarks of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n\n"
        f"Revision {revision or 'unknown'}, Python {platform.python_version()}, {os.cpu_count()} CPUs ({processor()}), "
        f"{platform.machine()}, load average {', '.join(f'{load:.1f}' for load in os.getloadavg())} at the start.\n"
    ]
    for name in names:
        if not os.path.exists(f"{HERE}/{name}.py"):
            continue
        print(f"{name} ...", flush=True)
        load = os.getloadavg()[0]
        result, took, failed = run(name, BENCHES.get(name, ()))
        print(f"{name}: {'failed' if failed else 'done'} after {took:.0f} s", flush=True)
        parts.append(section(name, result, took, failed, load))
    return "\n".join(parts)


def main(argv: Sequence[str] | None = None) -> None:
    """Run, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(BENCHES))
    parser.add_argument("--date", default=f"{datetime.now(UTC):%Y-%m-%d}")
    args = parser.parse_args(argv)
    page = report(args.only)
    path = f"{HERE}/reports/{args.date}.md"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.partial", "w") as file:
        file.write(page)
    os.replace(f"{path}.partial", path)
    print(path)


if __name__ == "__main__":
    main()
