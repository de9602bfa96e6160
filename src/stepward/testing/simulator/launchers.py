"""What the launcher says of the first failure that it sees, in the words of one of several launchers."""

from collections.abc import Iterator

from stepward.testing.simulator.noise import stream
from stepward.testing.simulator.plan import Plan
from stepward.testing.simulator.voice import Text, Voice

_WORDS = {
    -6: "Aborted (core dumped)",
    -7: "Bus error (core dumped)",
    -9: "Killed",
    -11: "Segmentation fault (core dumped)",
    -15: "Terminated",
}


def report(plan: Plan, voice: Voice, instant: float, rank: int, code: int) -> Iterator[Text]:
    """Its lines; ``code`` is the exit code of the rank, a signal as its negative number."""
    form = int(stream(plan.seed, "launcher").integers(3))
    if form == 0:
        return _torchrun(plan, voice, instant, rank, code)
    return _srun(plan, voice, instant, rank, code) if form == 1 else _deepspeed(plan, voice, instant, rank, code)


def _torchrun(plan: Plan, voice: Voice, instant: float, rank: int, code: int) -> Iterator[Text]:
    for line in (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : {voice.clock(instant):%Y-%m-%d_%H:%M:%S}",
        f"  host      : {plan.layout.node_of(rank)}",
        f"  rank      : {rank} (local_rank: {rank % plan.layout.per_node})",
        f"  exitcode  : {code} (pid: {voice.pid(rank)})",
    ):
        yield voice.launcher(instant, line)


def _srun(plan: Plan, voice: Voice, instant: float, rank: int, code: int) -> Iterator[Text]:
    node, first = plan.layout.node_of(rank), plan.layout.node(0)
    ended = _WORDS.get(code, f"Exited with exit code {abs(code)}")
    yield voice.launcher(instant, f"srun: error: {node}: task {rank}: {ended}")
    yield voice.launcher(instant + 0.1, f"srun: Terminating StepId={plan.job}.0")
    stamp = f"{voice.clock(instant):%Y-%m-%dT%H:%M:%S}"
    yield voice.launcher(
        instant + 0.2,
        f"slurmstepd: error: *** STEP {plan.job}.0 ON {first} CANCELLED AT {stamp} DUE TO TASK FAILURE ***",
    )
    for number in range(plan.layout.nodes):
        others = [other for other in plan.layout.ranks_on(number) if other != rank]
        if others:
            named = f"tasks {others[0]}-{others[-1]}" if len(others) > 1 else f"task {others[0]}"
            yield voice.launcher(instant + 1.0, f"srun: error: {plan.layout.node(number)}: {named}: Terminated")


def _deepspeed(plan: Plan, voice: Voice, instant: float, rank: int, code: int) -> Iterator[Text]:
    node, clock = plan.layout.node_of(rank), voice.clock(instant)
    head = f"{node}: [{clock:%Y-%m-%d %H:%M:%S},{clock.microsecond // 1000:03d}] "
    for other in plan.layout.ranks_on(rank // plan.layout.per_node):
        yield voice.launcher(
            instant, f"{head}[INFO] [launch.py:319:sigkill_handler] Killing subprocess {voice.pid(other)}"
        )
    yield voice.launcher(
        instant + 0.1,
        f"{head}[ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', "
        f"'--local_rank={rank % plan.layout.per_node}'] exits with return code = {code}",
    )
