"""What is to be launched, under which identity: decided once, before anything starts.

Pure but for the settings file and a look at whether a wrapper lives: options, environment and process facts go in.
Settings that cannot be read are said and replaced by defaults, since a command starts whatever they are.
"""

import socket
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stepward import settings as configured
from stepward.errors import StepwardError
from stepward.launch import nesting
from stepward.launch.nesting import Above, Wrapper
from stepward.launch.notes import say
from stepward.model.identity import is_project_name, ulid
from stepward.model.words import DEFAULT_PROJECT
from stepward.orchestrators.identity import identify, launch_attempt
from stepward.orchestrators.local.identity import rank as launched_rank
from stepward.orchestrators.protocol import ProcFacts
from stepward.settings import Settings
from stepward.spool import roots

GRACE_S = 30.0
"""Seconds between SIGTERM and SIGKILL: as Kubernetes' terminationGracePeriodSeconds and Slurm's default KillWait."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for.

    Attributes:
        command: the command and its arguments.
        run: run id or key.
        ranks: number of local ranks; None runs the command once and leaves its environment's rank alone.
        restarts: attempts after the first.
        grace_s: seconds that ranks get between SIGTERM and SIGKILL when another rank has ended badly.
    """

    command: list[str]
    name: str | None = None
    project: str | None = None
    run: str | None = None
    ranks: int | None = None
    restarts: int = 0
    grace_s: float = GRACE_S


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A launch with its identity.

    Attributes:
        key: run key, where anything names the run.
        wrapper: this process, as those below know it.
        above: where the wrapper of the same run lives that started this one; its attempt is then ours.
        attempt: attempt key without this launcher's own count.
        rank: rank of the one process (of ``ranks`` = None); None where it may be a launcher of ranks itself.
        task: its rank if it turns out to be none: the scheduler's task, else 0.
        world: number of ranks of the attempt, where it is known.
    """

    options: Options
    settings: Settings
    project: str
    run: str
    key: str | None
    wrapper: Wrapper
    above: Above
    attempt: str
    rank: int | None
    task: int
    world: int | None
    node: str
    job: dict[str, Any] | None
    environ: dict[str, str]

    @property
    def count(self) -> int:
        """Processes to start on this node."""
        return self.options.ranks or 1

    def rank_of(self, number: int) -> int | None:
        """Rank of the ``number``-th process; None where it may be a launcher of ranks itself."""
        return self.rank if self.options.ranks is None else number

    def presumed_rank(self, number: int) -> int:
        """Rank to report the ``number``-th process under while no ranks are seen below it."""
        return self.task if self.options.ranks is None else number

    def attempt_key(self, restart: int) -> str:
        """Key of the attempt after ``restart`` restarts by this launcher."""
        if self.above is Above.NOWHERE:
            return f"{self.attempt}.{restart}"
        return f"{self.attempt}/run.{restart}" if restart else self.attempt

    @property
    def adds_nothing(self) -> bool:
        """Whether the wrapper above keeps all that this one would."""
        return self.above is Above.HERE and self.options.ranks is None and not self.options.restarts

    def keeps_output(self, restart: int) -> bool:
        """Whether output and readings of an attempt are ours to keep, not those of the wrapper above."""
        return self.above is not Above.HERE or restart > 0

    def child_environ(self, number: int, restart: int, *, port: int) -> dict[str, str]:
        """Environment of the ``number``-th process.

        Args:
            port: free port for ``MASTER_PORT``, the same for all ranks of an attempt.
        """
        environ = self.environ | {
            "STEPWARD_RUN": self.run,
            "STEPWARD_PROJECT": self.project,
            "STEPWARD_ATTEMPT": self.attempt_key(restart),
            nesting.VARIABLE: str(self.wrapper),
        }
        if self.options.ranks is not None:
            count = str(self.count)
            environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
            environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return environ


def make_plan(options: Options, environ: Mapping[str, str], facts: ProcFacts) -> Plan:
    """The plan for this process; never raises for settings, the run or its names."""
    settings = _settings(options.project, environ)
    project = settings.project
    # An option is meant for this run; the variable may be left over from anything.
    named = {name: value for name, value in environ.items() if not (options.run and name == "STEPWARD_RUN")}
    identity = identify(named, facts, project=project, run=options.run)
    above = nesting.above(environ, facts, identity.run)
    if above is not Above.NOWHERE:
        project = environ.get("STEPWARD_PROJECT") or project
        if project != settings.project:
            say(f"the run is that of the `stepward run` around this one and stays in project {project}")
            settings = _settings(project, environ)
    return Plan(
        options=options,
        settings=settings,
        project=project,
        run=identity.run,
        key=identity.key,
        wrapper=Wrapper(facts.boot, facts.pid, facts.start, identity.run),
        above=above,
        attempt=_attempt(environ, facts, options.command, above),
        rank=launched_rank(environ),
        task=identity.rank,
        world=options.ranks or identity.world,
        node=identity.node,
        job=identity.job,
        environ=dict(environ),
    )


def _settings(project: str | None, environ: Mapping[str, str]) -> Settings:
    try:
        return configured.load(project=project)
    except StepwardError as error:
        say(f"{error} [{error.code}]; the command starts without a server")
        spool = environ.get("STEPWARD_DIR") or roots.default_root()
        named = project or environ.get("STEPWARD_PROJECT") or DEFAULT_PROJECT
        return Settings(project=named if is_project_name(named) else DEFAULT_PROJECT, spool=spool)


def spans_hosts(command: Sequence[str]) -> bool:
    """Whether a command line of torchrun asks for more than one host (``--nnodes=2``, ``--nnodes 1:4``)."""
    for number, argument in enumerate(command):
        name, _, value = argument.partition("=")
        if name == "--nnodes":
            return (value or "".join(command[number + 1 : number + 2])) not in {"", "1", "1:1"}
    return False


def _attempt(environ: Mapping[str, str], facts: ProcFacts, command: Sequence[str], above: Above) -> str:
    """Outer launcher's attempt, then this launch, unless a wrapper above has said it.

    Wrappers that one launcher started on several nodes must agree, so their part is the same word. Below a batch script
    there is one wrapper at a time, and each is a launch of its own.
    """
    outer = launch_attempt(environ, facts)
    if outer is None:
        if spans_hosts(command):
            say(
                "no scheduler names this launch: export one STEPWARD_ATTEMPT on all hosts, or each counts as an attempt"
            )
        return ulid()
    if above is not Above.NOWHERE:
        return outer
    in_batch_script = "SLURM_JOB_ID" in environ and "/step." not in outer and launched_rank(environ) is None
    return f"{outer}/{ulid() if in_batch_script else 'run'}"


def free_port() -> int:
    """A port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
