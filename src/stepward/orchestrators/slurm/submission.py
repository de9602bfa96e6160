"""A submission before Slurm sees it: every field checked, all problems at once; then the ``sbatch`` that it means.

Forms are those of Slurm's ``sbatch`` manual. What depends on the cluster is checked against its partitions and nodes, so
that a job that could never start is refused with a reason instead of waiting for ever.
"""

import math
import os
import re
import shlex
import signal as _signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from stepward.errors import UsageError
from stepward.model.jobs import JobSubmission
from stepward.model.slurm_text import duration_s, expand_nodes
from stepward.orchestrators.slurm.records import SlurmNode, SlurmPartition

MAX_SCRIPT = 4 << 20
"""Bytes of a batch script; Slurm's own default (``max_script_size``) is 4 MiB."""
MAX_ENVIRONMENT = 256 << 10
MAX_TASK = 4_000_000
"""Highest task of an array that Slurm can be configured to take (``MaxArraySize``)."""
_NAME = re.compile(r"[\w.+@/-][\w.+@/: -]*", re.ASCII)
_WORD = re.compile(r"[\w.+@-]+", re.ASCII)
_MEMORY = re.compile(r"(\d{1,12})([KMGT]?)B?", re.ASCII | re.IGNORECASE)
_GRES = re.compile(r"(?P<name>[A-Za-z_]\w*)(?::(?P<type>[A-Za-z_][\w.-]*))?(?::(?P<count>\d{1,6}))?", re.ASCII)
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", re.ASCII)
_DEPENDENCY = re.compile(
    r"singleton|(?:after(?:any|ok|notok|corr|burstbuffer)?)(?::\d+(?:_\d+|_\*)?(?:\+\d+)?)+", re.ASCII
)
_SIGNAL = re.compile(r"(?:[BR]{1,2}:)?(?P<signal>[A-Z]+\d*|\d{1,2})(?:@(?P<seconds>\d{1,5}))?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CONSTRAINT = re.compile(r"[\w.,&|*\[\]()-]+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RESERVED = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_")
"""Beginnings of variables by which Slurm's commands take options."""
_NAMED = re.compile(r"""#SBATCH\s+(?:.*\s)?(?:-J\s*|--job-name[=\s]\s*)(?:"(?P<quoted>[^"]+)"|(?P<plain>\S+))""")
_PINNED = re.compile(r"^#SBATCH\s(?:.*\s)?(?:-w[\s=]?|--nodelist[\s=])\S", re.MULTILINE)
MOST_MINUTES = 1 << 31
"""Slurm counts time limits in 32 bits of minutes, the highest of which have meanings of their own."""
_MIB = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}


class Problem(NamedTuple):
    """One field that will not do: its name, what is wrong, and what is allowed."""

    field: str
    problem: str
    allowed: str = ""


def check(
    asked: JobSubmission, partitions: Sequence[SlurmPartition] = (), nodes: Sequence[SlurmNode] = ()
) -> list[str]:
    """Refuse a submission that is malformed, or that this cluster could never start; else its warnings.

    Args:
        partitions, nodes: the cluster's; without them only forms are checked.

    Raises:
        UsageError: ``bad_submission``; ``fields`` lists every problem with field, problem and what is allowed.
    """
    problems = [*_forms(asked), *(_limits(asked, partitions, nodes) if partitions else ())]
    if problems:
        told = "; ".join(f"{one.field}: {one.problem}" for one in problems)
        fields: list[dict[str, Any]] = [one._asdict() for one in problems]
        allowed = "; ".join(f"{one.field}: {one.allowed}" for one in problems if one.allowed)
        raise UsageError(
            f"the job will not do: {told}", code="bad_submission", hint=allowed or "docs/jobs.md", fields=fields
        )
    return list(_warnings(asked, partitions))


