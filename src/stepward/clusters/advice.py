"""What hurts training in the settings of a Slurm, each with why and what to set instead: any Slurm, ours or not.

Pure: ``advise`` reads what ``scontrol show config`` says. The figures were measured with Slurm 22.05 where no source is named;
the defaults are those of its slurm.conf(5).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

Config = Mapping[str, str]
Status = Literal["ok", "warn", "bad"]

CREDENTIAL_DEFAULT_S, CREDENTIAL_LEAST_S = 120, 5
"""Of ``cred_expire``; Slurm takes a lower value for the default."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One setting, what it is, and unless all is well why that hurts and what to set."""

    name: str
    status: Status
    found: str
    why: str = ""
    advice: str = ""


def advise(config: Config) -> list[Advice]:
    """The settings that matter, in the order in which they hurt."""
    return [advice for check in CHECKS for advice in check(config)]


def credential(config: Config) -> Iterator[Advice]:
    """How long a requeued job waits for its old credential."""
    said = re.search(r"cred_expire=(\d+)", config.get("AuthInfo", ""))
    seconds = int(said[1]) if said else CREDENTIAL_DEFAULT_S
    name, why = "cred_expire", "a requeued job does not start before the credential of its last run has expired"
    if seconds < CREDENTIAL_LEAST_S:
        found = f"{seconds} s, which Slurm takes for {CREDENTIAL_DEFAULT_S} s"
        yield Advice(name=name, status="bad", found=found, why=why, advice=_CREDENTIAL)
    elif seconds > 30:
        found = f"{seconds} s{'' if said else ' (default)'}"
        yield Advice(name=name, status="bad", found=found, why=why, advice=_CREDENTIAL)
    else:
        yield Advice(name=name, status="ok", found=f"{seconds} s")


_CREDENTIAL = "AuthInfo=cred_expire=5 (add it to what AuthInfo has), then restart slurmctld"


def silence(config: Config) -> Iterator[Advice]:
    """How long a dead node is taken for alive."""
    yield _at_most(
        config,
        "SlurmdTimeout",
        60,
        "a dead node is called down after about twice this; until then its job hangs",
        "SlurmdTimeout=30, where the network carries a ping of every node in that time",
    )


def requeue(config: Config) -> Iterator[Advice]:
    """Whether a job of a dead node starts again by itself."""
    yield _is(
        config,
        "JobRequeue",
        {"1": "ok"},
        "a job whose node dies ends instead of starting again",
        "JobRequeue=1",
        otherwise="bad",
    )


def accounting(config: Config) -> Iterator[Advice]:
    """Whether what has run is remembered."""
    kind = config.get("AccountingStorageType") or "none"
    if kind.endswith("/slurmdbd"):
        yield Advice(name="accounting", status="ok", found=kind)
        if "gpu" in config.get("GresTypes", "") and "gres/gpu" not in config.get("AccountingStorageTRES", ""):
            why = "GPU time is not recorded, and cannot be afterwards"
            found = "no gres/gpu in AccountingStorageTRES"
            yield Advice(
                name="accounting_gpus", status="warn", found=found, why=why, advice="AccountingStorageTRES=gres/gpu"
            )
        return
    why = "ended jobs are forgotten after MinJobAge, with their states, times and attempts"
    advice = "AccountingStorageType=accounting_storage/slurmdbd, from the cluster's beginning: added later, slurmctld refuses it"
    yield Advice(name="accounting", status="bad", found=kind, why=why, advice=advice)


def returning(config: Config) -> Iterator[Advice]:
    """Whether a node that was silent comes back by itself."""
    yield _is(
        config,
        "ReturnToService",
        {"1": "ok", "2": "ok"},
        "a node that was silent stays down until somebody resumes it",
        "ReturnToService=1; nodes that somebody drained stay drained",
    )


