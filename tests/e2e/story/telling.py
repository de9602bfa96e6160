"""One telling: a job of two nodes, one of them dies, the run goes on elsewhere, and the server knows all of it."""

import contextlib
import socket
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from tests.e2e.story.claims import Claims
from tests.e2e.story.lab import NAME, Lab, StoryError
from tests.e2e.story.picture import take_picture

from stepward.clusters.health import PREFIX
from stepward.diagnose.document import StoredDiagnosis
from stepward.model.points import StepRow
from stepward.model.resources import Attempt, Run, RunEvent
from stepward.orchestrators.slurm.records import SlurmJob

EXAMPLE = Path(__file__).parents[3] / "examples" / "slurm_resume.py"
STEPS, EVERY, STEP_S = 260, 20, 0.1
KILL_AT = 70
"""Step at which the node may die: three checkpoints have been made, two are kept."""
APPEARS_S, DETECTED_S, NEW_STEP_S, DIAGNOSED_S = 10.0, 15.0, 60.0, 20.0
SAME_S, SETTLES_S = 2.0, 15.0
SCRIPT = """#!/bin/sh
#SBATCH --job-name=story-{number} --nodes=2 --ntasks-per-node=1 --requeue --output={folder}/job-%j.out
export MASTER_ADDR=127.0.0.1 MASTER_PORT={port}
srun python {example} --steps {steps} --every {every} --step-s {step_s}
"""


