"""The story that ``stepward demo`` tells: a server, a real run, a real fault, the restart, and who was right about it.

Everything is started as a user would start it (``stepward up``, ``stepward run``) and watched through the API alone. Only
at the end the records of ``faults`` are opened and laid beside what the server knows; ``truth.json`` keeps both. Every
wait has a limit and says what it waited for.
"""

import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import NamedTuple, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from stepward.client.api import Client
from stepward.demo import account, faults
from stepward.demo.account import Evidence, Fact
from stepward.demo.company import Company
from stepward.demo.faults import Kind, Plan, Record
from stepward.demo.stage import Stage
from stepward.errors import NotFound, StepwardError, Unavailable
from stepward.model.identity import random_run_id
from stepward.model.points import StepRow
from stepward.model.resources import Run, RunEvent
from stepward.settings import Settings

T = TypeVar("T")
RANKS = 2
PORT = 7070
SERVER_S, CHART_S, STORY_S, ACCOUNT_S, HUNG_S = 45.0, 60.0, 240.0, 30.0, 120.0
"""How long the story waits: for the server, the first chart, the run's end, its last words, and a hang to be confirmed."""
WATCHDOG_S = 2.0
"""How long a rank that is known to hang is left before the watchdog kills it."""


class Options(NamedTuple):
    """What the command line says.

    Attributes:
        seed: picks fault, rank and step; None for a random one.
        once: end after the story instead of staying until Ctrl-C.
        port: of the server; None for 7070, or a free one where that is taken.
        data: folder to keep everything in; None for a temporary one that is removed at the end.
        steps: training steps.
    """

    seed: int | None = None
    once: bool = False
    port: int | None = None
    data: str | None = None
    steps: int = 600


def tell(options: Options, console: Console | None = None) -> int:
    """Tell the story; 0 when everything that the server knew was true, else 1.

    Raises:
        Unavailable: ``demo_waited``: something did not happen in time.
        CommandFailed: ``demo_process_ended``: server or run ended before its time.
    """
    with _ended_in_order(), ExitStack() as undo:
        story = Story(options, console or Console(), undo)
        facts = story.live()
        story.compare(facts)
        story.waterfall()
        story.farewell()
        if not options.once:
            story.stay()
        return int(any(fact.differs for fact in facts))


