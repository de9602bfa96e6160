"""Every way a job can go, on a real Slurm, seen without a change to it: states, words and times are those of Slurm."""

import os
import sys

import pytest

from .conftest import TOLERANCE_S, check_times, running, seconds

pytestmark = pytest.mark.integration

SDK = """
import time, stepward as sw
run = sw.init({how})
for step in range(3):
    with run.step(step):
        run.log({{"loss": 1.0 / (step + 1)}}, step=step)
time.sleep({rest})
"""


def program(folder, how, rest=3):
    path = folder / f"{abs(hash(how))}.py"
    path.write_text(SDK.format(how=how, rest=rest))
    return f"srun {sys.executable} {path}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module", autouse=True)
def jobs(rig, folder):
    """Name -> job: all at once, for most of a test is the job's own time."""
    submit, small = rig.lab.submit, "--mem=10"
    export = "--export=" + ",".join(["ALL", *(f"{name}={value}" for name, value in rig.inside().items() if value)])
    made = {"late": submit("sleep 600", "-t", "1", "-w", "n-3", small)}
    made["requeued"] = submit('test -n "$SLURM_RESTART_COUNT" || sleep 600', "--requeue", "-w", "n-3", small)
    made["well"] = submit(
        "echo to people; echo to nobody >&2; sleep 1", "-J", "well", "-o", f"{folder}/out-%j.txt", small
    )
    made["bad"] = submit("exit 7", small)
    made["signal"] = submit("kill -SEGV $$", small)
    made["memory"] = submit("python3 -c 'x = bytearray(300 << 20)'", "--mem=60")
    made["cancelled"] = submit("sleep 600", small)
    made["held"] = submit("true", "-H", small)
    made["first"] = submit("sleep 6", small)
    made["second"] = submit("true", "-d", f"afterok:{made['first']}", small)
    made["array"] = submit("exit $((SLURM_ARRAY_TASK_ID % 2))", "--array=0-3%2", "-J", "sweep", small)
    parts = ["-N1", small, ":", "-N1", small, "--wrap", "sleep 2"]
    made["parts"] = rig.lab.run("sbatch", "--parsable", "-o", "/dev/null", *parts).strip()
    made["suspended"] = submit("sleep 600", small)
    secret = folder / "secret.txt"
    secret.write_text("nobody's business")
    os.chown(secret, 65534, 65534)
    made["secret"] = submit("sleep 1", "-o", str(secret), "--open-mode=append", small)
    wrapped = f"srun {sys.executable} -m stepward run -- bash -c 'echo once; sleep 2; exit 5'"
    made["wrapped"] = submit(wrapped, export, "--mem=500", "-o", f"{folder}/wrapped.txt")
    made["sdk"] = submit(program(folder, 'name="mine"'), export, "--mem=500")
    for how in ELSEWHERE:
        made[how] = submit(program(folder, how, rest=8), export, "--mem=500")
    # Slurm counts limits in minutes; an administrator may bring the end of one that runs nearer.
    rig.until(lambda: rig.lab.job_state(made["late"]) == "RUNNING", "the first job")
    rig.lab.run("scontrol", "update", f"jobid={made['late']}", "endtime=now+1")
    return made


ELSEWHERE = ['project="elsewhere"', 'run="my-own-key"']


def test_a_job_that_ends_well(rig, jobs):
    job = jobs["well"]
    run = rig.ended(job, "finished")
    (attempt,) = run["attempts"]
    assert (run["name"], attempt["exit_code"], len(attempt["nodes"])) == ("well", 0, 1)
    check_times(rig, job)
    (submitted,) = rig.events(job, "job_submitted")
    assert abs(seconds(submitted["started_at"]) - int(rig.accounted(job)[0]["Submit"])) <= TOLERANCE_S
    (allocation,) = rig.events(job, "allocation")
    assert allocation["data"]["nodes"] == attempt["nodes"]
    assert (allocation["started_at"], allocation["ended_at"]) == (attempt["started_at"], attempt["ended_at"])
    stream = rig.until(lambda: rig.get(f"runs/{run['id']}/logs"), "the output")[0]
    page = rig.get(f"runs/{run['id']}/logs/{stream['id']}")
    assert [line["text"] for line in page["lines"]] == ["to people", "to nobody"]
    assert stream["attempt"] == 1


