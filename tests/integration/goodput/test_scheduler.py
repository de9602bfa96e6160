"""A requeued job over HTTP, as its watcher and the processes inside tell it, on a real server."""

import os
import re
import subprocess
import sys
import time
import urllib.request

import msgspec
import numpy as np
import pytest

from stepward.model import frames
from stepward.model.frames import Config, Event, Events, PhaseColumn, Source, Status
from stepward.model.identity import derived_run_id
from stepward.model.states import Exit, State, Witness
from stepward.model.words import SourceKind
from stepward.testing.frames import FrameWriter, steps_part

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
S = 1_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """(URL, token) of a server."""
    folder = tmp_path_factory.mktemp("scheduler")
    env = {name: value for name, value in os.environ.items() if not name.startswith("STEPWARD_")}
    env |= {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "stepward", "up", "--data", str(folder / "data"), "--port", "0"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    url = re.search(r"serves (\S+)", process.stdout.readline())[1]
    yield url, (folder / "data" / "token").read_text().strip()
    process.terminate()
    assert process.wait(120) == 0
    process.stdout.close()


class Job:
    """Writes of a job's run; times are seconds from its submission."""

    def __init__(self, server, name):
        self.url, self.token = server
        self.run, self.writers = derived_run_id("cluster", name), {}
        self.t0 = time.time_ns() // 1000 - 1000 * S

    def at(self, seconds):
        return self.t0 + int(seconds * S)

    def ask(self, path, body=None):
        asked = urllib.request.Request(f"{self.url}/api/v1/{path}", data=body)
        asked.add_header("Authorization", f"Bearer {self.token}")
        asked.add_header("Content-Type", "application/octet-stream")
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return msgspec.json.decode(answer.read())

    def send(self, kind, attempt, *parts):
        rank = 0 if kind is SourceKind.RANK else None
        source = Source(kind=kind, attempt=attempt, rank=rank, node="n1" if rank == 0 else "")
        name = f"{self.run[4:]}-{kind.value}-{attempt}".replace(".", "_").replace("/", "-")
        writer = self.writers.setdefault(name, FrameWriter(self.run, name, project="cluster", source=source))
        frame = msgspec.structs.replace(writer.frame(*parts), sent_at=time.time_ns() // 1000)
        self.ask("ingest", frames.encode(frame))

    def watched(self, attempt, *events, **config):
        parts = [frames.part("events", Events([Event(id=f"{attempt}-{e['type']}", **e) for e in events]))]
        self.send(SourceKind.WATCHER, attempt, *parts, *([frames.part("config", Config(**config))] if config else []))

    def trained(self, attempt, first, count, begin):
        starts = np.array([self.at(begin + n) for n in range(count)])
        table = steps_part(
            [PhaseColumn("forward")], np.arange(first, first + count), starts, np.ones(count), np.ones((count, 1))
        )
        saved = Event(
            id=f"{attempt}-saved", type="checkpoint_durable", started_at=int(starts[-1]) + S, step=first + count - 1
        )
        config = Config(started_at=self.at(begin - 5), ranks=1)
        self.send(
            SourceKind.RANK, attempt, frames.part("config", config), table, frames.part("events", Events([saved]))
        )

    def ended(self, attempt, seconds, state, *, final):
        exit = Exit(at=self.at(seconds), by=Witness.SCHEDULER, state=state, final=final)
        self.send(SourceKind.WATCHER, attempt, frames.part("exit", exit))


def test_queue_provision_loss_and_requeue(server):
    job = Job(server, "requeued")
    queued = {"type": "queued", "started_at": job.at(0), "ended_at": job.at(100), "data": {"reason": "Priority"}}
    made = {"type": "provision", "started_at": job.at(100), "ended_at": job.at(130)}
    job.watched("slurm.0", {"type": "job_submitted", "started_at": job.at(0)}, queued, made, started_at=job.at(100))
    job.trained("slurm.0/step.0", 0, 50, begin=140)
    job.watched("slurm.0", {"type": "node_failed", "started_at": job.at(190), "data": {"nodes": ["n1"]}})
    job.ended("slurm.0", 190, State.LOST, final=False)
    waited = {"type": "queued", "started_at": job.at(200), "ended_at": job.at(260), "data": {"reason": "Resources"}}
    again = {"type": "requeued", "started_at": job.at(200), "data": {"by": "slurm", "cause": "node failure"}}
    job.watched("slurm.1", again, waited, started_at=job.at(260))
    job.trained("slurm.1/step.0", 50, 40, begin=270)
    job.ended("slurm.1", 310, State.FINISHED, final=True)
    found = job.ask(f"runs/{job.run}/goodput")
    buckets = {bucket: seconds for bucket, seconds in found["report"]["buckets_s"].items() if seconds > 4}
    # A sender's clock is known as well as its frames are fast, which on a busy machine is seconds.
    wanted = {"queue_wait": 100, "provision": 30, "init": 20, "productive": 90, "down": 10, "wait_for_nodes": 60}
    assert buckets == pytest.approx(wanted, abs=4) and found["report"]["attempts"] == 2
    assert found["report"]["scheduling"] == pytest.approx(120 / 310, abs=0.02)
    assert found["reliability"]["interruptions"] == {"node_failed": 1}
    (share,) = [one for one in job.ask("goodput?project=cluster&since=1h")["runs"] if one["run"] == job.run]
    assert share["overall"] == pytest.approx(90 / 310, abs=0.02)


def test_a_job_that_waits_now(server):
    job = Job(server, "waits")
    waiting = {"type": "queued", "started_at": job.at(0), "data": {"reason": "Resources", "why": "no node is free"}}
    job.watched("slurm.0", {"type": "job_submitted", "started_at": job.at(0)}, waiting, name="waits")
    job.send(
        SourceKind.WATCHER,
        "slurm.0",
        frames.part("status", Status(at=time.time_ns() // 1000, state=State.QUEUED, reason="Resources")),
    )
    report = job.ask(f"runs/{job.run}/goodput")["report"]
    assert report["open"] and report["attempts"] == 0 and report["buckets_s"]["queue_wait"] == report["wall_s"] > 999