def arguments(asked: JobSubmission, *, environment_fd: int | None = None, test_only: bool = False) -> list[str]:
    """The ``sbatch`` of a checked submission; its script goes to stdin, its environment to ``environment_fd``."""
    options: list[tuple[str, object]] = [
        ("job-name", name_of(asked)),
        ("partition", asked.partition),
        ("account", asked.account),
        ("qos", asked.qos),
        ("nodes", asked.nodes),
        ("ntasks", asked.ntasks),
        ("ntasks-per-node", asked.ntasks_per_node),
        ("cpus-per-task", asked.cpus_per_task),
        ("mem", asked.mem),
        ("gres", asked.gres),
        ("gpus", asked.gpus),
        ("time", asked.time_limit),
        ("array", asked.array),
        ("dependency", asked.dependency),
        ("signal", asked.signal),
        ("chdir", asked.workdir or os.path.expanduser("~")),
        ("output", asked.output),
        ("error", asked.error),
        ("comment", asked.comment),
        ("constraint", asked.constraint),
        ("reservation", asked.reservation),
        ("nodelist", asked.nodelist),
        ("exclude", asked.exclude),
        ("export-file", environment_fd),
    ]
    flags = [
        ("parsable", True),
        ("requeue", asked.requeue is True),
        ("no-requeue", asked.requeue is False),
        ("exclusive", asked.exclusive),
        ("hold", asked.hold),
        ("test-only", test_only),
    ]
    given = [f"--{name}={value}" for name, value in options if value not in (None, "")]
    return ["sbatch", *given, *(f"--{name}" for name, on in flags if on)]


def batch_script(asked: JobSubmission) -> str:
    """The text that sbatch gets: the script, or one that becomes the command."""
    if asked.script is not None:
        return asked.script
    return f"#!/bin/sh\nexec {shlex.join(asked.command or [])}\n"


def environment(asked: JobSubmission, user: str, home: str, conf: str | None) -> bytes:
    """The job's environment as ``--export-file`` takes it: ``NAME=value`` ended by NUL, nothing of the server's own."""
    plain = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "USER": user, "LOGNAME": user, "LANG": "C.UTF-8"}
    # Slurm leaves the name out of an environment that it is given whole, and then fills %x with (null).
    plain |= {"SHELL": "/bin/sh", "SLURM_JOB_NAME": name_of(asked)} | ({"SLURM_CONF": conf} if conf else {})
    return b"".join(f"{name}={value}\0".encode() for name, value in (plain | asked.env).items())


def name_of(asked: JobSubmission) -> str:
    """The job's name: as asked for, as its script says, or that of its program."""
    if asked.command:
        return asked.name or os.path.basename(asked.command[0])[:64] or "job"
    return asked.name or named_in(asked.script or "") or "job"


def named_in(script: str) -> str | None:
    """The name that a script gives its job by ``#SBATCH``; None where it gives none."""
    for line in script.splitlines():
        if line.strip() and not line.startswith("#"):
            return None  # sbatch looks no further
        found = _NAMED.match(line)
        if found:
            return found["quoted"] or found["plain"]
    return None


# ── forms ──


def _forms(asked: JobSubmission) -> Iterator[Problem]:
    yield from _script(asked)
    for name, pattern, allowed in _TEXTS:
        value = getattr(asked, name)
        if value is not None and (len(value) > 1024 or not pattern.fullmatch(value)):
            yield Problem(name, f"{value[:80]!r} has not the form", allowed)
    for name, least in _NUMBERS:
        value = getattr(asked, name)
        if value is not None and not least <= value < 1 << 31:
            yield Problem(name, f"{value} is out of range", f"an integer from {least} on")
    for name, fits, allowed in _FORMS:
        value = getattr(asked, name)
        if value is not None and (len(value) > 4096 or _CONTROL.search(value) or not fits(value)):
            yield Problem(name, f"{value[:80]!r} has not the form", allowed)
    yield from _environment(asked.env)


def _script(asked: JobSubmission) -> Iterator[Problem]:
    script, command = asked.script, asked.command
    if (script is None) == (command is None):
        yield Problem("script", "neither it nor command is given" if script is None else "it and command are given")
    if script is not None:
        if not script.startswith("#!"):
            yield Problem("script", "its first line names no interpreter", "#!/bin/bash, or another interpreter")
        if "\0" in script or "\r\n" in script:
            yield Problem("script", "it holds NUL or DOS line ends", "text with UNIX line ends")
        if len(script.encode(errors="replace")) > MAX_SCRIPT:
            yield Problem("script", f"it is larger than {MAX_SCRIPT >> 20} MiB")
    if command is not None and (not command or not command[0] or any("\0" in part for part in command)):
        yield Problem("command", "it is empty or holds NUL", "program and arguments, each a string")


def _environment(env: dict[str, str]) -> Iterator[Problem]:
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            yield Problem(f"env.{name[:80]}", "it is no name of a variable", "letters, digits and _")
        elif name.startswith(_RESERVED):
            yield Problem(f"env.{name}", "Slurm sets such variables itself", "any name without that beginning")
        if "\0" in value:
            yield Problem(f"env.{name[:80]}", "its value holds NUL")
    if sum(len(name) + len(value) for name, value in env.items()) > MAX_ENVIRONMENT:
        yield Problem("env", f"it is larger than {MAX_ENVIRONMENT >> 10} KiB")