class Story:
    """The folder, the processes and the clock of one telling; ``undo`` ends and removes them."""

    def __init__(self, options: Options, console: Console, undo: ExitStack) -> None:
        self._console, self._undo = console, undo
        self._began = time.monotonic()
        self._steps, self._save_every = options.steps, max(10, options.steps // 10)
        self._seed = random.randrange(1000) if options.seed is None else options.seed
        self._folder = _folder(options.data, undo)
        self._plan_path = f"{self._folder}/plan.json"
        kind = self._plan({}).kind
        self._stage = Stage(self._folder, kind)
        undo.callback(self._stage.close)
        self._planned = self._plan({kind: self._stage.by})
        with open(self._plan_path, "wb") as file:
            file.write(msgspec.json.encode(self._planned))
        self._port = options.port or _free_port()
        self._url = f"http://127.0.0.1:{self._port}"
        self._env = {k: v for k, v in os.environ.items() if not k.startswith("STEPWARD_")}
        self._run_id = random_run_id()

    def live(self) -> list[Fact]:
        """Start everything, watch it to its end, and say what the server made of it."""
        self._say(
            f"[bold]stepward demo[/] --seed {self._seed}: in a while something will go wrong, and I won't say what"
        )
        client = self._start_server()
        run = self._start_run()
        self._until(CHART_S, "the first points of the loss", lambda: self._has_chart(client), run)
        self._say(f"first chart: {self._url}/runs/{self._run_id}")
        self._watch(client, run)
        self._until(ACCOUNT_S, "the server to know the end", lambda: self._ended(client))
        record = faults.read_record(self._plan_path, RANKS)
        if record is None:
            raise Unavailable(
                "the run ended before its fault came",
                code="demo_waited",
                hint=f"see {run.output} (removed at the end without --data)",
            )
        evidence = self._evidence(client, record)
        facts = account.facts(evidence, self._planned, record)
        self._goodput = client.goodput(self._run_id)
        self._write_truth(record, facts, account.lost_rows(evidence.steps, record))
        return facts

    def compare(self, facts: list[Fact]) -> None:
        """Print what the server knew beside the truth."""
        what = _WORDS[self._planned.kind].format(rank=self._planned.rank)
        self._say(f"what really happened: {what}")
        table = Table("", "stepward says", "the truth", "", box=None, padding=(0, 2), header_style="bold")
        for fact in facts:
            verdict = "[red]differs[/]" if fact.differs else "[green]✓[/]" if fact.truth else ""
            table.add_row(fact.what, _plain(fact.told), _plain(fact.truth), verdict)
        self._console.print(table)

    def waterfall(self) -> None:
        """Print where the run's time went."""
        from stepward.cli.waterfall import print_waterfall

        self._say("where the time went (stepward goodput show):")
        print_waterfall(self._goodput.report)

    def farewell(self) -> None:
        """Print how to go on with the user's own job and log."""
        from stepward.cli.app import COMMANDS

        self._console.print("\nYour own job, and what went wrong in your own log:", style="bold")
        self._console.print("  stepward run -- python train.py")
        if "diagnose" in COMMANDS:
            self._console.print("  stepward diagnose train.log")

    def stay(self) -> None:
        """Wait for Ctrl-C."""
        self._say(f"the server stays at {self._url} until Ctrl-C")
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)

    def _start_server(self) -> Client:
        data = f"{self._folder}/server"
        arguments = ["up", "--data", data, "--host", "127.0.0.1", "--port", str(self._port)]
        server = Company(arguments, output=f"{self._folder}/server.log", env=self._env)
        self._undo.callback(server.end, grace_s=12)

        def ready() -> Client | None:
            with suppress(OSError, StepwardError):
                with open(f"{data}/token") as file:
                    client = Client.of(Settings(server=self._url, token=file.read().strip()))
                client.session()
                return client
            return None

        client = self._until(SERVER_S, "the server", ready, server)
        self._say(f"server is up; look while it runs: [bold]{client.login_link().url}[/]")
        return client

    def _start_run(self) -> Company:
        trainer = ["python", "-m", "stepward.demo.trainer", "--checkpoints", self._stage.checkpoints]
        trainer += ["--steps", str(self._steps), "--save-every", str(self._save_every)]
        wrapper = [
            "run",
            "--name",
            "demo",
            "--ranks",
            str(RANKS),
            "--restarts",
            "1",
            "--run",
            self._run_id,
            "--",
            *trainer,
        ]
        with open(f"{self._folder}/server/token") as file:
            token = file.read().strip()
        env = self._env | {
            "PATH": f"{_scripts()}{os.pathsep}{self._env.get('PATH', os.defpath)}",
            "STEPWARD_SERVER": self._url,
            "STEPWARD_TOKEN": token,
            "STEPWARD_DIR": f"{self._folder}/spool",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            faults.PLAN_VARIABLE: self._plan_path,
        }
        run = Company(wrapper, output=f"{self._folder}/run.log", env=env, before=self._stage.before)
        self._undo.callback(run.end, grace_s=20)
        self._say(f"$ stepward run --ranks {RANKS} --restarts 1 --name demo -- python -m stepward.demo.trainer")
        if self._stage.words:
            self._say(f"  ({self._stage.words})")
        return run

    def _watch(self, client: Client, run: Company) -> None:
        """Say every change of state until the wrapper ends; be the watchdog of a rank that hangs."""
        seen, hung_at = "", 0.0
        deadline = time.monotonic() + STORY_S
        while run.exit_code is None:
            if time.monotonic() > deadline:
                raise Unavailable(f"the run did not end within {STORY_S:.0f} s", code="demo_waited", hint=run.tail())
            now = client.run(self._run_id)
            words = _state_words(now)
            if words != seen:
                self._say(words)
                seen = words
            if self._planned.kind is Kind.STOPPED:
                hung_at = self._be_watchdog(client, now, hung_at)
            time.sleep(0.25)
        if run.exit_code:
            run.must_live()

    def _be_watchdog(self, client: Client, now: Run, hung_at: float) -> float:
        """Kill the stopped rank once the server is sure that it hangs; when it was first so."""
        strike = faults.read_strike(self._plan_path)
        if strike is None or len(now.attempts) > 1:
            return hung_at
        seen = hung_at or client.events(self._run_id, type="hang", certainty="confirmed")
        hung_at = hung_at or (time.monotonic() if seen else 0.0)
        if (hung_at and time.monotonic() > hung_at + WATCHDOG_S) or time.time() > strike.at + HUNG_S:
            self._say(f"a watchdog kills the process that does not move (pid {strike.pid})")
            with suppress(ProcessLookupError):
                os.kill(strike.pid, signal.SIGKILL)
            return float("inf")
        return hung_at

    def _has_chart(self, client: Client) -> bool:
        with suppress(NotFound):
            chart = client.points(self._run_id, "loss")
            return any(line.count for line in chart.lines)
        return False

    def _ended(self, client: Client) -> Run | None:
        run = client.run(self._run_id)
        steps = run.attempts[-1].last_step if run.attempts else None
        if not run.state.terminal or steps != self._steps - 1:
            return None
        # Detectors speak a little later than the run ends.
        lasting = [event for event in self._detected(client) if event.ended_at is None]
        return None if lasting else run

    def _detected(self, client: Client) -> list[RunEvent]:
        return client.events(self._run_id, by="detectors", certainty="confirmed")

    def _evidence(self, client: Client, record: Record) -> Evidence:
        near = record.strike.step
        return Evidence(
            run=client.run(self._run_id),
            sources=client.sources(self._run_id),
            loss=client.points(self._run_id, "loss", by="rank", start=near - 50, end=near + 50, buckets=2000),
            steps=client.steps(self._run_id, last=5000),
            events=self._detected(client),
            diagnoses=client.diagnoses(self._run_id),
        )

    def _until(self, limit_s: float, what: str, found: Callable[[], T | None], company: Company | None = None) -> T:
        deadline = time.monotonic() + limit_s
        while True:
            if company is not None:
                company.must_live()
            answer = found()
            if answer:
                return answer
            if time.monotonic() > deadline:
                hint = company.tail() if company else None
                raise Unavailable(f"waited {limit_s:.0f} s in vain for {what}", code="demo_waited", hint=hint)
            time.sleep(0.2)

    def _plan(self, by: dict[Kind, str]) -> Plan:
        return faults.plan(self._seed, steps=self._steps, save_every=self._save_every, ranks=RANKS, by=by)

    def _write_truth(self, record: Record, facts: list[Fact], lost: list[StepRow]) -> None:
        content = {"run": self._run_id, "seed": self._seed, "plan": self._planned, "record": record}
        lines = [{**fact._asdict(), "differs": fact.differs} for fact in facts]
        with open(f"{self._folder}/truth.json", "wb") as file:
            file.write(
                msgspec.json.format(
                    msgspec.json.encode({**content, "facts": lines, "goodput": self._goodput, "lost_rows": lost})
                )
            )

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/]  {text}", highlight=False, soft_wrap=True)