def test_a_living_job_has_a_link_to_its_run(rig, jobs):
    job = jobs["suspended"]
    link = f"AdminComment={rig.url}/runs/{running(rig, job)['id']}"
    rig.until(lambda: link in rig.lab.run("scontrol", "show", "job", job), "the link")


def test_a_suspended_job_says_so(rig, jobs):
    job = jobs["suspended"]
    running(rig, job)
    rig.lab.run("scontrol", "suspend", job)
    rig.until(lambda: rig.run(job)["state_reason"] == "suspended", "the suspension")
    assert rig.run(job)["state"] == "running"
    rig.lab.run("scontrol", "resume", job)
    rig.until(lambda: rig.run(job)["state_reason"] is None, "the resumption")
    rig.lab.run("scancel", job)


def test_a_job_that_fails(rig, jobs):
    (attempt,) = rig.ended(jobs["bad"], "failed")["attempts"]
    assert attempt["exit_code"] == 7
    check_times(rig, jobs["bad"])


def test_a_job_that_a_signal_ends(rig, jobs):
    (attempt,) = rig.ended(jobs["signal"], "failed")["attempts"]
    assert (attempt["exit_code"], attempt["signal"]) == (None, "SIGSEGV")


def test_a_job_over_its_memory(rig, jobs):
    assert "memory" in rig.ended(jobs["memory"], "oom")["state_reason"]
    check_times(rig, jobs["memory"])


def test_a_job_that_its_user_cancels(rig, jobs):
    running(rig, jobs["cancelled"])
    rig.lab.run("scancel", jobs["cancelled"])
    rig.ended(jobs["cancelled"], "cancelled")
    check_times(rig, jobs["cancelled"])


def test_a_held_job_says_why_it_waits_and_what_to_do_and_is_cancelled_while_it_waits(rig, jobs):
    job = jobs["held"]
    held = rig.until(lambda: (rig.run(job) or {}).get("state") == "queued" and rig.run(job), "the held job")
    assert "JobHeldUser: it is held by its user; stepward jobs release" in held["state_reason"]
    rig.lab.run("scancel", job)
    run = rig.ended(job, "cancelled")
    assert run["attempts"][0]["nodes"] == []
    (wait,) = rig.events(job, "queued")
    assert wait["data"]["reason"] == "JobHeldUser"
    assert wait["ended_at"] == run["ended_at"]


def test_a_job_waits_for_the_one_that_it_depends_on(rig, jobs):
    job = jobs["second"]
    rig.ended(job, "finished")
    check_times(rig, job)
    assert "Dependency" in {wait["data"]["reason"] for wait in rig.events(job, "queued")}


def test_each_task_of_an_array_is_a_run(rig, jobs):
    job = jobs["array"]
    for task in range(4):
        run = rig.ended(f"{job}_{task}", "failed" if task % 2 else "finished")
        assert run["name"] == f"sweep[{task}]"
    assert rig.run(job) is None


def test_a_job_of_parts_is_one_run_of_all_their_nodes(rig, jobs):
    job = jobs["parts"]
    rig.ended(job, "finished")
    assert [name for name in rig.runs() if name in (job, f"{job}+1", str(int(job) + 1))] == [job]


def test_a_file_of_somebody_else_is_not_read(rig, jobs):
    run = rig.ended(jobs["secret"], "finished")
    (said,) = rig.until(lambda: rig.events(jobs["secret"], "output_unreadable"), "the refusal")
    assert "does not belong to the job's user" in said["title"]
    assert rig.get(f"runs/{run['id']}/logs") == []


