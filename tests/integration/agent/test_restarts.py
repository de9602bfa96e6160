"""The policy of restarts on a real cluster: off a sick node and on with the training, and no further where nothing helps."""

import os
import sys

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
TRAIN = f"""
import os, time
import stepward as sw
run = sw.init(name="restarts", capture_output=True)
start = run.resume("checkpoints")
run.autocheckpoint(lambda path: open(f"{{path}}/part-{{run.rank}}", "w").close(), every=10, folder="checkpoints")
first = os.environ.get("SLURM_RESTART_COUNT", "0") == "0"
for i in range(start.step + 1 if start else 0, 6000):
    with run.step(i):
        time.sleep(0.1)
    if first and i == 25 and run.rank == 1:
        print({XID!r}, flush=True)
"""


@pytest.fixture(scope="module")
def cluster(managed_cluster):
    restarts = {"policy": "infrastructure", "progress_within_s": 300}
    slurm = {"cred_expire_s": 5, "slurmd_timeout_s": 60, "kill_wait_s": 5}
    return managed_cluster("restarts", restarts=restarts, slurm=slurm)


@pytest.fixture
def slurm(cluster, slurm_commands):
    return slurm_commands(f"{cluster.records.folder('restarts')}/etc/slurm.conf")


@pytest.fixture
def job(server, slurm, tmp_path, until):
    """Submits a job; what asks for its run. It is cancelled at the end."""
    jobs = []

    def submit(script, nodes):
        os.chdir(tmp_path)
        state = {
            "HOME": str(tmp_path),
            "XDG_STATE_HOME": f"{server.folder}/state",
            "STEPWARD_DIR": str(tmp_path / "spool"),
        }
        jobs.append(slurm.submit(script, nodes=nodes, output=tmp_path / "out", **state))
        return jobs[-1], until(lambda: server.client.job("restarts", jobs[-1]).run)

    yield submit
    for one in jobs:
        slurm.slurm.cancel(one)


def actions(server, run, kind):
    return [one for one in server.client.actions(run=run, kind=kind).items if not one.dry_run]


def test_a_job_is_moved_off_a_sick_node_and_goes_on_beyond_where_it_was(server, slurm, job, tmp_path, until):
    (tmp_path / "train.py").write_text(TRAIN)
    number, run = job(f"srun {sys.executable} train.py", 2)
    before = until(lambda: slurm.nodes_of(number))
    (event,) = until(lambda: server.client.events(run, type="hardware_fault", certainty="confirmed"))
    (move,) = until(lambda: actions(server, run, "job_requeue"))
    (sick,) = event.nodes
    assert sick in before
    assert (move.actor, move.policy, move.job) == ("stepward", "restarts:infrastructure", number)
    assert until(lambda: slurm.reason(sick)) == f"stepward:infrastructure:gpu_off_bus:{event.id}"
    after = until(lambda: (nodes := slurm.nodes_of(number)) and server.client.run(run).attempts[1:] and nodes)
    assert sick not in after
    resumed = until(lambda: actions(server, run, "run_resume") and actions(server, run, "run_resume")[0])
    until(lambda: actions(server, run, "run_resume")[0].outcome == "done")
    first, second = server.client.run(run).attempts
    assert (first.state, second.state) == ("preempted", "running")
    assert second.last_step > first.last_step >= second.first_step - 1 > 20
    assert resumed.data["attempt"] == 2
    assert [one.outcome for one in actions(server, run, "job_requeue")] == ["done"]


def test_a_job_that_dies_twice_without_a_step_is_held_until_somebody_releases_it(server, cluster, slurm, job, until):
    number, run = job("sleep 600", 1)
    provider, dead = cluster.of("restarts"), []
    for attempt in (1, 2):
        (node,) = until(lambda: slurm.nodes_of(number))
        until(lambda count=attempt: len(server.client.run(run).attempts) == count)
        dead.append(node)
        provider.kill_node(node)
        until(lambda node=node: slurm.state(node) == "down")
    until(lambda: slurm.slurm.job(number).held)
    (stopped,) = until(lambda: server.client.events(run, type="restart_stopped"))
    assert "attempts 1 and 2 died before its first step" in stopped.title
    (held,) = actions(server, run, "job_hold")
    assert (held.outcome, held.job) == ("done", number)
    assert [one.outcome for one in actions(server, run, "run_resume")] == ["failed"]
    for node in dead:
        provider.power_on(node)
    slurm.slurm.release(number)
    until(lambda: slurm.nodes_of(number))
    assert len(actions(server, run, "job_hold")) == 1
