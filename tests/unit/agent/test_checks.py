"""What each check takes for ok, bad and unknown, on hosts made of files and on recorded answers of NVML."""

import os
import subprocess
import sys

import pytest

from stepward.agent.checks.devices import SLOW_MINUTES, WINDOW_MINUTES, DeviceChecks
from stepward.agent.checks.protocol import Result
from stepward.agent.checks.storage import Probe, Room, Storage, mounts
from stepward.agent.checks.system import InfiniBand, Slurmd, clock_sync, memory_errors, stuck_processes, system_checks
from stepward.agent.jobs import Jobs
from stepward.collect.devices import Devices

MOUNTINFO = """22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
23 22 0:5 / /proc rw,nosuid - proc proc rw
24 22 8:2 / /data rw,noatime - xfs /dev/sdb1 {data}
25 22 8:2 /sub /bind ro,noatime - xfs /dev/sdb1 {data}
26 22 7:0 / /snap ro,nodev - squashfs /dev/loop0 ro
27 22 8:3 / /backup ro,relatime - ext4 /dev/sdc1 ro
28 22 0:40 / /home\\040dirs rw,relatime - nfs4 filer:/home rw,vers=4.2,hard
"""


class Rooms:
    """Answers of ``stat -f``, and who is silent."""

    def __init__(self, silent=(), **rooms):
        self.rooms, self.silent = rooms, set(silent)

    def ask(self, points, deadline_s=5.0):
        if self.silent.intersection(points):
            return None
        whole = Room(100 << 30, 50 << 30, 1000, 500)
        return {point: self.rooms.get(point.strip("/") or "root", whole) for point in points if point != "/gone"}


def storage(host, rooms=None, data="rw"):
    host.write("/proc/self/mountinfo", MOUNTINFO.format(data=data))
    return Storage(host.root, rooms or Rooms())


def test_mounts_are_read_once_a_device():
    found = {mount.point: mount for mount in mounts(MOUNTINFO.format(data="rw"))}
    assert "/home dirs" in found
    assert "/bind" not in found
    assert not found["/backup"].writable


def test_room_is_judged_by_bytes_and_on_small_ones_by_share(host):
    assert storage(host).space(0.0).result is Result.OK
    found = storage(host, Rooms(data=Room(4 << 40, 499 << 20, 0, 0))).space(0.0)
    assert (found.result, found.value) == (Result.BAD, 499 << 20)
    assert "/data" in found.reason
    assert storage(host, Rooms(root=Room(64 << 20, 30 << 20, 0, 0))).space(0.0).result is Result.OK
    assert storage(host, Rooms(root=Room(64 << 20, 3 << 20, 0, 0))).space(0.0).result is Result.BAD
    assert storage(host, Rooms(silent=["/"])).space(0.0).result is Result.UNKNOWN


def test_inodes_are_judged_by_share(host):
    checks = storage(host, Rooms(data=Room(4 << 40, 1 << 40, 1_000_000, 9_999)))
    assert checks.inodes(0.0).result is Result.UNKNOWN
    checks.space(0.0)
    found = checks.inodes(0.0)
    assert (found.result, round(found.value, 3)) == (Result.BAD, 0.01)


def test_a_file_system_that_the_kernel_has_turned_read_only_is_bad(host):
    assert storage(host).readonly(0.0).result is Result.OK
    assert storage(host, data="ro").readonly(0.0).reason == "read-only: /data"
    assert storage(host, data="rw,emergency_ro").readonly(0.0).result is Result.BAD


def test_a_network_mount_that_does_not_answer_is_bad(host):
    assert "mount_hang" in [check.name for check in storage(host).checks()]
    assert storage(host).hang(0.0).result is Result.OK
    assert storage(host, Rooms(silent=["/home dirs"])).hang(0.0).reason == "no answer from /home dirs"


def test_a_host_without_network_mounts_has_no_check_of_them(host):
    host.write("/proc/self/mountinfo", MOUNTINFO.partition("28 ")[0].format(data="rw"))
    assert "mount_hang" not in [check.name for check in Storage(host.root, Rooms()).checks()]