def test_a_program_under_the_wrapper_is_the_same_attempt_and_its_output_is_not_doubled(rig, jobs):
    job = jobs["wrapped"]
    run = rig.ended(job, "failed")
    (attempt,) = run["attempts"]
    assert attempt["key"].startswith("slurm.0/step.0/")
    assert attempt["exit_code"] == 5
    check_times(rig, job)
    assert {source["kind"] for source in rig.get(f"runs/{run['id']}/sources")} >= {"watcher", "wrapper"}
    rig.until(lambda: rig.events(job, "output_from_inside"), "the word on its output")
    streams = rig.get(f"runs/{run['id']}/logs")
    assert [stream["stream"] for stream in streams] == ["stdout"]


def test_a_program_with_the_sdk_is_the_same_attempt(rig, jobs):
    run = rig.ended(jobs["sdk"], "finished")
    (attempt,) = run["attempts"]
    assert (run["name"], attempt["key"], attempt["ranks"]) == ("mine", "slurm.0/step.0", 1)
    assert run["latest"]["loss"]["step"] == 2
    check_times(rig, jobs["sdk"])


@pytest.mark.parametrize("how", ELSEWHERE)
def test_a_job_is_told_in_the_run_that_its_program_names(rig, jobs, how):
    job, asked = jobs[how], f"jobs/claims?cluster={rig.lab.slurm_name}"
    there = rig.until(lambda: [c for c in rig.get(asked) if c["job"] == job], "the claim")[0]["run"]

    def ended():
        run = rig.get(f"runs/{there}")
        return run if run["state"] == "finished" and run["attempts"][-1]["nodes"] else None

    (attempt,) = rig.until(ended, "the end there")["attempts"]
    assert attempt["key"] == "slurm.0/step.0"
    rig.until(lambda: [e for e in rig.get(f"runs/{there}/events") if e["type"] == "allocation"], "the story")
    ours = f"slurm:{rig.lab.slurm_name}:{job}"
    left = lambda: [run["id"] for run in rig.get("runs?limit=500")["items"] if run["key"] == ours]  # noqa: E731
    rig.until(lambda: left() in ([], [there]), "the move")


def test_a_job_that_is_requeued_by_hand_was_cancelled_and_goes_on(rig, jobs):
    job = jobs["requeued"]
    running(rig, job)
    rig.lab.run("scontrol", "requeue", job)
    before, after = rig.ended(job, "finished")["attempts"]
    assert (before["state"], after["state"]) == ("cancelled", "finished")
    assert rig.events(job, "requeued")[0]["data"]["by"] == "user"
    check_times(rig, job)


def test_a_lost_node_ends_an_attempt_and_the_next_runs_elsewhere(rig, folder):
    command = 'echo attempt $SLURM_RESTART_COUNT; test -n "$SLURM_RESTART_COUNT" || sleep 600'
    job = rig.lab.submit(command, "-N2", "-x", "n-3", "--requeue", "-o", f"{folder}/lost.txt", "--mem=10")
    (first,) = running(rig, job)["attempts"]
    victim = first["nodes"][0]
    rig.lab.provider.kill_node(victim)
    rig.lab.run("scontrol", "update", f"nodename={victim}", "state=down", "reason=stepward:infrastructure:heartbeat:1")
    waiting = rig.until(lambda: rig.run(job)["state"] == "waiting" and rig.run(job), "the wait")
    assert waiting["attempts"][-1]["state"] in ("queued", "lost")
    before, after = rig.ended(job, "finished")["attempts"]
    assert (before["state"], before["nodes"], after["key"]) == ("lost", first["nodes"], "slurm.1")
    assert victim in before["reason"]
    assert victim not in after["nodes"]
    check_times(rig, job)
    (failed,) = rig.events(job, "node_failed")
    assert (failed["data"]["nodes"], failed["attempt"]) == ([victim], 1)
    (requeued,) = rig.events(job, "requeued")
    assert requeued["data"] == {"by": "stepward", "cause": "node_fail"}
    assert {wait["attempt"] for wait in rig.events(job, "queued")} >= {2}


def test_a_job_over_its_time(rig, jobs):
    run = rig.ended(jobs["late"], "timeout")
    assert run["attempts"][0]["reason"] == "over its time limit of 1 min"
    check_times(rig, jobs["late"])
