"""The settings of a Slurm that hurt are named, each with what, why and what to set instead."""

import pytest

from stepward.clusters.advice import advise

# What `scontrol show config` of Debian's 22.05 says of a slurm.conf that names only the cluster, its nodes and partitions.
DEFAULTS = {
    "AccountingStorageType": "(null)",
    "AuthInfo": "(null)",
    "JobFileAppend": "0",
    "JobRequeue": "1",
    "KillWait": "30 sec",
    "ProctrackType": "proctrack/cgroup",
    "Prolog": "(null)",
    "PrologEpilogTimeout": "65534",
    "PrologFlags": "(null)",
    "ReturnToService": "0",
    "SelectTypeParameters": "CR_CORE",
    "SlurmdTimeout": "300 sec",
    "StateSaveLocation": "/var/spool",
    "TaskPlugin": "task/none",
    "UnkillableStepTimeout": "60 sec",
}


def found(**changes):
    return {one.name: one for one in advise(DEFAULTS | changes) if one.status != "ok"}


def test_the_defaults_of_slurm_are_flagged():
    said = found()
    assert set(said) == {
        "cred_expire",
        "SlurmdTimeout",
        "accounting",
        "ReturnToService",
        "memory_limit",
        "JobFileAppend",
    }
    assert said["cred_expire"].found == "120 s (default)"
    assert all(one.why and one.advice for one in said.values())


@pytest.mark.parametrize(
    ("name", "changes", "status"),
    [
        ("cred_expire", {"AuthInfo": "socket=/run/x,cred_expire=2"}, "bad"),
        ("cred_expire", {"AuthInfo": "cred_expire=31"}, "bad"),
        ("cred_expire", {"AuthInfo": "cred_expire=5"}, None),
        ("SlurmdTimeout", {"SlurmdTimeout": "0 sec"}, "bad"),
        ("SlurmdTimeout", {"SlurmdTimeout": "60 sec"}, None),
        ("JobRequeue", {"JobRequeue": "0"}, "bad"),
        ("accounting", {"AccountingStorageType": "accounting_storage/none"}, "bad"),
        ("accounting", {"AccountingStorageType": "accounting_storage/slurmdbd"}, None),
        (
            "accounting_gpus",
            {
                "AccountingStorageType": "accounting_storage/slurmdbd",
                "GresTypes": "gpu",
                "AccountingStorageTRES": "cpu,mem",
            },
            "warn",
        ),
        ("ReturnToService", {"ReturnToService": "2"}, None),
        ("memory_limit", {"TaskPlugin": "task/cgroup,task/affinity", "ConstrainRAMSpace": "yes"}, "bad"),
        (
            "memory_limit",
            {
                "TaskPlugin": "task/cgroup",
                "ConstrainRAMSpace": "yes",
                "SelectTypeParameters": "CR_CPU_MEMORY",
            },
            None,
        ),
        ("ProctrackType", {"ProctrackType": "proctrack/linuxproc"}, "warn"),
        ("PrologFlags", {"Prolog": "/etc/slurm/prolog.sh"}, "warn"),
        ("PrologFlags", {"Prolog": "/etc/slurm/prolog.sh", "PrologFlags": "Contain,X11"}, None),
        ("PrologEpilogTimeout", {"Prolog": "/etc/slurm/prolog.sh"}, "warn"),
        ("PrologEpilogTimeout", {"Prolog": "/p", "PrologEpilogTimeout": "30 sec"}, None),
        ("UnkillableStepTimeout", {"KillWait": "90 sec"}, "bad"),
        ("StateSaveLocation", {"StateSaveLocation": "/tmp/slurm"}, "warn"),
    ],
)
def test_a_setting_is_judged_by_its_value(name, changes, status):
    said = found(**changes).get(name)
    assert (said.status if said else None) == status


def test_an_empty_answer_is_no_clean_bill():
    assert {one.name for one in advise({}) if one.status == "bad"} >= {"cred_expire", "SlurmdTimeout", "accounting"}