def memory(config: Config) -> Iterator[Advice]:
    """Whether a job beyond its memory ends as out of memory, and takes no other with it."""
    constrained = config.get("ConstrainRAMSpace", "no").lower() == "yes" and "cgroup" in config.get("TaskPlugin", "")
    counted = "memory" in config.get("SelectTypeParameters", "").lower()
    if constrained and counted:
        yield Advice(name="memory_limit", status="ok", found="enforced by cgroup, counted by the scheduler")
        return
    missing = [] if constrained else ["no limit by cgroup"]
    missing += [] if counted else ["memory is not counted when jobs are placed"]
    yield Advice(
        name="memory_limit",
        status="bad",
        found=", ".join(missing),
        why="a job beyond its --mem takes the memory of others, or ends COMPLETED or FAILED instead of OUT_OF_MEMORY",
        advice="TaskPlugin=task/cgroup, ConstrainRAMSpace=yes in cgroup.conf, SelectTypeParameters=CR_Core_Memory",
    )


def processes(config: Config) -> Iterator[Advice]:
    """Whether every process of a job is found at its end."""
    yield _is(
        config,
        "ProctrackType",
        {"proctrack/cgroup": "ok"},
        "processes that leave their session survive the job and hold its GPUs",
        "ProctrackType=proctrack/cgroup",
    )


def prolog(config: Config) -> Iterator[Advice]:
    """Whether checks run on each node of a job before it starts."""
    if config.get("Prolog", "") in ("", "(null)"):
        return
    yield _has(
        config,
        "PrologFlags",
        "alloc",
        "the prolog runs on a node only when the first step comes there: a sick node is found late, or never",
        "PrologFlags=Alloc (or Contain, which brings it)",
        also="contain",
    )
    limit = _seconds(config.get("PrologEpilogTimeout", ""))
    if limit is None or limit > 300:
        why = "a prolog that hangs holds its node and job for ever"
        found = config.get("PrologEpilogTimeout", "none")
        yield Advice(name="PrologEpilogTimeout", status="warn", found=found, why=why, advice="PrologEpilogTimeout=60")


def endings(config: Config) -> Iterator[Advice]:
    """How jobs are ended."""
    limit = _seconds(config.get("KillWait", ""))
    stuck = _seconds(config.get("UnkillableStepTimeout", ""))
    if limit is not None and stuck is not None and stuck <= limit:
        why = "steps are called unkillable, and their nodes drained, before SIGKILL is due"
        yield Advice(
            name="UnkillableStepTimeout",
            status="bad",
            found=f"{stuck} s, KillWait {limit} s",
            why=why,
            advice=f"UnkillableStepTimeout={max(120, limit * 4)}",
        )
    yield _is(
        config,
        "JobFileAppend",
        {"1": "ok"},
        "a requeued job truncates the output of the attempt that failed, and with it the reason",
        "JobFileAppend=1",
    )


def places(config: Config) -> Iterator[Advice]:
    """Whether the controller's state survives a reboot."""
    where = config.get("StateSaveLocation", "")
    if where.startswith(("/tmp", "/dev/shm", "/run")):
        why = "the queue and the node states are lost when the controller's host reboots"
        yield Advice(
            name="StateSaveLocation", status="warn", found=where, why=why, advice="a folder on a disk that stays"
        )


CHECKS: tuple[Callable[[Config], Iterator[Advice]], ...] = (
    credential,
    silence,
    requeue,
    accounting,
    returning,
    memory,
    processes,
    prolog,
    endings,
    places,
)


def _at_most(config: Config, name: str, most: int, why: str, advice: str) -> Advice:
    seconds = _seconds(config.get(name, ""))
    found = config.get(name) or "not said"
    if seconds is None or seconds == 0 or seconds > most:
        return Advice(name=name, status="bad", found=found, why=why, advice=advice)
    return Advice(name=name, status="ok", found=found)


def _is(
    config: Config, name: str, good: Mapping[str, Status], why: str, advice: str, *, otherwise: Status = "warn"
) -> Advice:
    found = config.get(name) or "not said"
    if good.get(found) == "ok":
        return Advice(name=name, status="ok", found=found)
    return Advice(name=name, status=otherwise, found=found, why=why, advice=advice)


def _has(config: Config, name: str, wanted: str, why: str, advice: str, *, also: str) -> Advice:
    found = config.get(name) or "none"
    if {wanted, also} & set(found.lower().split(",")):
        return Advice(name=name, status="ok", found=found)
    return Advice(name=name, status="warn", found=found, why=why, advice=advice)


def _seconds(text: str) -> int | None:
    """``30 sec`` or ``65534`` (which stands for none) as seconds."""
    found = re.match(r"\d+", text)
    seconds = int(found[0]) if found else None
    return None if seconds == 65534 else seconds