class Telling:
    """One run of the story.

    Attributes:
        number: from 1; odd ones kill the node of the batch script, which has rank 0, even ones the other.
    """

    def __init__(self, lab: Lab, claims: Claims, number: int, artifacts: Path) -> None:
        self._lab, self._claims, self._number, self._artifacts = lab, claims, number, artifacts
        claims.telling = number

    def tell(self) -> None:
        """Submit, kill, wait, compare."""
        self._submit()
        before = self._until_it_trains()
        victim = self._kill(before)
        self._detected(victim)
        newest, earlier = self._corrupt()
        after = self._resumed(victim)
        self._ended()
        self._account(before, victim, newest, earlier)
        self._compare_with_slurm()
        self._diagnosis(victim)
        self._goodput(after, earlier)
        self._picture()
        self._keep()
        self._give_back(victim)

    # ── what happens ──

    def _submit(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        script = Path(self._lab.folder, "job.sh")
        fields = {"example": EXAMPLE, "steps": STEPS, "every": EVERY, "step_s": STEP_S}
        script.write_text(SCRIPT.format(number=self._number, folder=self._lab.folder, port=port, **fields))
        done = self._lab.command("sbatch", "--parsable", str(script))
        self._job = done.stdout.strip()
        submitted = time.monotonic()
        self._claims.say(f"$ sbatch job.sh -> job {self._job} {done.stderr}")
        self._run_id = self._lab.until("a run of the job", lambda: self._lab.client.job(NAME, self._job).run)
        self._claims.within("sbatch -> its run is there", time.monotonic() - submitted, APPEARS_S)

    def _until_it_trains(self) -> Attempt:
        def trains() -> Run | None:
            run = self._run()
            return run if run.state == "running" and (run.step or 0) >= KILL_AT and len(self._whole()) >= 2 else None

        run = self._lab.until(f"step {KILL_AT} and two checkpoints", trains)
        (attempt,) = run.attempts
        self._claims.say(f"attempt 1 trains on {', '.join(attempt.nodes)}, step {run.step}")
        self._claims.hold("one run, one attempt, two ranks, two nodes", (attempt.ranks, len(attempt.nodes)) == (2, 2))
        return attempt

    def _kill(self, attempt: Attempt) -> str:
        batch = self._lab.slurm.job(self._job).nodes[0]
        victim = batch if self._number % 2 else next(node for node in attempt.nodes if node != batch)
        self._claims.say(f"power of {victim} is cut: slurmd, slurmstepd, rank and agent die by SIGKILL")
        self._killed, self._killed_at = time.monotonic(), time.time()
        self._lab.kill_node(victim)
        return victim

    def _detected(self, victim: str) -> None:
        self._lab.until(f"{victim} to be down", lambda: self._lab.slurm.node(victim).reason.startswith(PREFIX))
        self._claims.within("kill -> node down by its silence", time.monotonic() - self._killed, DETECTED_S)

    def _corrupt(self) -> tuple[int, int]:
        """Damage the newest checkpoint; its step, and that of the one before."""
        newest, earlier = self._whole()[:2]
        path = self._folder / f"step-{newest:012d}" / "weights.npz"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
        self._claims.say(f"one byte of the newest checkpoint (step {newest}) is flipped")
        return newest, earlier

    def _resumed(self, victim: str) -> list[StepRow]:
        def placed_again() -> Attempt | None:
            found = self._run().attempts[1:]
            return found[0] if found and len(found[0].nodes) == 2 else None

        placed = self._lab.until("attempt 2", placed_again)
        self._claims.within("kill -> attempt 2 has nodes", time.monotonic() - self._killed, None)
        self._claims.hold("attempt 2 runs on other nodes", victim not in placed.nodes, ", ".join(placed.nodes))
        rows = self._lab.until("a step of attempt 2", lambda: self._rows(2))
        first = min(_seconds(row.started_at) + row.duration_s for row in rows)
        self._claims.within("kill -> first new step", first - self._killed_at, NEW_STEP_S)
        return rows

    def _ended(self) -> None:
        run = self._lab.until("the run's end", lambda: (found := self._run()).state.terminal and found)
        self._claims.within("kill -> run finished", time.monotonic() - self._killed, None)
        self._claims.hold(
            "the run is finished, at its last step", (run.state, run.step) == ("finished", STEPS - 1), run.state
        )
        states = [(one.state.value, one.exit_code) for one in run.attempts]
        self._claims.hold("attempt 1 is lost, attempt 2 finished", states == [("lost", None), ("finished", 0)], states)

    # ── what the server knows ──

    def _account(self, before: Attempt, victim: str, newest: int, earlier: int) -> None:
        events = {event.type: event for event in self._lab.client.events(self._run_id, by="writers")}
        damaged, resumed, failed, again = (
            events.get(name) for name in ("checkpoint_damaged", "resumed", "node_failed", "requeued")
        )
        self._claims.hold("the damaged checkpoint is named", _data(damaged, "step") == newest, _title(damaged))
        self._claims.hold("attempt 2 goes on from the one before", _data(resumed, "step") == earlier, _title(resumed))
        self._claims.hold("the run names the node that failed", _data(failed, "nodes") == [victim], _title(failed))
        self._claims.hold("stepward requeued it", _data(again, "by") == "stepward", _title(again))
        reason = self._run().attempts[0].reason or ""
        self._claims.hold("attempt 1 says why it ended", victim in reason, reason)
        done = [action.outcome for action in self._lab.client.actions(node=victim, kind="node_down").items]
        self._claims.hold("the action is in the audit", done[:1] == ["done"], done[:1])
        first = min(row.step for row in self._rows(2))
        self._claims.hold("no step is left out", first == earlier + 1, f"first step of attempt 2 is {first}")

    def _compare_with_slurm(self) -> None:
        """Times of the attempts against Slurm's own record."""

        def recorded() -> list[SlurmJob] | None:
            found = self._lab.slurm.attempts(self._job)
            return found if len(found) == 2 and found[-1].ended_at else None

        slurm = self._lab.until("Slurm's record", recorded)

        def off() -> dict[str, float]:
            found: dict[str, float] = {}
            for mine, known in zip(self._run().attempts, slurm, strict=True):
                found[f"start of {mine.number}"] = abs(_seconds(mine.started_at) - (known.started_at or 0) / 1e6)
                found[f"end of {mine.number}"] = abs(_seconds(mine.ended_at) - (known.ended_at or 0) / 1e6)
            return found

        # The program says its own end first; the scheduler's, which is a moment later, then takes its place.
        with contextlib.suppress(StoryError):
            self._lab.until("Slurm's times", lambda: max(off().values()) <= SAME_S, SETTLES_S)
        worst = max(differences := off(), key=lambda name: differences[name])
        self._claims.within("largest difference to Slurm's record", differences[worst], SAME_S, worst)

    def _diagnosis(self, victim: str) -> None:
        with contextlib.suppress(StoryError):
            self._lab.until("a diagnosis of attempt 1", self._first_diagnosis, DIAGNOSED_S)
        found = self._first_diagnosis()
        causes = [(cause.label, cause.suspects.nodes) for cause in found.document.causes] if found else []
        self._claims.hold(
            "the diagnosis is node_failure, with the node", causes == [("node_failure", [victim])], causes
        )
        if found:
            took = _seconds(found.made_at) - self._killed_at
            self._claims.within("kill -> diagnosis as it stands", took, None)
        print(self._lab.cli("show", self._run_id))

    def _goodput(self, rows: list[StepRow], earlier: int) -> None:
        lost = max(row.step for row in self._rows(1)) - earlier

        def exact() -> Any:
            answer = self._lab.client.goodput(self._run_id)
            return answer if answer.exact and not answer.report.open else None

        report = self._lab.until("the exact ledger", exact).report
        print(self._lab.cli("goodput", "show", self._run_id))
        buckets = report.buckets_s
        total = sum(buckets.values())
        self._claims.hold(
            "the buckets add up to the wall", abs(total - report.wall_s) < 1e-6, f"{total} of {report.wall_s} s"
        )
        told = f"{report.lost_steps} of {lost}"
        # The step that the node died in may have been begun, and none has told its end.
        self._claims.hold("lost steps are those behind the checkpoint", report.lost_steps - lost in (0, 1), told)
        waited = {name: round(seconds, 1) for name, seconds in buckets.items() if seconds >= 0.05}
        self._claims.hold("recomputed steps and the wait for nodes are told", buckets["recompute"] > 0, waited)

    def _picture(self) -> None:
        path = self._artifacts / f"run-{self._number}.png"
        take_picture(self._lab.client.login_link().url, f"/runs/{self._run_id}", path)
        self._claims.hold("Chromium shows the run's page", path.stat().st_size > 20_000, path.name)

    def _keep(self) -> None:
        """Keep what the server knew, for people to read."""
        told = {
            "run": self._run(),
            "events": self._lab.client.events(self._run_id),
            "diagnoses": self._lab.client.diagnoses(self._run_id),
        }
        path = self._artifacts / f"run-{self._number}.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(told)))

    def _give_back(self, victim: str) -> None:
        began = time.monotonic()
        self._lab.power_on(victim)
        self._lab.until("all nodes to be idle again", self._lab.all_live)
        self._claims.within("power back -> all nodes idle", time.monotonic() - began, None)

    # ── parts of these ──

    @property
    def _folder(self) -> Path:
        return Path(self._lab.folder, "checkpoints", self._run_id)

    def _whole(self) -> list[int]:
        names = [path.name for path in self._folder.glob("step-*")]
        return sorted((int(name.removeprefix("step-")) for name in names), reverse=True)

    def _run(self) -> Run:
        return self._lab.client.run(self._run_id)

    def _rows(self, attempt: int) -> list[StepRow]:
        return [row for row in self._lab.client.steps(self._run_id, last=5000).rows if row.attempt == attempt]

    def _first_diagnosis(self) -> StoredDiagnosis | None:
        every = self._lab.client.diagnoses(self._run_id)
        return next((one for one in every if one.attempt == 1 and one.event is None), None)


def _seconds(instant: str | None) -> float:
    return datetime.fromisoformat(instant).timestamp() if instant else 0.0


def _data(event: RunEvent | None, name: str) -> Any:
    return event.data.get(name) if event else None


def _title(event: RunEvent | None) -> str:
    return event.title if event else "no such event"
