"""Devices through recorded answers of NVML: readings, memory by job, checks, and a driver that opens late or not at all."""

from types import SimpleNamespace as Struct

import pytest

from stepward.agent.accelerators import Accelerators, has_driver
from stepward.agent.checks.rounds import Rounds
from stepward.agent.jobs import Jobs


class Nvml:
    """Two devices, of which some values are there."""

    answers = {
        "nvmlSystemGetDriverVersion": lambda: "550.54",
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlDeviceGetName": lambda handle: "NVIDIA H100",
        "nvmlDeviceGetMemoryInfo": lambda handle: Struct(total=80, used=40 + handle),
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [
            Struct(pid=11, usedGpuMemory=10),
            Struct(pid=12, usedGpuMemory=None),
            Struct(pid=99, usedGpuMemory=5),
        ],
    }

    def __getattr__(self, name):
        def answer(*arguments):
            if name not in self.answers:
                raise RuntimeError("NVML_ERROR_NOT_SUPPORTED")
            return self.answers[name](*arguments)

        return answer


@pytest.fixture
def node(host):
    host.process(11, environ={"SLURM_JOB_ID": "42", "SLURMD_NODENAME": "n1"})
    host.process(12, parent=11)
    jobs = Jobs("n1", host.root)
    jobs.scan(0.0)
    node = Struct(kept=[], described=[], loaded=[Nvml()])
    node.accelerators = Accelerators(
        jobs,
        keep=node.kept.extend,
        rounds_of=lambda checks: Rounds(checks, lambda: 1, lambda event: None),
        described=node.described.extend,
        load=lambda: node.loaded[0],
    )
    return node


def test_devices_are_read_and_their_memory_is_shared_out_to_jobs(node):
    node.accelerators.sample()
    found = {(reading.metric, reading.device): reading.value for reading in node.kept}
    assert found["system/device/memory_used", 1] == 41
    assert found["system/job/42/device_memory", None] == 20
    assert [device["uuid"] for device in node.described] == ["GPU-0", "GPU-1"]
    node.accelerators.sample()
    assert len(node.described) == 2


def test_checks_are_there_once_the_driver_has_answered(node):
    assert not node.accelerators.check(lambda: 0.0)
    node.accelerators.sample()
    assert node.accelerators.check(lambda: 0.0)
    results = {finding.check.name: finding.answer.result for finding in node.accelerators.rounds.findings()}
    assert results["devices_lost"] == "ok"
    assert results["ecc_uncorrected"] == "unknown"


def test_a_driver_that_does_not_open_is_tried_again(node):
    nvml, node.loaded[0] = node.loaded[0], None
    node.accelerators.sample()
    assert (node.kept, node.accelerators.rounds) == ([], None)
    node.loaded[0] = nvml
    node.accelerators.sample()
    assert node.accelerators.rounds is not None


def test_a_host_has_the_driver_or_not(tmp_path):
    assert not has_driver(str(tmp_path / "nvidiactl"))
    (tmp_path / "nvidiactl").touch()
    assert has_driver(str(tmp_path / "nvidiactl"))
