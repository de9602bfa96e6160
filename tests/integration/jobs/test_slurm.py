"""The orchestrator on a real Slurm: every kind of end, arrays, dependencies, holds, requeues, dead nodes, dead daemons."""

import os
import signal
import subprocess

import msgspec
import pytest

from stepward.errors import Conflict, NotFound, StepwardError, Unavailable
from stepward.model.jobs import JobSubmission
from stepward.model.states import State
from stepward.orchestrators.slurm.commands import Slurm
from stepward.orchestrators.slurm.reasons import job_words
from stepward.orchestrators.slurm.submission import check

from .conftest import begun, ended, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def job(folder, *command, **fields):
    return JobSubmission(**({"command": list(command), "workdir": str(folder), "mem": "50M"} | fields))


def test_every_end_is_told_as_it_was(slurm, tmp_path, full_scale):
    good = slurm.submit(job(tmp_path, "true"))
    bad = slurm.submit(job(tmp_path, "sh", "-c", "exit 7"))
    crash = slurm.submit(job(tmp_path, "sh", "-c", "kill -SEGV $$"))
    long = slurm.submit(job(tmp_path, "sleep", "600"))
    late = slurm.submit(job(tmp_path, "sleep", "600", time_limit="1")) if full_scale else None
    begun(slurm, long)
    slurm.cancel(long)
    assert (ended(slurm, good).state, slurm.job(good).exit_code) == (State.FINISHED, 0)
    assert (ended(slurm, bad).state, slurm.job(bad).exit_code) == (State.FAILED, 7)
    crashed = ended(slurm, crash)
    assert (crashed.state, crashed.signal, crashed.exit_code) == (State.FAILED, signal.SIGSEGV, None)
    assert "SIGSEGV" in job_words(crashed).meaning
    cancelled = ended(slurm, long)
    assert cancelled.state is State.CANCELLED
    assert cancelled.submitted_at <= cancelled.started_at <= cancelled.ended_at
    # The controller's word and accounting's agree, to the second.
    told = until(lambda: _accounted(slurm, long), "accounting of the cancelled job")
    assert (told.state, told.started_at, told.ended_at) == (State.CANCELLED, cancelled.started_at, cancelled.ended_at)
    assert told.cancelled_by == os.getuid()
    if late:
        assert ended(slurm, late).state is State.TIMEOUT
    else:
        print("TIMEOUT is left to STEPWARD_TEST_SCALE=full: Slurm's least time limit is a minute")


def _accounted(slurm, number):
    try:
        found = slurm.attempts(number)[-1]
    except NotFound:
        return None
    return found if found.state.terminal else None


