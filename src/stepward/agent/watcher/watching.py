"""The watcher's loop: asks Slurm, tells what is new, follows output, links jobs to their runs; and who answers for what fails.

One thread asks and tells; sending and beating have threads of their own. A failure of Slurm, the server or the disk costs a
turn and is said once; what was missed is caught up from accounting.
"""

import threading
import time
from collections.abc import Callable, Sequence

from stepward import settings as configured
from stepward.agent.watcher import following, observing, telling
from stepward.agent.watcher.beating import Beating, watcher_run
from stepward.agent.watcher.known import Job, Launch, Output, new_job
from stepward.agent.watcher.linking import Linking
from stepward.agent.watcher.memory import About, Memory, Told
from stepward.agent.watcher.plan import WatcherFile
from stepward.agent.watcher.sending import Sender
from stepward.errors import StepwardError
from stepward.launch.notes import say
from stepward.launch.record import now_us
from stepward.model.frames import Events, Logs, Payload, part
from stepward.model.identity import ulid
from stepward.model.resources import JobClaim
from stepward.model.states import State
from stepward.orchestrators.slurm.commands import Slurm
from stepward.orchestrators.slurm.records import SlurmJob

POLL_S = 1.5
LOAD = 4.0
"""A poll is followed by a pause of at least this many times what it took: a slow controller is asked less often."""
HISTORY_S = 30.0
"""Pause between two looks at accounting: what the queue forgot between two polls (MinJobAge) is found there."""
MARGIN_US = 300 * 1_000_000
"""Accounting is told late; a look at it begins this long before the last poll that went well."""
ACCOUNTING_US = 15 * 1_000_000
"""How long accounting has to tell how a launch ended that the queue shows requeued; then its end is guessed."""
FORGOTTEN_US = 600 * 1_000_000
"""After this long without a word of a job anywhere its end is told as lost."""
ASKED_AT_ONCE = 20
"""Jobs that accounting is asked about one by one in a turn."""
BACKLOG_BYTES = 64 << 20
"""Records that wait, beyond which no output is read: it stays in its file."""
OUTPUT_BYTES = 8 << 20
"""Output that is read in a turn, of all jobs."""
STOP_S = 5.0