def _is_duration(text: str) -> bool:
    seconds = duration_s(text)
    return seconds is not None and (0 < seconds < 60 * MOST_MINUTES or seconds == math.inf)


def _is_memory(text: str) -> bool:
    found = _MEMORY.fullmatch(text)
    return found is not None and int(found[1]) > 0


def _is_gres(text: str) -> bool:
    return all(_GRES.fullmatch(part) for part in text.split(","))


def _is_array(text: str) -> bool:
    tasks, percent, at_once = text.partition("%")
    if percent and not (at_once.isascii() and at_once.isdigit() and int(at_once) > 0):
        return False
    for part in tasks.split(","):
        found = _RANGE.fullmatch(part)
        if found is None or int(found[1]) > MAX_TASK or int(found[2] or 0) > MAX_TASK:
            return False
        if found[2] is not None and int(found[2]) < int(found[1]):
            return False
        if found[3] is not None and int(found[3]) == 0:
            return False
    return True


def _is_dependency(text: str) -> bool:
    separators = set(re.findall(r"[,?]", text))
    return len(separators) < 2 and all(_DEPENDENCY.fullmatch(part) for part in re.split(r"[,?]", text))


def _is_signal(text: str) -> bool:
    found = _SIGNAL.fullmatch(text)
    if found is None:
        return False
    name = found["signal"].removeprefix("SIG")
    known = 0 < int(name) < 65 if name.isdigit() else f"SIG{name}" in _signal.Signals.__members__
    return known and int(found["seconds"] or 1) <= 65_535


def _is_nodes(text: str) -> bool:
    try:
        return bool(expand_nodes(text))
    except ValueError:
        return False


def _is_path(text: str) -> bool:
    return bool(text) and not text.startswith("-")


_TEXTS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("name", _NAME, "letters, digits, blanks and . + @ / : _ -"),
    ("partition", re.compile(r"[\w.+@-]+(?:,[\w.+@-]+)*", re.ASCII), "names of partitions"),
    ("account", _WORD, "name of an account"),
    ("qos", _WORD, "name of a quality of service"),
    ("reservation", _WORD, "name of a reservation"),
    ("constraint", _CONSTRAINT, "features joined by & | , [ ] ( )"),
)
_NUMBERS = (("nodes", 1), ("ntasks", 1), ("ntasks_per_node", 1), ("cpus_per_task", 1), ("gpus", 1))
_FORMS: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    ("time_limit", _is_duration, "minutes, H:MM:SS, D-HH:MM:SS or UNLIMITED"),
    ("mem", _is_memory, "as 512M or 64G"),
    ("gres", _is_gres, "as gpu:8 or gpu:h100:8"),
    ("array", _is_array, "as 0-9, 0-9:2, 1,3,5 or 0-99%4"),
    ("dependency", _is_dependency, "as afterok:42:43, afterany:42,afternotok:43 or singleton"),
    ("signal", _is_signal, "as USR1@120 or B:TERM@60"),
    ("workdir", os.path.isabs, "an absolute path"),
    ("output", _is_path, "a path; %j is the job's id"),
    ("error", _is_path, "a path; %j is the job's id"),
    ("comment", lambda text: len(text) <= 1024, "one line of at most 1024 characters"),
    ("nodelist", _is_nodes, "as n[0-3],n7"),
    ("exclude", _is_nodes, "as n[0-3],n7"),
)


# ── what the cluster can do ──


def _limits(
    asked: JobSubmission, partitions: Sequence[SlurmPartition], nodes: Sequence[SlurmNode]
) -> Iterator[Problem]:
    known = {one.name: one for one in partitions}
    if asked.partition:
        names = asked.partition.split(",")
        missing = [name for name in names if name not in known]
        if missing:
            yield Problem("partition", f"there is no partition {', '.join(missing)}", ", ".join(known))
            return
    else:
        names = [one.name for one in partitions if one.default]
        if not names:
            yield Problem("partition", "this cluster has no default partition", ", ".join(known))
            return
    # Slurm takes the first of several that fits: only what none of them allows is refused.
    told = [list(_of_partition(asked, known[name], nodes)) for name in names]
    if all(told):
        yield from told[0]


