"""A node of a real Slurm cluster loses its power: taken down by its silence, its job requeued, given back with it."""

import time

import pytest

from stepward.clusters.health import PREFIX

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster(managed_cluster):
    """A cluster of four nodes; Slurm itself would take minutes to see a dead one."""
    return managed_cluster("health", slurm={"cred_expire_s": 5, "slurmd_timeout_s": 60, "kill_wait_s": 2})


def test_a_killed_node_is_down_by_its_silence_and_comes_back(server, cluster, slurm_commands, until):
    record = cluster.records.get("health")
    slurm, provider = slurm_commands(f"{cluster.records.folder('health')}/etc/slurm.conf"), cluster.of("health")

    def nodes():
        return {node.name: node for node in server.client.nodes(cluster=record.slurm_name)}

    until(lambda: sum(node.state == "live" and bool(node.checks) for node in nodes().values()) == 4)
    assert not any(node.bad for node in nodes().values())
    assert {check.result for node in nodes().values() for check in node.checks if check.name == "slurmd"} == {"ok"}
    job = slurm.submit("srun sleep 600", nodes=2)
    victim, other = until(lambda: slurm.nodes_of(job))
    (on_node,) = until(lambda: (jobs := nodes()[victim].jobs) and jobs[0].run and jobs)
    assert on_node.name == job
    until(lambda: f"system/job/{job}/memory" in series_of(server, on_node.run, victim))
    slurm.drain(other_node := next(name for name in nodes() if name not in (victim, other)), "admin: new fan")

    killed = time.monotonic()
    provider.kill_node(victim)
    until(lambda: slurm.reason(victim).startswith(PREFIX))
    print(f"\nkill to down: {time.monotonic() - killed:.1f} s")
    assert nodes()[victim].state == "lost"
    until(lambda: slurm.nodes_of(job) and victim not in slurm.nodes_of(job))
    print(f"kill to running elsewhere: {time.monotonic() - killed:.1f} s")
    event = next(one for one in server.client.events(nodes()[victim].run, type="node_lost"))
    assert slurm.reason(victim) == f"{PREFIX}{event.id}"
    assert event.ended_at is None

    back = time.monotonic()
    provider.power_on(victim)
    until(lambda: slurm.state(victim) == "idle")
    print(f"power to idle: {time.monotonic() - back:.1f} s")
    assert until(lambda: server.client.events(nodes()[victim].run, type="node_lost")[0].ended_at)
    assert slurm.reason(other_node) == "admin: new fan"
    assert slurm.state(other_node) in ("drained", "draining")


def series_of(server, run, node):
    found = server.client.run_nodes(run)
    return [series.metric for one in found if one.node == node for series in one.series]
