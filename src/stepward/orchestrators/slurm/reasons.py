"""Slurm's reason codes in words: what they mean, and what to do.

The codes and what they stand for: ``JOB REASON CODES`` of Slurm's ``squeue`` manual (22.05) and
https://slurm.schedmd.com/job_reason_codes.html; the limits behind the families of ``Assoc`` and ``QOS`` codes:
https://slurm.schedmd.com/resource_limits.html.
"""

import re
from typing import NamedTuple

from stepward.model.states import State, signal_name
from stepward.model.taxonomy import LABELS
from stepward.orchestrators.slurm.records import SlurmJob


class Words(NamedTuple):
    """A reason for people: what it means, and what they can do about it (empty where waiting is all)."""

    meaning: str
    advice: str


_EXACT: dict[str, Words] = {
    "None": Words(
        "the scheduler has not looked at it yet", "wait a few seconds; if it stays so, see whether slurmctld schedules"
    ),
    "WaitingForScheduling": Words("the scheduler has not looked at it yet", "wait a few seconds"),
    "Resources": Words(
        "it is the next of its queue and waits for nodes that are in use",
        "wait; fewer nodes or a shorter time limit let it start earlier",
    ),
    "Priority": Words(
        "jobs of higher priority are before it", "wait; a shorter time limit lets it be backfilled into gaps"
    ),
    "Dependency": Words(
        "it waits for another job that it depends on", "see the state of the job named by `dependency`"
    ),
    "DependencyNeverSatisfied": Words(
        "the job that it depends on ended in a way that does not fit, so that it will never start",
        "cancel it and submit it again without that dependency",
    ),
    "BeginTime": Words(
        "its earliest start has not come: a --begin that was asked for, or the pause after a requeue",
        "wait; after a requeue the pause is cred_expire of slurm.conf's AuthInfo, 120 s unless it is set lower",
    ),
    "JobHeldUser": Words("it is held by its user", "stepward jobs release JOB"),
    "JobHeldAdmin": Words("it is held by an administrator", "stepward jobs release JOB, as an administrator"),
    "JobHoldMaxRequeue": Words(
        "it was requeued so often that Slurm holds it",
        "find out why it does not start (stepward diagnose --slurm JOB), then stepward jobs release JOB",
    ),
    "launch failed requeued held": Words(
        "it could not be launched (prolog, credential or spool folder of a node), was requeued and is held",
        "look at the reason of the nodes that it had (stepward nodes), then stepward jobs release JOB",
    ),
    "JobLaunchFailure": Words(
        "it could not be launched: program, working folder or file system of its nodes",
        "see that command, working folder and output path exist on the nodes",
    ),
    "Prolog": Words("the prolog still runs", "wait; a prolog that hangs is seen in slurmctld's log"),
    "Cleaning": Words(
        "it was requeued and its former attempt still ends",
        "wait; a node that does not answer holds this up until SlurmdTimeout, unless it is set down",
    ),
    "NodeDown": Words("a node that it requires is down", "see stepward nodes; submit it without a list of nodes"),
    "ReqNodeNotAvail": Words(
        "a node that it asks for is not to be had: down, drained, reserved or in use",
        "submit it without a list of nodes, or see why the nodes are out (stepward nodes)",
    ),
    "UnavailableNodes": Words(
        "nodes that it needs are down or drained", "see why they are out (stepward nodes), or ask for fewer"
    ),
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": Words(
        "too few nodes are in service: the others are down, drained or reserved",
        "see why they are out (stepward nodes), or ask for fewer",
    ),
    "PartitionDown": Words("its partition is down", "an administrator sets the partition up, or use another one"),
    "PartitionInactive": Words(
        "its partition takes no jobs now", "an administrator sets the partition up, or use another one"
    ),
    "PartitionNodeLimit": Words(
        "it asks for more or fewer nodes than its partition allows, or too many of them are out of service",
        "ask for a number of nodes within the partition's limits",
    ),
    "PartitionTimeLimit": Words(
        "its time limit is above that of its partition", "ask for less time, or use another partition"
    ),
    "PartitionConfig": Words(
        "it asks for something that its partition does not allow", "compare it with `scontrol show partition`"
    ),
    "BadConstraints": Words(
        "no node can ever satisfy what it asks for",
        "cancel it; compare its features, memory, CPUs and GPUs with what the nodes have",
    ),
    "Constraints": Words("no node satisfies what it asks for now", "compare its features with those of the nodes"),
    "Licenses": Words("it waits for a license", "wait; `scontrol show licenses` shows who has them"),
    "Reservation": Words("its reservation has not begun", "wait; `scontrol show reservation` shows when"),
    "ReservationDeleted": Words("its reservation was deleted", "release it without the reservation, or cancel it"),
    "JobArrayTaskLimit": Words(
        "as many tasks of its array run as its own limit (%) allows", "wait, or raise ArrayTaskThrottle"
    ),
    "InvalidAccount": Words("its account is not valid", "submit it under an account of yours (sacctmgr show assoc)"),
    "AccountNotAllowed": Words("its account may not use its partition", "use another account or partition"),
    "InvalidQOS": Words("its quality of service is not valid", "submit it with one that the account has"),
    "QOSNotAllowed": Words("its quality of service may not use its partition", "use another one"),
    "QOSUsageThreshold": Words("its account has used too much for this quality of service", "wait, or use another one"),
    "AccountingPolicy": Words("a limit of its account or quality of service is reached", "wait, or ask for less"),
    "AssociationJobLimit": Words("its account runs as many jobs as it may", "wait for one of them to end"),
    "AssociationResourceLimit": Words("its account uses as much as it may", "wait for other jobs of it to end"),
    "AssociationTimeLimit": Words("its account has used up its time", "ask an administrator for more"),
    "QOSJobLimit": Words("its quality of service runs as many jobs as it may", "wait for one of them to end"),
    "QOSResourceLimit": Words("its quality of service uses as much as it may", "wait for other jobs of it to end"),
    "QOSTimeLimit": Words("its quality of service has used up its time", "ask an administrator for more"),
    "MaxMemPerLimit": Words("it asks for more memory than a CPU or node may have", "ask for less memory"),
    "DeadLine": Words("it can no longer end before its deadline", "submit it again without the deadline"),
    "BurstBufferStageIn": Words("its data is being staged in", "wait"),
    "FrontEndDown": Words("no front end is there to start it", "an administrator starts one"),
    "NonZeroExitCode": Words("it ended with an exit code that is not 0", "stepward diagnose --slurm JOB"),
    "RaisedSignal": Words("it was ended by a signal", "stepward diagnose --slurm JOB"),
    "TimeLimit": Words(
        "it ran into its time limit", "ask for more time, or checkpoint on --signal and let it be requeued"
    ),
    "OutOfMemory": Words("it used more memory than it had asked for", "ask for more memory, or use less"),
    "InactiveLimit": Words("it was ended for inactivity", "see InactiveLimit of slurm.conf"),
    "SystemFailure": Words("Slurm itself, a file system or the network failed", "see slurmctld's log; requeue it"),
}
_FAMILIES: tuple[tuple[re.Pattern[str], Words], ...] = (
    (
        re.compile(r"AssocGrp(?P<what>\w+?)(?:Limit)?"),
        Words("its account has reached its limit for all its jobs together ({what})", "wait for others of it to end"),
    ),
    (
        re.compile(r"AssocMax(?P<what>\w+?)(?:Limit)?"),
        Words("it asks for more than its account allows for one job ({what})", "ask for less, or use another account"),
    ),
    (
        re.compile(r"QOSGrp(?P<what>\w+?)(?:Limit)?"),
        Words("its quality of service has reached its limit for all jobs ({what})", "wait for others of it to end"),
    ),
    (
        re.compile(r"QOSMax(?P<what>\w+?)PerUser(?:Limit)?"),
        Words("its user has reached the limit of its quality of service ({what})", "wait for your other jobs to end"),
    ),
    (
        re.compile(r"QOSMax(?P<what>\w+?)(?:Limit)?"),
        Words("it asks for more than its quality of service allows for one job ({what})", "ask for less"),
    ),
    (
        re.compile(r"QOSMin(?P<what>\w+?)(?:NotSatisfied)?"),
        Words("it asks for less than its quality of service demands ({what})", "ask for more"),
    ),
    (
        re.compile(r"Max(?P<what>\w+)PerAccount"),
        Words("its account has reached the limit of its quality of service ({what})", "wait for others of it to end"),
    ),
    (
        re.compile(r"BurstBuffer(?P<what>\w+)"),
        Words("its burst buffer is not ready ({what})", "wait; `scontrol show burst` shows more"),
    ),
)
_BY_LETTERS = {re.sub(r"\W|_", "", code).lower(): words for code, words in _EXACT.items()}
_UNKNOWN = Words("Slurm gives a reason that is not known here", "https://slurm.schedmd.com/job_reason_codes.html")