def test_a_submission_arrives_as_it_was_asked_for(slurm, slurm_cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWARD_SECRET_OF_THE_SERVER", "must not be in a job")
    monkeypatch.setenv("SBATCH_COMMENT", "nor may this speak for it")
    word = "a 'b' \"c\" $HOME\n#SBATCH --uid=65534"
    asked = job(
        tmp_path, "sh", "-c", 'printf "%s" "$1" > word; env -0 > environment; pwd > folder', "sh", word,
        name="pre train", env={"LR": "1e-3,2\n3=x"}, comment="a|b", output="out-%x-%j", nodes=1, gres="gpu:1",
        time_limit="5", requeue=False,
    )  # fmt: skip
    assert check(asked, slurm.partitions(), slurm.nodes()) == []
    number = slurm.submit(asked)
    found = ended(slurm, number)
    assert found.state is State.FINISHED
    assert (tmp_path / "word").read_text() == word
    assert (tmp_path / "folder").read_text().strip() == str(tmp_path)
    env = dict(pair.split("=", 1) for pair in (tmp_path / "environment").read_text().split("\0") if pair)
    assert env["LR"] == "1e-3,2\n3=x" and env["SLURM_CONF"] == slurm_cluster.conf
    assert not any("must not" in value for value in env.values())
    assert not {"TZ", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN"} & set(env)
    assert (found.name, found.comment, found.requeue, found.time_limit_s) == ("pre train", "a|b", False, 300.0)
    assert found.stdout == str(tmp_path / f"out-pre train-{number}") and os.path.exists(found.stdout)
    assert "gres/gpu=1" in found.tres


def test_a_script_runs_with_its_own_directives(slurm, tmp_path):
    script = (
        "#!/bin/bash\n#SBATCH --job-name=theirs\n#SBATCH --comment=kept\necho $SLURM_JOB_NAME $SLURM_JOB_PARTITION\n"
    )
    asked = JobSubmission(script=script, workdir=str(tmp_path), mem="50M")
    theirs, ours = slurm.submit(asked), slurm.submit(msgspec.structs.replace(asked, name="ours"))
    for number, name in ((theirs, "theirs"), (ours, "ours")):
        found = ended(slurm, number)
        assert (found.name, found.comment) == (name, "kept")
        with open(found.stdout) as file:
            assert file.read() == f"{name} main\n"


def test_what_slurm_refuses_is_said_in_its_words(slurm, tmp_path):
    with pytest.raises(Conflict) as caught:
        slurm.submit(job(tmp_path, "true", constraint="nosuchfeature"))
    assert caught.value.code == "slurm_refused" and "feature" in caught.value.message
    assert "to start at" in slurm.try_submit(job(tmp_path, "true", nodes=2))
    assert slurm.jobs() == [] or all(one.state.terminal for one in slurm.jobs())


def test_arrays_wait_together_and_run_alone(slurm, tmp_path):
    number = slurm.submit(job(tmp_path, "sleep", "600", array="0-5%2"))
    until(lambda: sum(one.state is State.RUNNING for one in _of(slurm, number)) == 2, "two tasks")
    tasks = {one.id: one for one in _of(slurm, number)}
    assert set(tasks) == {f"{number}_0", f"{number}_1", f"{number}_[2-5%2]"}
    waiting = tasks[f"{number}_[2-5%2]"]
    assert (waiting.key, waiting.array_tasks, waiting.state) == (number, "2-5%2", State.QUEUED)
    assert tasks[f"{number}_1"].key == f"{number}_1" and tasks[f"{number}_1"].stdout.endswith(f"slurm-{number}_1.out")
    until(lambda: os.path.exists(tasks[f"{number}_1"].stdout), "the output of the task")
    slurm.cancel(f"{number}_1")
    until(lambda: slurm.job(f"{number}_1").state is State.CANCELLED, "the task's end")
    assert slurm.job(f"{number}_0").state is State.RUNNING
    slurm.cancel(waiting.id)
    until(lambda: all(one.state.terminal for one in _of(slurm, number)), "the array's end")


def _of(slurm, array):
    return [one for one in slurm.jobs() if str(one.array_job) == array]


def test_a_heterogeneous_job_is_one_with_parts(slurm, slurm_cluster):
    number = slurm_cluster.run(
        "sbatch",
        "--parsable",
        "--mem=50M",
        "-J",
        "het",
        "-o",
        "/dev/null",
        "-N1",
        ":",
        "--mem=50M",
        "-N1",
        "--wrap",
        "sleep 600",
    ).strip()
    until(lambda: slurm.job(number).state is State.RUNNING, "the job")
    parts = {one.id: one for one in slurm.jobs() if one.het_job == int(number)}
    assert set(parts) == {f"{number}+0", f"{number}+1"}
    assert {one.key for one in parts.values()} == {number}
    slurm.cancel(number)
    until(lambda: all(one.state.terminal for one in slurm.jobs()), "the end of both parts")


def test_dependencies_and_holds(slurm, tmp_path):
    first = slurm.submit(job(tmp_path, "false", hold=True))
    never = slurm.submit(job(tmp_path, "true", dependency=f"afterok:{first}"))
    assert slurm.job(first).held and slurm.job(first).reason == "JobHeldUser"
    until(lambda: slurm.job(never).reason == "Dependency", "the dependency")
    assert not slurm.job(never).held
    slurm.release(first)
    assert ended(slurm, first).state is State.FAILED
    until(lambda: slurm.job(never).reason == "DependencyNeverSatisfied", "the answer that it never will be")
    assert "never start" in job_words(slurm.job(never)).meaning
    slurm.hold(never)
    slurm.cancel(never)
    assert ended(slurm, never).state is State.CANCELLED
    with pytest.raises(Conflict) as caught:
        slurm.cancel(never)
    assert caught.value.code == "job_ended"


def test_a_requeue_is_another_launch_of_the_same_job(slurm, tmp_path):
    number = slurm.submit(job(tmp_path, "sleep", "600"))
    first = begun(slurm, number)
    slurm.requeue(number)
    again = until(
        lambda: (one := slurm.job(number)).state is State.RUNNING and one.restarts == 1 and one, "the second launch"
    )
    assert again.key == first.key and again.submitted_at >= first.submitted_at
    # Accounting is told a moment after the controller knows.
    until(lambda: [one.slurm_state for one in slurm.attempts(number)] == ["REQUEUED", "RUNNING"], "accounting of both")
    launches = slurm.attempts(number)
    assert launches[0].started_at == first.started_at and launches[0].ended_at is not None
    assert len([one for one in slurm.history(first.submitted_at - 1_000_000) if one.key == number]) == 2


def test_a_node_set_down_loses_its_job_at_once(slurm, tmp_path):
    number = slurm.submit(job(tmp_path, "sleep", "600", requeue=True))
    first = begun(slurm, number)
    node = first.nodes[0]
    slurm.update_node(node, state="down", reason='stepward:"infrastructure":test\nx')
    down = slurm.node(node)
    assert (down.base, down.usable, down.reason) == ("DOWN", False, "stepward: infrastructure :test x")
    assert down.reason_by == "root" and down.reason_at is not None
    again = until(lambda: (one := slurm.job(number)).state is State.RUNNING and one.restarts and one, "its next launch")
    assert node not in again.nodes
    lost = until(lambda: (all_ := slurm.attempts(number))[1:] and all_, "accounting of both")[0]
    assert (lost.slurm_state, lost.state, lost.nodes) == ("NODE_FAIL", State.LOST, (node,))
    slurm.update_node(node, state="resume")
    until(lambda: slurm.node(node).usable, "the node's return")
    slurm.cancel(number)
    until(lambda: all(one.state == "idle" for one in slurm.nodes()), "idle nodes")


def test_what_nobody_knows_is_named(slurm):
    with pytest.raises(NotFound) as caught:
        slurm.job("4000000")
    assert caught.value.code == "unknown_job"
    for ask in (slurm.cancel, slurm.hold, slurm.release, slurm.requeue, slurm.attempts):
        with pytest.raises(NotFound) as caught:
            ask("4000000")
        assert caught.value.code == "unknown_job", ask
    with pytest.raises(NotFound) as caught:
        slurm.node("nowhere")
    assert caught.value.code == "unknown_node"


def test_comments_are_written_where_squeue_shows_them(slurm, tmp_path):
    number = slurm.submit(job(tmp_path, "sleep", "600"))
    slurm.set_admin_comment(number, "http://127.0.0.1:7070/runs/run_x y=z")
    assert slurm.job(number).admin_comment == "http://127.0.0.1:7070/runs/run_x y=z"


def test_a_dead_controller_is_no_empty_queue(new_slurm_cluster):
    lab = new_slurm_cluster("bare", nodes=1, controller={"accounting": False, "rest": False})
    slurm = Slurm(lab.conf)
    number = lab.submit("sleep 600", "--mem=50M")
    began = begun(slurm, number).started_at
    # slurmctld saves the state of its jobs a while after it changes (in a second or five), and a controller that dies before
    # has its job back as it was saved: waiting. Then it starts it once more. What is saved with the mark is saved running.
    slurm.set_admin_comment(number, "saved while it runs")
    until(lambda: _holds(f"{lab.folder}/state/job_state", b"saved while it runs"), "the job's state on disk")
    with pytest.raises(Conflict) as caught:
        slurm.history(0)
    assert caught.value.code == "slurm_no_accounting"
    assert [one.up for one in slurm.ping()] == [True]
    with open(f"{lab.folder}/run/slurmctld.pid") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    hurried = Slurm(lab.impatient())
    until(lambda: not any(one.up for one in hurried.ping()), "the controller's end")
    for ask in (hurried.jobs, lambda: hurried.requeue(number)):
        with pytest.raises(Unavailable) as down:
            ask()
        assert down.value.code == "slurm_unreachable"
    subprocess.run(["slurmctld"], env=lab.env, check=True)
    found = until(lambda: _quietly(slurm, number), "the controller's return")
    assert (found.state, found.restarts, found.started_at) == (State.RUNNING, 0, began)


def _quietly(slurm, number):
    try:
        found = slurm.job(number)
    except StepwardError:
        return None
    return found if found.state is not State.QUEUED else None


def _holds(path, words):
    try:
        with open(path, "rb") as file:
            return words in file.read()
    except FileNotFoundError:
        return False
