"""Cascade rules: which clues are causes, which are the marks that a cause left, and which are history.

Each rule is one function over a reading; it dismisses clues (with a reason, which people see as ``ruled_out``) or adds
what follows from several of them together. The table ``EXPLAINS`` says which label's failure looks like which other's.
"""

import re
from collections.abc import Iterable

from stepward.detect.detectors.attempts import WAITS_S
from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.launcher import Activity
from stepward.diagnose.metrics import low_duty
from stepward.diagnose.peers import PREFIX
from stepward.diagnose.reading import Reading
from stepward.diagnose.tables import table

EXPLAINS: dict[str, frozenset[str]] = {
    cause: frozenset(symptoms) | ({"user_cancelled"} - {cause}) for cause, symptoms in table("explains").items()
}
"""Whose failure looks like which other's."""
PERSISTENT = frozenset(
    {
        "thermal_power",
        "host_contention",
        "input_bound",
        "workload_imbalance",
        "recompilation",
        "checkpoint_stall",
        "numerics_nan",
    }
)
"""What hurts a run while it goes on: progress behind a clue does not acquit it."""
LASTING = frozenset(
    {
        "storage_full",
        "gpu_memory_ecc",
        "gpu_off_bus",
        "gpu_driver_firmware",
        "nvlink_fabric",
        "storage_io",
        "checkpoint_corrupt",
    }
)
"""Damage that an earlier attempt leaves to the next one."""
_PID = re.compile(r"(?:\bpid[=:] ?|Killed process )(\d{1,9})\b")
LASTED = {"data_share", "loss_nan", "grad_nan", "loss_diverges", "save_time", "waited"}
"""Rules that judge many lines of a run together: what they found went on, however the run ended."""
RECOVERED_LINES = 2


def settle(reading: Reading) -> None:
    """Apply every rule, in their order."""
    for rule in (
        _whose_process, _series, _same_line, _scheduler_history, _ended_well, _recovered, _came_back, _teardown,
        _earlier_attempts, _compile_storm, _first_contact, _wrong_network, _busy_rank, _idle_rank, _lost_device,
        _silent_ranks, _heartbeats,
        _unconfirmed_kill, _denied_by_metrics, _slow_is_not_dead,
    ):  # fmt: skip
        rule(reading)


def ended_well(reading: Reading) -> bool:
    """Whether the run is known to have come to a normal end."""
    if reading.scheduler.end is not None:
        return reading.scheduler.end == "completed"
    ends = reading.progress.ends
    return bool(ends) and not any(
        one.role in (Role.ROOT, Role.EITHER) and one.kind is Kind.LOG and one.label not in PERSISTENT
        and one.label not in {"user_cancelled", "preemption"} and one.line > ends.get(one.source, 10**12)
        for one in reading.clues
    )  # fmt: skip


def ended_badly(reading: Reading) -> bool:
    """Whether something says that the run failed, be the cause known or not."""
    if ended_well(reading):
        return False
    if reading.scheduler.end in {"failed", "taken"}:
        return True
    return any(
        one.kind in (Kind.LOG, Kind.EXIT) and one.label not in PERSISTENT and one.role is not Role.CONTEXT
        and one.role is not Role.CONFIRM and reading.progress.after(one.source, one.last_line, None) == 0
        for one in reading.clues
    ) or any(reading.progress.after(one.line.source, one.line.number, None) == 0 for one in reading.launcher.exits)  # fmt: skip


def dismiss(clues: Iterable[Clue], why: str) -> None:
    """Say of clues why they do not count."""
    for one in clues:
        one.dismissed = one.dismissed or why


def _live(reading: Reading, *labels: str) -> list[Clue]:
    return [one for one in reading.clues if one.dismissed is None and (not labels or one.label in labels)]


def _whose_process(reading: Reading) -> None:
    """Kernel and launcher name processes by number; whoever knows which rank that is knows whom they speak of."""
    for one in reading.clues:
        if one.kind in (Kind.KERNEL, Kind.LOG) and one.rank is None and (found := _PID.search(one.text)):
            one.rank = reading.launcher.rank_of(one.node, int(found[1]))


