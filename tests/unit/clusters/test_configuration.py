"""What Slurm is given to read: safe settings, every node with its port, pools as they were asked for."""

import re

import pytest

from stepward.clusters.advice import advise
from stepward.clusters.providers.local.configuration import Host, files
from stepward.clusters.providers.local.layout import Layout, check_folder
from stepward.clusters.reading import spec_of
from stepward.clusters.record import ClusterRecord, Ports
from stepward.clusters.spec import nodes_of, permanent_nodes, spare_nodes
from stepward.errors import UsageError

LAYOUT = Layout("/srv/clusters/lab")


def record_of(value):
    spec = spec_of(value)
    ports = Ports(
        controller=1, accounting=2, database=3, rest=4, nodes={n: 100 + i for i, n in enumerate(nodes_of(spec))}
    )
    return ClusterRecord(name="lab", slurm_name="lab_abc123", spec=spec, ports=ports)


def rendered(value, name="slurm.conf", **host):
    return files(record_of(value), LAYOUT, Host(**{"memory_limits": True} | host), "secret")[name][0]


def settings(text):
    pairs = [line.partition("=") for line in text.splitlines()]
    return {name: value for name, _, value in pairs if name not in ("NodeName", "PartitionName")}


def lines(text, beginning):
    return [
        dict(part.split("=", 1) for part in line.split()) for line in text.splitlines() if line.startswith(beginning)
    ]


def test_the_settings_pass_our_own_doctor(whole):
    conf = settings(rendered(whole))
    cgroup = settings(rendered(whole, "cgroup.conf"))
    assert [one for one in advise(conf | cgroup) if one.status != "ok"] == []
    assert conf["AuthInfo"].endswith(",cred_expire=5")
    assert (conf["JobRequeue"], conf["ReturnToService"], conf["SlurmdTimeout"]) == ("1", "1", "30")
    assert conf["RequeueExit"] == "75"
    assert "NoInAddrAny" in conf["CommunicationParameters"]
    assert conf["AccountingStoragePass"] == LAYOUT.munge_socket


def test_daemons_listen_where_they_look_for_each_other(whole):
    for name in ("slurm.conf", "slurmdbd.conf"):
        assert "NoInAddrAny" in settings(rendered(whole, name))["CommunicationParameters"]
        # There the address that they would take instead is that of the host's name, and not what the others are told.
        assert "CommunicationParameters" not in settings(rendered(whole, name, loopback_name=False))


def test_every_node_is_declared_once_and_spares_are_powered(whole):
    conf = rendered(whole)
    nodes = {line["NodeName"]: line for line in lines(conf, "NodeName")}
    assert list(nodes) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "cpu-0"]
    assert [node["State"] for node in nodes.values()] == ["UNKNOWN", "UNKNOWN", "CLOUD", "CLOUD", "CLOUD"]
    assert len({node["Port"] for node in nodes.values()}) == 5
    assert nodes["gpu-3"]["Gres"] == "gpu:h100:8" and "Gres" not in nodes["cpu-0"]
    assert nodes["gpu-0"]["Feature"] == "gpu,zone_a,rack_r1"
    assert settings(conf)["SuspendExcNodes"] == "gpu-0,gpu-1"
    spec = spec_of(whole)
    assert permanent_nodes(spec) == ["gpu-0", "gpu-1"] and spare_nodes(spec) == ["gpu-2", "gpu-3", "cpu-0"]


def test_partitions_hold_their_pools_and_one_is_the_default(whole):
    whole["partitions"][1]["up"] = False
    main, every = lines(rendered(whole), "PartitionName")
    assert (main["Nodes"], main["Default"], main["MaxTime"]) == ("gpu-0,gpu-1,gpu-2,gpu-3", "YES", "7-00:00:00")
    assert (every["Default"], every["State"], every["DefMemPerCPU"]) == ("NO", "DOWN", "2000")


def test_without_spares_nothing_is_powered_and_a_login_pool_runs_no_jobs(whole):
    whole["node_pools"][0]["max_nodes"] = 2
    whole["partitions"][1]["node_pools"] = ["gpu"]
    whole["login"] = {"node_pool": "cpu"}
    conf = rendered(whole)
    assert "ResumeProgram" not in conf and "cpu-0" not in conf and "RebootProgram" in conf


def test_without_memory_groups_the_limits_are_left_to_others(whole):
    conf = settings(rendered(whole, memory_limits=False))
    assert (conf["TaskPlugin"], conf["ProctrackType"], conf["SelectTypeParameters"]) == (
        "task/none",
        "proctrack/linuxproc",
        "CR_Core",
    )
    assert "memory_limit" in {one.name for one in advise(conf) if one.status == "bad"}


def test_the_database_password_is_in_a_private_file_alone(whole):
    made = files(record_of(whole), LAYOUT, Host(memory_limits=True), "hunter2hunter2")
    assert {name for name, (content, _) in made.items() if "hunter2" in content} == {"slurmdbd.conf"}
    assert made["slurmdbd.conf"][1] == 0o600


def test_devices_are_named_for_each_pool_with_gpus(whole):
    assert rendered(whole, "gres.conf").splitlines() == [
        "AutoDetect=off",
        f"NodeName=gpu-0,gpu-1,gpu-2,gpu-3 Name=gpu Type=h100 File={LAYOUT.folder}/dev/nvidia[0-7]",
    ]
    whole["node_pools"][0]["shape"] = {"cpus": 1, "memory_mb": 100, "gpus": 1}
    assert rendered(whole, "gres.conf").endswith("Name=gpu File=/srv/clusters/lab/dev/nvidia0\n")


def test_no_accounting_and_no_rest_leave_no_trace_of_them(whole):
    whole["controller"] = {"accounting": False, "rest": False}
    conf = rendered(whole)
    assert "slurmdbd" not in conf and "jwt" not in conf


@pytest.mark.parametrize("folder", ["/srv/my lab", "/srv/a,b", "/srv/#1", "/srv/%n", "/srv/é", "/" + "a" * 90, "lab"])
def test_a_folder_that_slurm_cannot_name_is_refused(folder):
    with pytest.raises(UsageError, match="a cluster cannot live in") as caught:
        check_folder(folder)
    assert caught.value.code == "bad_cluster_folder"


def test_every_line_is_one_that_slurm_can_read(whole):
    for line in rendered(whole).splitlines():
        assert re.fullmatch(r"[A-Za-z]+=\S*( [A-Za-z]+=\S+)*", line), line


def test_jobs_on_spares_wait_for_the_boot_and_no_others(whole):
    assert settings(rendered(whole))["PrologSlurmctld"] == LAYOUT.path("bin") + "/await_boot"
    for pool in whole["node_pools"]:
        pool["min_nodes"] = pool["max_nodes"]
    assert "PrologSlurmctld" not in settings(rendered(whole))