def reason_words(reason: str) -> Words | None:
    """The words for a reason of Slurm; None where it gives none.

    Slurm writes some reasons with blanks, some with underscores, and adds details behind a comma
    (``ReqNodeNotAvail, UnavailableNodes:n[0-1]``), which become part of the meaning.
    """
    reason = reason.strip().strip("()").strip()
    if not reason:
        return None
    found = _BY_LETTERS.get(re.sub(r"\W|_", "", reason).lower())
    if found:
        return found
    code, _, detail = reason.partition(",")
    code, colon, more = code.partition(":")
    found = _BY_LETTERS.get(re.sub(r"\W|_", "", code).lower()) or _family(code.strip())
    detail = detail.strip() or (more.strip() if colon else "")
    if found is None:
        return Words(f"{_UNKNOWN.meaning}: {reason}", _UNKNOWN.advice)
    return Words(f"{found.meaning} ({detail})" if detail else found.meaning, found.advice)


def node_reason(reason: str) -> str:
    """Why a node is out of service, for people: what stepward writes as ``stepward:<layer>:<what>:<event>`` in words.

    A reason of anybody else is given as it is.
    """
    told = _OURS.fullmatch(reason)
    if told is None:
        return reason
    what = told["what"]
    if what == "heartbeat":
        return "its agent fell silent and its slurmd did not answer; stepward gives it back when both do again"
    means = LABELS[what].means if what in LABELS else what.replace("_", " ")
    return f"taken out by stepward: {means}; `stepward nodes resume` gives it back"