_WORDS = {
    Kind.KILLED: "rank {rank} was killed with SIGKILL",
    Kind.LOADER: "the data loader of rank {rank} got slow, and then gave nothing more",
    Kind.NAN: "one weight of rank {rank} became NaN",
    Kind.STOPPED: "rank {rank} was stopped with SIGSTOP and killed later",
    Kind.DISK: "somebody filled the disk that rank {rank} saves to",
    Kind.MEMORY: "rank {rank} leaked memory up to its limit",
}


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """A SIGTERM unwinds the story instead of orphaning its processes."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _state_words(run: Run) -> str:
    if not run.attempts:
        return f"run is [bold]{run.state.value}[/]"
    newest = run.attempts[-1]
    reason = f": {_plain(run.state_reason)}" if run.state_reason else ""
    return f"attempt {newest.number} is [bold]{newest.state.value}[/], the run {run.state.value}{reason}"


def _plain(text: str) -> str:
    """Text of a log line, kept from being read as markup or control characters."""
    return "".join(c if c.isprintable() else "�" for c in text).replace("[", r"\[")


def _folder(data: str | None, undo: ExitStack) -> str:
    if data is not None:
        os.makedirs(data, exist_ok=True)
        return tempfile.mkdtemp(prefix="demo-", dir=os.path.abspath(data))
    folder = tempfile.mkdtemp(prefix="stepward-demo-")
    undo.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _free_port() -> int:
    """7070, or any free port where that is taken."""
    for port in (PORT, 0):
        with suppress(OSError), closing(socket.create_server(("127.0.0.1", port))) as probe:
            return int(probe.getsockname()[1])
    raise Unavailable("no free port on 127.0.0.1", code="no_free_port")


def _scripts() -> str:
    """The folder of this interpreter, so that ``python`` in the run's command is this one."""
    return os.path.dirname(sys.executable)