class Watcher:
    """What watches one cluster.

    Args:
        memory: what was told before.
    """

    def __init__(self, cluster: str, slurm: Slurm, memory: Memory, file: WatcherFile) -> None:
        self._cluster, self._slurm, self._memory, self._file = cluster, slurm, memory, file
        self._jobs = {job.name: job for job in memory.living()}
        self._around = telling.Surroundings(cluster, self._failed_nodes)
        self._linking = Linking(slurm)
        self._sender = Sender(memory, configured.load, watcher_run(cluster))
        self._beating = Beating(cluster, configured.load, memory.note("claims") or 0)
        self._settings = configured.load()
        self._accounting = True
        self._append = False
        self._history_at = 0.0
        self._asked_since: dict[str, int] = {}
        self._unclaimed: dict[str, tuple[JobClaim, int]] = {}
        self._settled: dict[str, int | None] = {}
        self._problems: dict[str, str] = {}
        self._told: list[Told] = []
        self._changed: dict[str, Job] = {}

    def run(self, over: threading.Event) -> None:
        """Watch until ``over`` is set."""
        self._sender.start()
        self._beating.start()
        try:
            while not over.is_set():
                began = time.monotonic()
                self._guarded("watching", self.turn)
                took = time.monotonic() - began
                over.wait(max(POLL_S, LOAD * took) - took)
        finally:
            # Who ends a cluster cancels its jobs first and the watcher next: nobody after it could tell how they ended.
            self._guarded("watching", self.turn)
            self._beating.stop(STOP_S)
            self._sender.stop(STOP_S)

    def turn(self) -> None:
        """One look at Slurm, and what follows from it; raises what Slurm answers with."""
        now, notes = now_us(), {}
        try:
            records = self._slurm.jobs()
            queue = observing.by_name(records)
            self._settled = {name: at for name, at in self._settled.items() if name in queue}
            for name, of_job in queue.items():
                if of_job[-1].state.terminal and self._settled.get(name, 0) == of_job[-1].submitted_at:
                    continue
                self._one(name, lambda name=name, record=of_job[-1]: self._from_queue(name, record, now))  # type: ignore[misc]
            if self._look_back(queue, now):
                notes["polled"] = now
            self._miss(queue, now)
            self._well("asking Slurm")
        finally:
            claims = self._claim(now)
            if claims is not None:
                notes["claims"] = claims
            self._follow_output(now)
            self._link()
            self._keep(notes, now)

    # ── what Slurm says ──

    def _from_queue(self, name: str, record: SlurmJob, now: int) -> None:
        job = self._known(name)
        if job is not None and not job.ended and observing.used_again(job, record):
            self._end_before(job, now)
        first_asked = self._asked_since.get(name)
        guess = not self._accounting or (first_asked is not None and now - first_asked > ACCOUNTING_US)
        sighting = observing.from_queue(job, record, None, guess=False)
        if sighting is None:
            self._asked_since.setdefault(name, now)
            sighting = observing.from_queue(job, record, self._attempts(name), guess=guess)
            if sighting is None:
                return
        self._asked_since.pop(name, None)
        self._tell(name, job, sighting, now)

    def _look_back(self, queue: dict[str, list[SlurmJob]], now: int) -> bool:
        """Ask accounting what the queue has forgotten; whether all up to now is known."""
        if time.monotonic() < self._history_at or not self._accounting:
            return not self._accounting
        polled = self._memory.note("polled")
        self._settings = configured.load()
        self._memory.forget(now)
        self._history_at = time.monotonic() + HISTORY_S
        # What a requeued job writes is behind what it wrote before, or in its place.
        self._append = self._slurm.config().get("JobFileAppend") == "1"
        if polled is None:
            return True
        try:
            history = observing.by_name(self._slurm.history(polled - MARGIN_US))
        except StepwardError as error:
            if error.code == "slurm_no_accounting":
                self._accounting = False
                say("this Slurm has no accounting: what begins and ends while it is not watched is missed")
                return True
            self._ill("asking accounting", error.message)
            return False
        self._well("asking accounting")
        for name, rows in history.items():
            if name not in queue:
                self._one(name, lambda name=name, rows=rows: self._from_accounting(name, rows, now))  # type: ignore[misc]
        return True

    def _from_accounting(self, name: str, rows: list[SlurmJob], now: int) -> None:
        job = self._known(name)
        if job is None and len(rows) > 1:
            rows = self._attempts(name) or rows
        sighting = observing.from_accounting(job, rows)
        if sighting.launches:
            self._tell(name, job, sighting, now)

    def _miss(self, queue: dict[str, list[SlurmJob]], now: int) -> None:
        """Jobs that live by all that is known and that the queue no longer shows."""
        missing = [job for job in self._jobs.values() if not job.ended and job.name not in queue]
        for job in sorted(missing, key=lambda job: job.seen_at)[:ASKED_AT_ONCE]:
            rows = self._attempts(job.name) if self._accounting else []
            sighting = observing.from_accounting(job, rows)
            if sighting.launches and sighting.launches[-1][1].state.terminal:
                self._tell(job.name, job, sighting, now)
            elif now - job.seen_at > FORGOTTEN_US and job.launches:
                self._forgotten(job, now)

    def _end_before(self, job: Job, now: int) -> None:
        """Tell how a job ended whose id Slurm has used again."""
        rows = observing.own_rows(job, self._attempts(job.name))
        if rows:
            self._tell(job.name, job, observing.from_accounting(job, rows), now)
        if not job.ended:
            self._forgotten(job, now)

    def _forgotten(self, job: Job, now: int) -> None:
        last = job.last
        record = SlurmJob(
            id=job.name,
            number=0,
            state=State.LOST,
            slurm_state=telling.FORGOTTEN,
            submitted_at=last.submitted_at,
            started_at=last.started_at,
            nodes=last.nodes,
            ended_at=job.seen_at,
        )
        self._tell(job.name, job, observing.Sighting([(last.number, record)], False), now)

    def _attempts(self, name: str) -> list[SlurmJob]:
        """What accounting has of a job; [] where it has nothing or cannot be asked."""
        try:
            return observing.by_name(self._slurm.attempts(name)).get(name, [])
        except StepwardError as error:
            if error.code == "slurm_no_accounting":
                self._accounting = False
            return []

    def _failed_nodes(self, names: Sequence[str]) -> dict[str, str]:
        try:
            return {node.name: node.reason for node in self._slurm.nodes() if node.name in names and not node.usable}
        except StepwardError:
            return {}

    # ── what is told ──

    def _known(self, name: str) -> Job | None:
        return self._jobs.get(name) or self._memory.job(name)

    def _tell(self, name: str, job: Job | None, sighting: observing.Sighting, now: int) -> None:
        if job is None or sighting.again:
            project = self._file.project_of(sighting.launches[-1][1], self._settings)
            job = new_job(self._cluster, name, job.generation + 1 if job is not None else 1, project)
            claim = self._unclaimed.pop(name, None)
            if claim is not None:
                self._place(job, claim[0])
        last = sighting.launches[-1][0]
        for number, record in sighting.launches:
            launch = self._launch(job, number, record)
            said = telling.tell(job, launch, record, now, self._around, requeued=number < last)
            self._say(job, launch, said)
        job.comment = sighting.launches[-1][1].admin_comment
        self._jobs[name] = job
        job.seen_at = now

    def _launch(self, job: Job, number: int, record: SlurmJob) -> Launch:
        found = next((launch for launch in job.launches if launch.number == number), None)
        if found is None:
            found = Launch(number=number, writer=ulid())
            job.launches.append(found)
            job.launches.sort(key=lambda launch: launch.number)
        if self._file.output and str(number) not in job.outputs and (record.stdout or record.stderr):
            job.outputs[str(number)] = following.files_of(record)
        return found

    def _say(self, job: Job, launch: Launch, said: Sequence[tuple[str, Payload]]) -> None:
        if said:
            parts = [part(kind, payload) for kind, payload in said]
            self._told.append(Told(launch.writer, About(job.project, job.run, launch.attempt), parts))
            self._changed[job.name] = job

    # ── where it is told ──

    def _claim(self, now: int) -> int | None:
        """Take in what runs say of their jobs; the newest claim."""
        claims = self._beating.claims()
        for claim in claims:
            job = self._known(claim.job)
            if job is None:
                self._unclaimed[claim.job] = (claim, now)
                continue
            self._jobs[job.name] = job
            if claim.covered and not job.covered:
                job.covered = True
                self._say(job, job.last, [("events", Events([following.covered_event(job.last, now)]))])
            if self._file.move and claim.run != job.run:
                self._move(job, claim, now)
            self._changed[job.name] = job
        # A job may be heard of from inside before Slurm is asked; until it is, a restart asks for its claim again.
        self._unclaimed = {name: one for name, one in self._unclaimed.items() if now - one[1] < FORGOTTEN_US}
        return claims[-1].seq if claims and not self._unclaimed else None

    def _place(self, job: Job, claim: JobClaim) -> None:
        job.covered = claim.covered
        if self._file.move:
            job.project, job.run = claim.project, claim.run

    def _move(self, job: Job, claim: JobClaim, now: int) -> None:
        """Tell the whole story again where it belongs; the run that stood for the job is given up."""
        for launch in job.launches:
            # Of each launch: whatever of it comes last to the run that is given up says that it is.
            self._say(job, launch, [("events", Events([telling.moved(launch, claim.project, claim.run, now)]))])
            launch.writer = ulid()
        self._place(job, claim)
        for launch in job.launches:
            self._say(job, launch, telling.retell(job, launch, now, self._cluster))
        for files in job.outputs.values():
            for output in files:
                output.offset = output.base = 0
                output.begun = output.done = False

    # ── output and links ──

    def _follow_output(self, now: int) -> None:
        left = OUTPUT_BYTES
        if self._memory.behind or self._memory.waiting_bytes() > BACKLOG_BYTES:
            return
        for job in list(self._jobs.values()):
            for launch in job.launches:
                for output in job.outputs.get(str(launch.number), ()):
                    if left > 0 and not output.done:
                        left -= self._follow(job, launch, output, now)

    def _follow(self, job: Job, launch: Launch, output: Output, now: int) -> int:
        if job.covered:
            output.done = True
            self._changed[job.name] = job
            return 0
        if not following.due(job, launch, now) or not following.begin(job, launch, output, append=self._append):
            return 0
        news = following.follow(job, launch, output, now)
        if news.chunk is not None:
            self._say(job, launch, [("logs", Logs([news.chunk]))])
        if news.event is not None:
            self._say(job, launch, [("events", Events([news.event]))])
        if news.done:
            self._changed[job.name] = job
        return len(news.chunk.data) if news.chunk is not None else 0

    def _link(self) -> None:
        if self._file.link and self._settings.server is not None:
            for job in self._linking.turn(self._jobs.values(), self._settings.server):
                self._changed[job.name] = job

    # ── the end of a turn ──

    def _keep(self, notes: dict[str, int], now: int) -> None:
        changed, told = list(self._changed.values()), self._told
        self._changed, self._told = {}, []
        if changed or told or notes:
            self._memory.keep(changed, told, notes)
        if told:
            self._sender.wake()
        if self._sender.problem:
            self._ill("sending what was seen", f"{self._sender.problem}; it waits")
        else:
            self._well("sending what was seen")
        for job in list(self._jobs.values()) if not self._memory.behind else ():
            if _over(job) and job.name not in self._asked_since:
                self._settled[job.name] = job.last.submitted_at
                del self._jobs[job.name]

    def _one(self, name: str, work: Callable[[], None]) -> None:
        """What one job makes fail is no reason to miss the others."""
        try:
            work()
        except StepwardError:
            raise
        except Exception as error:
            # What was half said is said again from what was kept, with the same ids.
            self._jobs.pop(name, None)
            self._changed.pop(name, None)
            self._ill(f"job {name}", f"{type(error).__name__}: {error}")

    def _guarded(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except StepwardError as error:
            self._ill("asking Slurm", error.message)
        except Exception as error:  # the loop must go on: whoever watches nothing misses everything
            self._ill(what, f"{type(error).__name__}: {error}")

    def _ill(self, what: str, why: str) -> None:
        if self._problems.get(what) != why and len(self._problems) < 1000:
            self._problems[what] = why
            say(f"{what} fails: {why}")

    def _well(self, what: str) -> None:
        if self._problems.pop(what, None) is not None:
            say(f"{what} works again")


def _over(job: Job) -> bool:
    """Whether nothing more is expected of a job; what the queue still shows of it is looked up."""
    return job.ended and all(output.done for files in job.outputs.values() for output in files)
