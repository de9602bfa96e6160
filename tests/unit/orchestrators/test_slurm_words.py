"""Slurm's states in ours, its reasons in words, its refusals as errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.errors import CommandFailed, Conflict, NotFound, ParseError, Unavailable, UsageError
from stepward.model.states import State
from stepward.orchestrators.slurm.asking import ask, environment, refusal
from stepward.orchestrators.slurm.commands import Slurm, job_name
from stepward.orchestrators.slurm.reasons import job_words, node_reason, reason_words
from stepward.orchestrators.slurm.records import SlurmJob
from stepward.orchestrators.slurm.states import job_state, node_state, slurm_word

TABLE = {
    State.FINISHED: "COMPLETED", State.FAILED: "FAILED", State.TIMEOUT: "TIMEOUT DEADLINE",
    State.LOST: "NODE_FAIL BOOT_FAIL", State.PREEMPTED: "PREEMPTED", State.OOM: "OUT_OF_MEMORY",
    State.CANCELLED: "CANCELLED REVOKED REQUEUED", State.QUEUED: "PENDING REQUEUE_HOLD SPECIAL_EXIT",
    State.STARTING: "CONFIGURING", State.RUNNING: "RUNNING COMPLETING SIGNALING STAGE_OUT SUSPENDED STOPPED",
}  # fmt: skip
"""ARCHITECTURE.md, States of an attempt."""


@pytest.mark.parametrize(("word", "state"), [(word, state) for state, words in TABLE.items() for word in words.split()])
def test_the_table_of_the_architecture(word, state):
    assert job_state(word) is state


def test_who_requeued_decides():
    assert job_state("REQUEUED", requeued_by_slurm=True) is State.PREEMPTED
    with pytest.raises(ParseError) as caught:
        job_state("TELEPORTING")
    assert caught.value.code == "slurm_malformed"


@pytest.mark.parametrize(
    ("text", "word"),
    [("CANCELLED by 0", "CANCELLED"), ("OUT_OF_ME+", "OUT_OF_MEMORY"), ("CANCELLED+", "CANCELLED"), (" ", "")],
)
def test_the_word_alone(text, word):
    assert slurm_word(text) == word


@pytest.mark.parametrize(
    ("text", "base", "flags"),
    [
        ("IDLE*+DRAIN", "IDLE", {"NOT_RESPONDING", "DRAIN"}),
        ("DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING", "DOWN", {"CLOUD", "POWERED_DOWN", "NOT_RESPONDING"}),
        ("idle~", "IDLE", {"POWERED_DOWN"}),
        ("MIXED-", "MIXED", {"PLANNED"}),
        ("IDLE+MAINT", "IDLE", {"MAINTENANCE"}),
        ("ALLOCATED", "ALLOCATED", set()),
    ],
)
def test_states_of_nodes(text, base, flags):
    assert node_state(text) == (base, flags)


@pytest.mark.parametrize(
    ("reason", "says", "advises"),
    [
        ("Resources", "waits for nodes that are in use", "shorter time limit"),
        ("(Priority)", "higher priority", "backfilled"),
        ("DependencyNeverSatisfied", "will never start", "cancel it"),
        ("ReqNodeNotAvail, UnavailableNodes:n3", "UnavailableNodes:n3", "without a list of nodes"),
        ("launch_failed_requeued_held", "could not be launched", "release"),
        (
            "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
            "too few nodes",
            "out",
        ),
        ("AssocGrpCPUMinutesLimit", "(cpu minutes)", "wait"),
        ("QOSMaxGRESPerUser", "its user has reached the limit of its quality of service (gres)", "wait"),
        ("MaxNodePerAccount", "its account", "wait"),
        ("SomethingNew", "SomethingNew", "job_reason_codes"),
    ],
)
def test_a_reason_says_what_it_means_and_what_to_do(reason, says, advises):
    words = reason_words(reason)
    assert says in words.meaning and advises in words.advice


@given(st.text(max_size=60))
def test_any_reason_has_words_or_is_none(reason):
    words = reason_words(reason)
    assert words is None or words.meaning
    assert (words is None) == (not reason.strip().strip("()").strip())


@pytest.mark.parametrize(
    ("said", "kind", "code"),
    [
        (
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
            Unavailable,
            "slurm_unreachable",
        ),
        ("sacct: error: slurmdbd: Sending PersistInit msg: Connection refused", Unavailable, "slurm_unreachable"),
        ("squeue: fatal: Could not establish a configuration source", Unavailable, "slurm_unreachable"),
        ("slurm_load_jobs error: Invalid job id specified", NotFound, "unknown_job"),
        ("Slurm accounting storage is disabled", Conflict, "slurm_no_accounting"),
        ("sbatch: error: Batch job submission failed: Invalid feature specification", Conflict, "slurm_refused"),
        ("", Conflict, "slurm_refused"),
    ],
)
def test_what_slurm_says_becomes_a_named_error(said, kind, code):
    error = refusal(["squeue"], 1, said)
    assert isinstance(error, kind) and error.code == code
    assert "squeue: error:" not in error.message


def test_a_submission_with_an_impossible_array_is_refused_and_no_unknown_job():
    said = "allocation failure: Invalid job array specification"
    assert refusal(["sbatch"], 1, said).code == "slurm_refused"
    assert refusal(["scancel"], 1, said).code == "unknown_job"


def test_a_command_that_is_not_here_is_named():
    with pytest.raises(CommandFailed) as caught:
        ask(["stepward-no-such-command"], None)
    assert caught.value.code == "slurm_missing"


def test_a_command_that_hangs_is_ended_with_what_it_started():
    with pytest.raises(Unavailable) as caught:
        ask(["sh", "-c", "sleep 600 & wait"], None, timeout_s=0.2)
    assert caught.value.code == "slurm_unreachable"


def test_a_command_sees_nothing_of_our_environment(monkeypatch):
    monkeypatch.setenv("STEPWARD_TOKEN", "secret")
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("SLURM_CONF", "/elsewhere")
    own = environment("/conf", read=True)
    assert set(own) == {"PATH", "HOME", "LANG", "LC_ALL", "SLURM_CONF", "TZ", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN"}
    assert own["SLURM_CONF"] == "/conf"
    assert "SLURM_TIME_FORMAT" not in environment("/conf", read=False)


@pytest.mark.parametrize("job", ["42", "42_7", "42+1"])
def test_ids_of_jobs(job):
    assert job_name(job) == job


def test_tasks_that_wait_together_are_told_by_their_array():
    assert job_name("42_[1-9%2]") == "42"


@pytest.mark.parametrize("job", ["", "-1", "42;reboot", "all", "--user=root", "42_", "1 2", "４２", "null", "1\n2"])
def test_nothing_else_reaches_a_command_line(job):
    with pytest.raises(UsageError) as caught:
        Slurm().cancel(job)
    assert caught.value.code == "bad_job"


def test_a_node_is_set_to_states_alone():
    with pytest.raises(UsageError) as caught:
        Slurm().update_node("n1", state="DOWN Reason=x")
    assert caught.value.code == "bad_node_state"


@pytest.mark.parametrize(
    ("word", "fields", "says"),
    [
        ("TIMEOUT", {}, "time limit"),
        ("OUT_OF_MEMORY", {}, "more memory"),
        ("NODE_FAIL", {}, "a node that it ran on failed"),
        ("CANCELLED", {"cancelled_by": 1000}, "by the user with id 1000"),
        ("CANCELLED", {"cancelled_by": 0}, "by an administrator"),
        ("FAILED", {"signal": 11, "reason": "JobLaunchFailure"}, "SIGSEGV"),
        ("FAILED", {"exit_code": 3, "reason": "NonZeroExitCode"}, "exit code 3"),
        ("PENDING", {"reason": "Licenses"}, "license"),
        ("SUSPENDED", {}, "suspended"),
    ],
)
def test_how_a_job_stands_is_said_in_words(word, fields, says):
    job = SlurmJob(id="1", number=1, state=job_state(word), slurm_state=word, **fields)
    assert says in job_words(job).meaning


def test_nothing_is_said_where_nothing_is_to_say():
    assert job_words(SlurmJob(id="1", number=1, state=State.RUNNING, slurm_state="RUNNING")) is None


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("stepward:infrastructure:heartbeat:lost-17", "its agent fell silent"),
        ("stepward:infrastructure:gpu_off_bus:ev_1", "device vanished from the bus"),
        ("stepward:infrastructure:some_new_check:ev_1", "some new check"),
        ("root: noisy fan", "root: noisy fan"),
        ("stepward: not of this form", "stepward: not of this form"),
        ("", ""),
    ],
)
def test_the_reason_of_a_node_is_words_where_stepward_wrote_it_for_programs(reason, words):
    assert words in node_reason(reason)
    assert bool(node_reason(reason)) is bool(reason)