def test_the_probe_asks_real_file_systems(tmp_path):
    found = Probe().ask([str(tmp_path), "/nowhere/at/all"])
    real = os.statvfs(tmp_path)
    assert list(found) == [str(tmp_path)]
    assert found[str(tmp_path)].size == real.f_blocks * real.f_frsize


def test_a_child_that_does_not_come_back_is_not_followed_by_another(tmp_path):
    marks = tmp_path / "marks"
    code = f"import os, time; open({str(marks)!r}, 'a').write('x'); time.sleep(60)"
    probe = Probe([sys.executable, "-c", code])
    stuck = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    probe._stuck[("/",)] = stuck
    assert probe.ask(["/"], 0.01) is None
    assert not marks.exists()
    stuck.kill()
    stuck.wait()
    assert probe.ask(["/"], 0.01) is None
    assert probe._stuck[("/",)].wait(10) == -9


def test_memory_errors_are_those_that_edac_counted(host):
    assert memory_errors(host.root).result is Result.UNKNOWN
    host.write("/sys/devices/system/edac/mc/mc0/ue_count", "0\n")
    host.write("/sys/devices/system/edac/mc/mc0/ce_count", "3\n")
    assert memory_errors(host.root).reason == "3 corrected"
    host.write("/sys/devices/system/edac/mc/mc1/ue_count", "2\n")
    assert (memory_errors(host.root).result, memory_errors(host.root).value) == (Result.BAD, 2)


@pytest.mark.parametrize(
    ("told", "result"),
    [
        (None, Result.UNKNOWN),
        ((False, 0.0), Result.UNKNOWN),
        ((True, 0.0001), Result.OK),
        ((True, -0.7), Result.BAD),
    ],
)
def test_a_clock_is_bad_only_where_it_is_known_to_be(told, result):
    assert clock_sync(lambda: told).result is result


def test_the_kernel_says_how_its_clock_is():
    assert clock_sync().result in Result


def test_stuck_processes(host):
    jobs = Jobs("n1", host.root)
    host.process(11, state="D", comm="python")
    jobs.scan(0.0)
    assert stuck_processes(jobs, host.root).result is Result.OK
    jobs.scan(1000.0)
    found = stuck_processes(jobs, host.root)
    assert (found.result, found.reason) == (Result.BAD, "1 processes in state D: 11 (python, 1000 s)")
    host.write("/proc/sys/kernel/pid_max", "100\n")
    jobs.stuck, jobs.zombies = [], 6
    assert stuck_processes(jobs, host.root).result is Result.BAD


def test_slurmd_is_that_of_this_node(host):
    check = Slurmd("n1", host.root)
    host.process(9, comm="slurmd", cmdline=("/usr/sbin/slurmd", "-N", "n2"))
    assert check.look(0.0).result is Result.BAD
    host.process(10, comm="slurmd", cmdline=("/usr/sbin/slurmd", "-N", "n1"))
    assert (check.look(0.0).result, check.look(0.0).value) == (Result.OK, 10)
    host.process(10, comm="slurmd", cmdline=("/usr/sbin/slurmd", "-N", "n1"), state="T")
    assert check.look(0.0).reason == "slurmd (10) is stopped"
    host.gone(10)
    assert check.look(0.0).result is Result.BAD
    assert "slurmd" not in [one.name for one in system_checks(Jobs("n1", host.root), "n1", slurm=False, root=host.root)]


def test_a_port_that_was_active_must_stay_so(host):
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    host.write(f"{port}/state", "1: DOWN\n")
    host.write(f"{port}/counters/link_downed", "0\n")
    check = InfiniBand(host.root)
    assert check.look(0.0).result is Result.UNKNOWN
    host.write(f"{port}/state", "4: ACTIVE\n")
    assert check.look(10.0).result is Result.OK
    host.write(f"{port}/counters/link_downed", "2\n")
    assert "mlx5_0:1" in check.look(20.0).reason
    assert check.look(400.0).result is Result.OK
    host.write(f"{port}/state", "1: DOWN\n")
    assert check.look(410.0).reason == "no longer active: mlx5_0:1"