def _series(reading: Reading) -> None:
    """A loss that is not finite counts where it stays so: no finite one comes after it."""
    for one in _live(reading, "numerics_nan"):
        if one.rule in {"loss_nan", "grad_nan"} and reading.progress.finite.get(one.source, -1) > one.last_line:
            dismiss([one], "the values became finite again")


def _same_line(reading: Reading) -> None:
    """Of several readings of one line the most specific one counts."""
    best: dict[tuple[str, int], Clue] = {}
    for one in _live(reading):
        if one.label and one.kind is not Kind.METRICS:
            key = (one.source, one.line)
            if key not in best or one.strength > best[key].strength:
                best[key] = one
    for one in _live(reading):
        top = best.get((one.source, one.line))
        if (
            top is not None
            and one.label not in (None, top.label)
            and one.kind is not Kind.METRICS
            and one.role is not Role.CONTEXT
        ):
            dismiss([one], f"the line says {top.label} more exactly")


def _scheduler_history(reading: Reading) -> None:
    """Warnings before a job ran are history once it ran; a wait that took more of its time than its steps did is worth a word."""
    if reading.scheduler.end in {"running", "completed"} or reading.progress.rows:
        early = [
            one
            for one in _live(reading, "unschedulable")
            if one.kind is Kind.SCHEDULER or one.rule == "failed_scheduling"
        ]
        if reading.scheduler.end == "pending":
            return
        span = reading.progress.span_s()
        waited = reading.scheduler.elapsed_s - span if span is not None else 0.0
        if early and ended_well(reading) and waited >= max(WAITS_S, span or 0.0):
            early[0].role, early[0].strength, early[0].rule = Role.EITHER, early[0].strength + 0.6, "waited"
            early[0].says = f"of {reading.scheduler.elapsed_s / 60:.0f} min the job waited {waited / 60:.0f}"
        dismiss((one for one in early if one.rule != "waited"), "the job ran after it")


def _ended_well(reading: Reading) -> None:
    """Nothing that a run survived to its normal end ended it."""
    if not ended_well(reading):
        return
    measured = {one.label for one in _live(reading) if one.kind is Kind.METRICS and one.role is Role.ROOT}
    for one in _live(reading):
        lasting = one.label in PERSISTENT and (one.kind is Kind.METRICS or one.label in measured)
        if not (lasting or one.rule in LASTED or one.rule.startswith(PREFIX)):
            dismiss([one], "the run came to a normal end")


def _recovered(reading: Reading) -> None:
    """An error behind which the same rank makes progress did not end the run."""
    slowed = reading.progress.slowed() is not None
    bad = ended_badly(reading)
    for one in _live(reading):
        if one.kind not in (Kind.LOG, Kind.KERNEL) or one.label in PERSISTENT:
            continue
        if slowed and one.label in {"network_link", "storage_io", "nvlink_fabric", "gpu_memory_ecc"}:
            continue
        after = reading.progress.after(one.source, one.last_line, one.rank if bad else None)
        if after >= RECOVERED_LINES + (1 if bad else 0):
            dismiss([one], "the run made progress after it")


def _came_back(reading: Reading) -> None:
    """A file server that answers again, with steps no slower than before, is history."""
    if ended_badly(reading) or reading.progress.slowed() or reading.metrics.flat:
        return
    back = [one for one in reading.clues if one.rule == "nfs_ok"]
    for one in _live(reading, "storage_io"):
        if any(
            one.source == other.source and one.node == other.node and other.last_line > one.last_line for other in back
        ):
            dismiss([one], "the file server came back")


def _teardown(reading: Reading) -> None:
    """What happens to the other processes after the first failure is no cause: signals, cancelled steps, interrupts."""
    first: dict[str, int] = {}
    for one in _live(reading):
        weighty = one.label not in {"user_cancelled", "preemption", None} and one.role in (Role.ROOT, Role.EITHER)
        if weighty and one.kind is Kind.LOG:
            first[one.source] = min(one.line, first.get(one.source, one.line))
    failed = reading.scheduler.end == "failed"
    for one in _live(reading, "user_cancelled", "preemption"):
        late = one.line > first.get(one.source, 10**12)
        if one.rule in {"slurm_cancelled", "interrupt", "agent_sigterm"} and (late or failed):
            dismiss([one], "it came after the first failure")


