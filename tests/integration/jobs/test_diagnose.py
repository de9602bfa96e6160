"""``stepward diagnose --slurm`` against the real thing: with output, purged, another user's, controller or accounting gone."""

import json
import os
import signal
import subprocess
import sys

import pytest

from stepward.orchestrators.slurm.commands import Slurm

from .conftest import ended, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def diagnose(lab, job, *, powerless=False, conf=None):
    """Run the command as a person would, on the host of the cluster; exit code, stdout, stderr.

    ``powerless`` takes from root what lets it read everybody's files; ``conf`` is another slurm.conf than the cluster's.
    """
    become = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if powerless else []
    argv = [*become, sys.executable, "-m", "stepward", "diagnose", "--slurm", job, "--format", "json"]
    env = {**lab.env, "PATH": f"{lab.env['PATH']}:{os.environ['PATH']}", "HOME": "/tmp"}
    env["SLURM_CONF"] = conf or lab.conf
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, cwd="/")
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def document(lab, job, **more):
    code, out, err = diagnose(lab, job, **more)
    assert (code, err) == (0, "")
    return json.loads(out)


def missing(found):
    return [one["why"] for one in found["unknown"] if one["analyzer"] == "slurm"]


def test_a_job_is_explained_by_what_slurm_and_its_output_say(slurm, slurm_cluster, tmp_path):
    output = tmp_path / "out-%j"
    crash = "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB'; exit 1"
    job = slurm_cluster.submit(crash, "-o", str(output), "--mem=50M")
    ended(slurm, job)
    found = document(slurm_cluster, job)
    assert found["outcome"] == "failed" and missing(found) == []
    assert found["causes"][0]["label"] == "gpu_oom"
    assert {one["source"] for one in found["inputs"]} >= {f"out-{job}", "scontrol.txt"}
    # The same job asked by somebody who may not read its output.
    os.chown(tmp_path / f"out-{job}", 65534, 65534)
    os.chmod(tmp_path / f"out-{job}", 0o600)
    foreign = document(slurm_cluster, job, powerless=True)
    assert foreign["outcome"] == "failed"
    assert any("cannot be read here" in why for why in missing(foreign))


def test_a_job_that_only_accounting_remembers(new_slurm_cluster):
    lab = new_slurm_cluster("forgetful", nodes=1, controller={"accounting": True, "rest": False})
    slurm, hurried = Slurm(lab.conf), lab.impatient()
    job = lab.submit("exit 3", "--mem=50M")
    ended(slurm, job)
    until(lambda: _told(slurm, job), "accounting")
    _kill(lab, "slurmctld")
    # The controller is gone: accounting alone answers, and the answer says so.
    found = document(lab, job, conf=hurried)
    assert found["outcome"] == "failed"
    assert any("no controller" in why for why in missing(found))
    # It comes back without its memory, as after MinJobAge.
    subprocess.run(["slurmctld", "-c"], env=lab.env, check=True)
    until(lambda: any(one.up for one in slurm.ping()), "the controller")
    purged = document(lab, job)
    assert purged["outcome"] == "failed" and any("has left the controller" in why for why in missing(purged))
    assert slurm.job(job).exit_code == 3
    code, out, err = diagnose(lab, "4000000")
    assert (code, out) == (1, "") and "[unknown_job]" in err
    code, out, err = diagnose(lab, "x y")
    assert (code, out) == (2, "") and "[bad_job]" in err
    _kill(lab, "slurmctld")
    _kill(lab, "slurmdbd")
    code, out, err = diagnose(lab, job, conf=hurried)
    assert (code, out) == (75, "") and "[slurm_unreachable]" in err


def _told(slurm, job):
    return any(one.state.terminal for one in slurm.history(0) if one.id == job)


def _kill(lab, daemon):
    with open(f"{lab.folder}/run/{daemon}.pid") as file:
        os.kill(int(file.read()), signal.SIGKILL)
