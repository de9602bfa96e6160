"""NVML's answers as values, and devices that do not answer."""

from types import SimpleNamespace as Struct

import pytest

from stepward.collect.devices import Devices, is_visible
from stepward.collect.readings import Sample

UUIDS = ("GPU-2f1a8d52-0001", "GPU-2f1a8d52-0002", "GPU-7c0012ab-0003")


class Recorded:
    """NVML of a node with three devices; ``sick`` ones fail every question, as after falling off the bus."""

    def __init__(self, sick=(), without=()):
        self.sick, self.without = set(sick), set(without)

    def __getattr__(self, name):
        def answer(*arguments):
            if name in self.without or (arguments and arguments[0] in self.sick and name not in _STARTING):
                raise RuntimeError(f"{name}: NVML_ERROR_GPU_IS_LOST")
            return _ANSWERS[name](*arguments)

        return answer


_STARTING = {"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetName"}
_ANSWERS = {
    "nvmlSystemGetDriverVersion": lambda: b"550.54.15",
    "nvmlDeviceGetCount": lambda: 3,
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlDeviceGetUUID": lambda handle: UUIDS[handle].encode(),
    "nvmlDeviceGetName": lambda handle: "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetUtilizationRates": lambda handle: Struct(gpu=97, memory=41),
    "nvmlDeviceGetMemoryInfo": lambda handle: Struct(total=85899345920, used=64424509440, free=21474836480),
    "nvmlDeviceGetPowerUsage": lambda handle: 612345,
    "nvmlDeviceGetTemperature": lambda handle, sensor: 71,
    "nvmlDeviceGetClockInfo": lambda handle, clock: (0, 1755, 2619)[clock],
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x44,
    "nvmlDeviceGetTotalEccErrors": lambda handle, kind, counter: (2, 0)[kind],
}


def _look(devices):
    sample = Sample()
    devices.sample(sample)
    return {(reading.metric.removeprefix("system/"), reading.device): reading.value for reading in sample.readings}


def test_each_device_has_its_own_readings():
    found = _look(Devices(Recorded(), {}))
    assert {device for _, device in found} == {0, 1, 2}
    assert found["device/utilization", 1] == 97
    assert found["device/power", 2] == 612.345
    assert (found["device/clock_sm", 0], found["device/clock_memory", 0]) == (1755, 2619)
    assert (found["device/ecc_corrected", 0], found["device/ecc_uncorrected", 0]) == (2, 0)
    assert (found["device/throttle_power_cap", 0], found["device/throttle_hw_thermal", 0]) == (1, 1)
    assert found["device/throttle_sw_thermal", 0] == 0


def test_a_value_that_a_device_lacks_is_missing():
    found = _look(Devices(Recorded(without={"nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEccErrors"}), {}))
    assert ("device/power", 0) not in found
    assert ("device/ecc_corrected", 0) not in found
    assert ("device/temperature", 0) in found


def test_a_device_that_fails_is_dropped_and_counted():
    devices = Devices(Recorded(sick={1}), {})
    found = _look(devices)
    assert {device for metric, device in found if metric.startswith("device/")} == {0, 2}
    assert found["devices_failed", None] == devices.failed == 1


def test_only_visible_devices_are_read():
    assert {device for _, device in _look(Devices(Recorded(), {"CUDA_VISIBLE_DEVICES": "2,0"}))} == {0, 2}
    assert _look(Devices(Recorded(), {"CUDA_VISIBLE_DEVICES": ""})) == {}


def test_devices_are_described_for_the_configuration():
    (described,) = Devices(Recorded(), {"CUDA_VISIBLE_DEVICES": "1"}).describe()
    assert described == {
        "device": 1,
        "uuid": UUIDS[1],
        "name": "NVIDIA H100 80GB HBM3",
        "driver": "550.54.15",
        "memory_total": 85899345920,
    }


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0,1", [0, 1]),
        (" 2 ", [2]),
        ("0,-1,2", [0]),
        ("GPU-2f1a", [0, 1]),
        ("GPU-7c0012ab-0003,0", [0, 2]),
        ("MIG-0b1c/1/0", []),
    ],
)
def test_visible_devices(visible, expected):
    assert [index for index, uuid in enumerate(UUIDS) if is_visible(index, uuid, visible)] == expected


def test_a_node_without_a_driver_has_no_devices():
    devices = Devices(None, {})
    assert _look(devices) == {}
    assert devices.describe() == []