def _earlier_attempts(reading: Reading) -> None:
    """The last attempt's causes are the diagnosis; damage that lasts reaches it from earlier ones."""
    last = reading.last_episode
    if any(one.anchors and one.episode == last and one.kind is Kind.LOG for one in reading.clues):
        dismiss(
            (one for one in _live(reading) if one.episode < last and one.kind is Kind.LOG and one.label not in LASTING),
            "it belongs to an earlier attempt",
        )


def _compile_storm(reading: Reading) -> None:
    """A function that is compiled again and again between steps: a storm from the third time on."""
    for name, lines in reading.compiled.items():
        begun = reading.progress.first.get(lines[0].source)
        late = [line for line in lines if begun is not None and line.number > begun]
        if len(late) >= 2 or (begun is None and len(lines) > 5):
            last = lines[-1]
            reading.clues.append(
                clue("compile_storm", "recompilation", Kind.LOG, last,
                     f"{name} was compiled {len(lines)} times", more=0.8)
            )  # fmt: skip


def _first_contact(reading: Reading) -> None:
    """A peer that never answered is set wrong; one that answered before is broken."""
    if reading.progress.rows:
        return
    # A link event or the fabric's own words would say that the link is to blame.
    if any(
        one.role is Role.ROOT for one in _live(reading, "network_link", "nvlink_fabric", "gpu_off_bus", "node_failure")
    ):
        return
    late = any(watch.sequence > 1000 for watch in reading.launcher.watches)
    for one in _live(reading, "network_link"):
        if one.rule in {"ib_retry", "unreachable"} and not late:
            one.label, one.says = "network_config", "the first contact with a peer failed"


def _wrong_network(reading: Reading) -> None:
    """Slow collectives over TCP where no RDMA device was found are a setting, not a link."""
    if any(one.rule == "no_ib" for one in reading.clues):
        for one in _live(reading, "network_link"):
            if one.rule == "metric_net_rate":
                one.label, one.says = "network_config", "collectives are slow, and run over TCP"


def _busy_rank(reading: Reading) -> None:
    """A collective that times out while one rank announced long work waits for that work, not for a broken rank."""
    launcher = reading.launcher
    waits = [
        one
        for one in _live(reading)
        if one.rule in {"watchdog", "store", "barrier", "remote", "gloo", "heartbeat_stuck"}
    ]
    if not waits:
        return
    reporters = launcher.reporters
    candidates = [(rank, one) for rank, one in launcher.busy.items() if rank is None or rank not in reporters]
    for rank, activity in candidates:
        if reading.progress.after(activity.line.source, activity.line.number, None) > 0:
            continue
        if any(_broke(one, rank, activity) for one in reading.clues):
            continue
        reading.clues.append(_work(rank, activity, ended=_came_to_an_end(activity, waits, reading)))


def _came_to_an_end(activity: Activity, waits: list[Clue], reading: Reading) -> bool:
    """Whether work of that kind is told to have ended well after the others had given up: it was legitimate."""
    done = reading.launcher.finished.get(activity.kind)
    return done is not None and any(one.source == done.line.source and one.line < done.line.number for one in waits)


def _broke(one: Clue, rank: int | None, activity: Activity) -> bool:
    """Whether the rank that was at long work says after it what broke: then nobody waited for the work."""
    later = one.source == activity.line.source and one.line > activity.line.number
    return later and rank is not None and one.rank == rank and one.role is Role.ROOT and one.dismissed is None


def _idle_rank(reading: Reading) -> None:
    """A rank that does not report the time-out of its peers, on a device that idles: it never got there."""
    silent = set(reading.launcher.silent())
    if not silent:
        return
    for one in [*reading.statements, *reading.metrics.idle_at_end()]:
        if one.metric == "duty" and not one.tracked and one.rank in silent and low_duty(one):
            says = f"rank {one.rank} does nothing while the others wait for it"
            reading.clues.append(
                clue("idle_rank", "hang_in_user_code", Kind.METRICS, one.line, says, role=Role.EITHER, more=0.9,
                     text=one.text, rank=one.rank, node=one.node)
            )  # fmt: skip