def _of_partition(asked: JobSubmission, partition: SlurmPartition, nodes: Sequence[SlurmNode]) -> Iterator[Problem]:
    if partition.state in {"DRAIN", "INACTIVE"}:
        yield Problem("partition", f"{partition.name} takes no jobs: it is {partition.state}", "another partition")
    limit = duration_s(asked.time_limit) if asked.time_limit else None
    if limit is not None and partition.max_time_s is not None and limit > partition.max_time_s:
        allowed = f"at most {_shown_time(partition.max_time_s)}"
        yield Problem("time_limit", f"{asked.time_limit} is above the limit of {partition.name}", allowed)
    most = min(partition.max_nodes or partition.node_count, partition.node_count)
    if asked.nodes is not None and not max(partition.min_nodes, 1) <= asked.nodes <= most:
        allowed = f"{max(partition.min_nodes, 1)} to {most}"
        yield Problem("nodes", f"{asked.nodes} is not what {partition.name} allows or has", allowed)
    own = [node for node in nodes if node.name in set(partition.nodes)]
    if own:
        yield from _of_nodes(asked, partition, own)


def _of_nodes(asked: JobSubmission, partition: SlurmPartition, nodes: Sequence[SlurmNode]) -> Iterator[Problem]:
    cpus = max(node.cpus for node in nodes)
    a_node = (asked.ntasks_per_node or 1) * (asked.cpus_per_task or 1)
    if a_node > cpus:
        field = "cpus_per_task" if (asked.cpus_per_task or 1) > cpus else "ntasks_per_node"
        yield Problem(field, f"{a_node} CPUs a node are more than a node of {partition.name} has", f"at most {cpus}")
    memory = max(node.memory_mb for node in nodes)
    if asked.mem and _is_memory(asked.mem) and memory_mb(asked.mem) > memory:
        yield Problem("mem", f"{asked.mem} is more than a node of {partition.name} has", f"at most {memory}M")
    names = {node.name for node in nodes}
    for field in ("nodelist", "exclude"):
        value = getattr(asked, field)
        strange = [name for name in expand_nodes(value) if name not in names] if value and _is_nodes(value) else []
        if strange and field == "nodelist":
            yield Problem(field, f"{', '.join(strange[:5])}: no node of {partition.name}", "nodes of the partition")
    if asked.gres and _is_gres(asked.gres):
        yield from _of_gres(asked.gres, partition, nodes)
    if asked.gpus is not None and not any(gres_count(node.gres, "gpu", None) for node in nodes):
        yield Problem("gpus", f"nodes of {partition.name} have no GPUs", "a partition with GPUs")


def _of_gres(gres: str, partition: SlurmPartition, nodes: Sequence[SlurmNode]) -> Iterator[Problem]:
    for part in gres.split(","):
        found = _GRES.fullmatch(part)
        assert found is not None
        most = max(gres_count(node.gres, found["name"], found["type"]) for node in nodes)
        if int(found["count"] or 1) > most:
            has = sorted({node.gres for node in nodes if node.gres}) or ["none"]
            yield Problem("gres", f"{part} is more than a node of {partition.name} has", "; ".join(has))


def _warnings(asked: JobSubmission, partitions: Sequence[SlurmPartition]) -> Iterator[str]:
    wanted = (asked.partition or "").split(",")
    down = [
        one.name
        for one in partitions
        if one.state == "DOWN" and (one.name in wanted or (one.default and wanted == [""]))
    ]
    if down:
        yield f"partition {', '.join(down)} is down: the job waits until an administrator sets it up"
    if asked.nodelist or (asked.script and _PINNED.search(asked.script)):
        yield (
            "the job names its nodes: once one of them is dead it waits for ever, and no requeue moves it; "
            "exclude nodes, or ask for features, instead"
        )
    if asked.script and re.search(r"^#SBATCH\s", asked.script, re.MULTILINE):
        yield "#SBATCH lines of the script are Slurm's to read: they were not checked, and fields given here win"
    if asked.signal and not asked.time_limit:
        yield "a signal before the time limit needs a time limit: without one the partition's counts"


def memory_mb(text: str) -> float:
    """MiB of a ``--mem`` that has been checked."""
    found = _MEMORY.fullmatch(text)
    assert found is not None
    return int(found[1]) * _MIB[found[2].upper()]


def gres_count(configured: str, name: str, kind: str | None) -> int:
    """How many of a generic resource a node has: ``gpu:h100:8(S:0-1),nvme:2``; of one type, or of all."""
    total = 0
    for part in re.sub(r"\([^)]*\)", "", configured).split(","):
        found = _GRES.fullmatch(part.strip())
        if found and found["name"] == name and kind in (None, found["type"]):
            total += int(found["count"] or 1)
    return total


def _shown_time(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86_400)
    return f"{days}-{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
