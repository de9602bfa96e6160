"""Which node it is, and that there is one agent of it."""

import os
import subprocess
import sys

import pytest

from stepward.agent.lock import NodeLock
from stepward.agent.plan import Options, lock_path, make_plan
from stepward.errors import Conflict, UsageError
from stepward.model.identity import derived_run_id
from stepward.orchestrators.protocol import ProcFacts

FACTS = ProcFacts(host="gpu-07.cluster.example", boot="b00t")


def test_a_host_without_slurm_is_a_node_of_the_local_cluster(tmp_path):
    plan = make_plan(Options(), {"SLURM_CONF": str(tmp_path / "none")}, FACTS)
    assert (plan.cluster, plan.node, plan.slurm, plan.key) == ("local", "gpu-07", False, "node:local:gpu-07")
    assert plan.run == derived_run_id("_nodes", "node:local:gpu-07")


def test_slurm_names_the_cluster(tmp_path):
    conf = tmp_path / "slurm.conf"
    conf.write_text("# ClusterName=old\nclustername = lab_x7 # ours\nSlurmctldHost=a\n")
    plan = make_plan(Options(), {"SLURM_CONF": str(conf)}, FACTS)
    assert (plan.cluster, plan.slurm) == ("lab_x7", True)
    named = make_plan(Options(cluster="other", node="n1"), {"SLURM_CONF": str(conf)}, FACTS)
    assert named.key == "node:other:n1"
    source = named.writer(5).source
    assert (source.kind, source.attempt, source.node) == ("agent", "boot:b00t", "n1")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (Options(interval_s=0.5), "bad_interval"),
        (Options(interval_s=float("nan")), "bad_interval"),
        (Options(scrape=["localhost:9400"]), "bad_scrape_url"),
        (Options(scrape=["http://:9400/"]), "bad_scrape_url"),
        (Options(node="a:b"), "bad_node_name"),
        (Options(cluster="\n"), "bad_node_name"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(options, code):
    with pytest.raises(UsageError) as caught:
        make_plan(options, {}, FACTS)
    assert caught.value.code == code


def test_a_second_agent_is_refused_with_the_pid_of_the_first(tmp_path):
    path = str(tmp_path / "spool" / ".agent.json")
    first = NodeLock(path)
    code = (
        f"from stepward.agent.lock import NodeLock\ntry: NodeLock({path!r})\n"
        "except Exception as e: print(e.code, e.context['pid'])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.stdout.split() == ["agent_running", str(os.getpid())]
    first.keep(bad={"disk_space": 7})
    first.keep(kernel=42)
    first.release()
    second = NodeLock(path)
    assert (second.kept.bad, second.kept.kernel) == ({"disk_space": 7}, 42)
    second.release()


def test_a_torn_lock_file_holds_nobody_up(tmp_path):
    path = tmp_path / ".agent.json"
    path.write_bytes(b'{"pid": 1')
    lock = NodeLock(str(path))
    assert (lock.kept.bad, lock.kept.kernel) == ({}, None)
    with pytest.raises(Conflict) as caught:
        NodeLock(str(path))
    assert caught.value.context["pid"] == os.getpid()
    lock.release()


def test_nobody_takes_the_lock_for_a_run_of_the_spool():
    plan = make_plan(Options(), {}, FACTS)
    assert os.path.basename(lock_path(plan)).startswith(".")