def _lost_device(reading: Reading) -> None:
    """The silent rank's device was not read to the end, and its last readings know nothing of the wait: it was gone."""
    silent = set(reading.launcher.silent())
    for one in reading.metrics.unread_at_end() if silent else ():
        if one.rank in silent:
            says = f"readings of the device of rank {one.rank} stop, and the others wait for that rank"
            made = clue("device_unread", "gpu_off_bus", Kind.METRICS, one.line, says, role=Role.EITHER, more=0.9,
                        text=one.text, rank=one.rank, node=one.node)  # fmt: skip
            made.device = one.device
            reading.clues.append(made)


def _work(rank: int | None, activity: Activity, *, ended: bool) -> Clue:
    label = "checkpoint_stall" if activity.kind == "save" else "timeout_budget"
    does = {"save": "was saving", "compile": "was compiling", "work": "was at long work"}[activity.kind]
    line = activity.line
    who = "a process" if rank is None else f"rank {rank}"
    role = Role.ROOT if rank is not None or ended else Role.EITHER
    return clue(f"busy_{activity.kind}", label, Kind.LOG, line, f"{who} {does} while the others waited",
                role=role, more=0.5 if rank is None else 0.3, rank=rank)  # fmt: skip


def _silent_ranks(reading: Reading) -> None:
    """Ranks that say nothing while the others' collectives time out may be stuck anywhere: weak, but theirs to look at.

    One whose process lives is likely stuck in its own code, and more so where its node's kernel has nothing to say: whoever
    waits in a collective hears of the time-out.
    """
    launcher = reading.launcher
    living = reading.metrics.living_at_end()
    heard = 0.3 if Kind.KERNEL in reading.kinds else 0.0
    broken = {one.node for one in _live(reading) if one.kind is Kind.KERNEL and one.role is Role.ROOT}
    for rank in launcher.silent()[:4]:
        if watch := next(iter(launcher.watches), None):
            lives = rank in living and reading.places.get(rank) not in broken
            says = f"rank {rank} {'lives and ' if lives else ''}is silent while the others' collectives time out"
            reading.clues.append(
                clue("silent_rank", "hang_in_user_code", Kind.LOG, watch.line, says, rank=rank,
                     role=Role.EITHER if lives else Role.CONFIRM, more=heard if lives else 0.0)
            )  # fmt: skip


def _heartbeats(reading: Reading) -> None:
    """A task that was called unhealthy and spoke afterwards was alive: its time-out was too short."""
    launcher = reading.launcher
    for task, line in launcher.unhealthy.items():
        spoke = any(one.rank == task and one.source == line.source and one.line > line.number for one in reading.clues)
        busy = launcher.busy.get(task)
        if spoke or busy:
            for one in _live(reading, "timeout_budget"):
                if one.rule == "heartbeat_unhealthy":
                    one.role, one.strength = Role.ROOT, one.strength + (1.5 if spoke and busy else 1.0)
        else:
            dismiss(
                (one for one in _live(reading, "timeout_budget") if one.rule == "heartbeat_unhealthy"),
                "the task never spoke again; it died first",
            )
            reading.clues.append(
                clue("task_gone", "node_failure", Kind.LOG, line,
                     f"task {task} stopped and never spoke again", role=Role.EITHER, more=0.0, rank=task)
            )  # fmt: skip


def _unconfirmed_kill(reading: Reading) -> None:
    """A SIGKILL is memory only where nobody who would know says otherwise."""
    kills = [one for one in _live(reading, "host_oom") if one.rule in {"sigkill", "exit_137", "killed"}]
    knows = reading.scheduler.knows_exits and not reading.scheduler.says_oom
    stronger = any(one.role is Role.ROOT for one in _live(reading, "host_oom"))
    if kills and knows and not stronger:
        dismiss(kills, "killed from outside, and the scheduler knows of no memory kill")


def _denied_by_metrics(reading: Reading) -> None:
    """Metrics that deny a label weigh against its weaker clues."""
    for label, text in reading.metrics.denied().items():
        said = " ".join(text.split())[:80]
        dismiss((one for one in _live(reading, label) if one.role is not Role.ROOT), f"metrics deny it: {said}")


def _slow_is_not_dead(reading: Reading) -> None:
    """Unequal ranks make a run slow. Measured alone, without a line that says more, they did not end it."""
    if ended_badly(reading):
        for one in _live(reading, "workload_imbalance"):
            if one.kind is Kind.METRICS:
                one.role = Role.CONFIRM