class Nvml:
    """Recorded answers of two devices; ``change`` replaces some, an exception is raised."""

    def __init__(self, **change):
        self.answers = {
            "nvmlSystemGetDriverVersion": "550.54",
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetName": "NVIDIA H100",
            "nvmlDeviceGetMemoryInfo": object(),
            "nvmlDeviceGetUtilizationRates": object(),
            "nvmlDeviceGetTotalEccErrors": 0,
            "nvmlDeviceGetRemappedRows": (1, 0, 0, 0),
            "nvmlDeviceGetTemperature": 60,
            "nvmlDeviceGetTemperatureThreshold": 87,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            **change,
        }
        self.links = {0: 1, 1: 1}

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{handle}"

    def nvmlDeviceGetNvLinkState(self, handle, link):
        if link not in self.links:
            raise RuntimeError("NVML_ERROR_INVALID_ARGUMENT")
        return self.links[link]

    def __getattr__(self, name):
        def answer(*_):
            found = self.answers.get(name, RuntimeError("NVML_ERROR_NOT_SUPPORTED"))
            if isinstance(found, Exception):
                raise found
            return found

        return answer


def looks(nvml, times=1):
    checks = DeviceChecks(nvml, Devices(nvml, {})).checks()
    for time in range(times):
        found = {check.name: check.look(60.0 * time) for check in checks}
    return found


def test_healthy_devices_are_ok():
    assert {answer.result for answer in looks(Nvml()).values()} == {Result.OK}


@pytest.mark.parametrize(
    ("check", "change", "words"),
    [
        ("ecc_uncorrected", {"nvmlDeviceGetTotalEccErrors": 3}, "3 uncorrected"),
        ("row_remap", {"nvmlDeviceGetRemappedRows": (1, 1, 1, 0)}, "pending"),
        ("row_remap", {"nvmlDeviceGetRemappedRows": (1, 1, 0, 1)}, "failed"),
        ("temperature", {"nvmlDeviceGetTemperature": 87}, "87 °C"),
        ("pcie_width", {"nvmlDeviceGetCurrPcieLinkWidth": 8}, "8 PCIe lanes of 16"),
    ],
)
def test_what_a_device_says_is_judged(check, change, words):
    answer = looks(Nvml(**change))[check]
    assert answer.result is Result.BAD
    assert words in answer.reason


def test_what_a_device_does_not_have_is_not_judged():
    lacking = {
        name: RuntimeError("not supported") for name in ("nvmlDeviceGetRemappedRows", "nvmlDeviceGetTemperature")
    }
    found = looks(Nvml(**lacking))
    assert found["row_remap"].result is found["temperature"].result is Result.UNKNOWN


def test_a_device_that_fell_off_the_bus_is_lost():
    gone = RuntimeError("NVML_ERROR_GPU_IS_LOST")
    found = looks(Nvml(nvmlDeviceGetMemoryInfo=gone, nvmlDeviceGetUtilizationRates=gone))
    assert found["devices_lost"].reason == "device 0, 1 does not answer"


def test_hardware_slows_down_for_minutes_before_it_counts():
    slow = Nvml(nvmlDeviceGetCurrentClocksThrottleReasons=0x8)
    assert looks(slow, SLOW_MINUTES - 1)["hw_slowdown"].result is Result.OK
    assert looks(slow, SLOW_MINUTES)["hw_slowdown"].result is Result.BAD
    assert looks(Nvml(), WINDOW_MINUTES)["hw_slowdown"].result is Result.OK


def test_a_link_that_was_up_is_missed():
    nvml = Nvml()
    checks = {check.name: check for check in DeviceChecks(nvml, Devices(nvml, {})).checks()}
    assert checks["nvlink"].look(0.0).result is Result.OK
    nvml.links[1] = 0
    assert "NVLink 1 is down" in checks["nvlink"].look(30.0).reason


def test_a_node_without_devices_has_no_checks_of_them():
    nvml = Nvml(nvmlDeviceGetCount=0)
    assert DeviceChecks(nvml, Devices(nvml, {})).checks() == []