_OURS = re.compile(r"stepward:(?P<layer>\w+):(?P<what>\w+):(?P<event>\S+)")


def job_words(job: SlurmJob) -> Words | None:
    """Why a job waits or how it ended, for people; None where there is nothing to say."""
    end = _ENDS.get(job.slurm_state)
    if end is not None:
        return end
    if job.slurm_state == "CANCELLED":
        by = {None: "", 0: " by an administrator"}.get(job.cancelled_by, f" by the user with id {job.cancelled_by}")
        return Words(f"it was cancelled{by}", "")
    if job.state is State.FAILED and job.signal is not None:
        # Slurm calls this JobLaunchFailure (22.05), RaisedSignal or NonZeroExitCode, as release and step would have it.
        return Words(f"it was ended by {signal_name(job.signal)}", _EXACT["NonZeroExitCode"].advice)
    if job.state is State.FAILED and job.exit_code:
        return Words(f"it ended with exit code {job.exit_code}", _EXACT["NonZeroExitCode"].advice)
    return reason_words(job.reason)


_ENDS: dict[str, Words] = {
    "TIMEOUT": _EXACT["TimeLimit"],
    "DEADLINE": _EXACT["DeadLine"],
    "OUT_OF_MEMORY": _EXACT["OutOfMemory"],
    "NODE_FAIL": Words(
        "a node that it ran on failed", "stepward nodes; it starts again by itself where it may be requeued"
    ),
    "BOOT_FAIL": Words("a node that it was to run on did not boot", "stepward nodes"),
    "PREEMPTED": Words("a job of higher priority took its nodes", "checkpoint on --signal, and let it be requeued"),
    "SUSPENDED": Words("its processes are suspended", "scontrol resume JOB, as an administrator"),
    "STOPPED": Words("its processes are stopped by a signal", "scancel --signal=CONT JOB"),
}


def _family(code: str) -> Words | None:
    for pattern, words in _FAMILIES:
        found = pattern.fullmatch(code)
        if found:
            return Words(words.meaning.format(what=_spaced(found["what"])), words.advice)
    return None


def _spaced(code: str) -> str:
    """``CpuMinutesPerJob`` as ``cpu minutes per job``; runs of capitals stay together."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", code).lower()
