"""Courses of metrics: one rank, device or node against the others, and each against its own past."""

import json

import pytest

from stepward.diagnose.engine import diagnose
from stepward.diagnose.sources import discover

LENGTH = 48
LOG = "".join(f"step {at} loss {3 - at / 100:.2f}\n" for at in range(40)) + "training finished\n"


def steady(value):
    return [value] * LENGTH


def fell(before, after):
    return [before] * (LENGTH // 2) + [after] * (LENGTH // 2)


def told(folder, rows, log=LOG):
    (folder / "job.log").write_text(log)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return diagnose(discover([str(folder)]))


def devices(name, values):
    """One series a device, two devices a node."""
    return [
        {"name": f"system/device/{name}", "node": f"n{at // 2:02d}", "device": at % 2, "values": series}
        for at, series in enumerate(values)
    ]


def ranks(name, values):
    return [{"name": name, "rank": at, "values": series} for at, series in enumerate(values)]


def placed(count):
    return [
        {"name": "system/process/rss", "rank": at, "node": f"n{at // 2:02d}", "values": steady(9e9)}
        for at in range(count)
    ]


def test_a_clock_that_falls_below_the_others_names_device_node_and_rank(tmp_path):
    rows = devices("clock_sm", [steady(1980)] * 3 + [fell(1980, 1300)])
    found = told(tmp_path, rows + devices("throttle_hw_slowdown", [steady(0)] * 4) + placed(4))
    assert [one.label for one in found.causes] == ["thermal_power"]
    assert (found.causes[0].suspects.nodes, found.causes[0].suspects.ranks) == (["n01"], [3])
    assert found.outcome == "degraded"


def test_a_clock_that_falls_because_the_device_idles_is_no_cause(tmp_path):
    rows = devices("clock_sm", [steady(1980)] * 3 + [fell(1980, 345)])
    assert not told(tmp_path, rows + devices("utilization", [steady(95)] * 3 + [fell(95, 0)])).causes


def test_a_power_cap_is_how_devices_run(tmp_path):
    assert told(tmp_path, devices("throttle_power_cap", [steady(1)] * 4)).outcome == "healthy"


def test_clocks_that_fall_everywhere_name_nobody(tmp_path):
    found = told(tmp_path, devices("clock_sm", [fell(1980, 1300)] * 4))
    assert [one.label for one in found.causes] == ["thermal_power"]
    assert found.causes[0].suspects.nodes == []


@pytest.mark.parametrize(
    ("metric", "before", "after", "label"),
    [
        ("host/pressure_cpu", 1, 46, "host_contention"),
        ("host/load", 30, 300, "host_contention"),
        ("host/pressure_io", 1, 50, "storage_io"),
        ("network/ib0/errors", 0, 500, "network_link"),
    ],
)
def test_one_node_that_stands_out(tmp_path, metric, before, after, label):
    rows = [{"name": f"system/{metric}", "node": f"n{at}", "values": steady(before)} for at in range(3)]
    rows.append({"name": f"system/{metric}", "node": "n9", "values": fell(before, after)})
    found = told(tmp_path, rows)
    assert [one.label for one in found.causes] == [label]
    assert found.causes[0].suspects.nodes == ["n9"]


def test_corrected_errors_of_one_device_are_a_sign_and_a_handful_is_none(tmp_path):
    found = told(tmp_path, devices("ecc_corrected", [steady(0)] * 3 + [fell(0, 5000)]))
    assert [one.label for one in found.causes] == ["gpu_memory_ecc"]
    other = tmp_path / "other"
    other.mkdir()
    assert not told(other, devices("ecc_corrected", [steady(0)] * 3 + [fell(0, 3)])).causes


def test_the_rank_that_hardly_waits_is_the_late_one(tmp_path):
    rows = ranks("step_time", [fell(1.0, 1.2)] * 4) + ranks("collective_time", [fell(0.2, 0.4)] * 3 + [fell(0.2, 0.03)])
    found = told(tmp_path, rows)
    assert [(one.label, one.suspects.ranks) for one in found.causes] == [("workload_imbalance", [3])]


def test_waits_of_a_few_milliseconds_accuse_nobody(tmp_path):
    rows = ranks("step_time", [steady(1.0)] * 4)
    assert not told(tmp_path, rows + ranks("collective_time", [steady(0.02)] * 3 + [steady(0.001)])).causes


def test_an_exchange_that_takes_longer_for_all_is_the_network(tmp_path):
    rows = ranks("step_time", [fell(1.0, 1.4)] * 4) + ranks("collective_time", [fell(0.2, 0.6)] * 4)
    assert [one.label for one in told(tmp_path, rows).causes] == ["network_link"]


def test_waits_for_data_are_a_share_of_the_step(tmp_path):
    rows = ranks("step_time", [steady(3.8)] * 2)
    assert not told(tmp_path, rows + ranks("data_wait_time", [steady(0.21)] * 2)).causes
    other = tmp_path / "other"
    other.mkdir()
    found = told(other, rows + ranks("data_wait_time", [fell(0.2, 1.9)] * 2))
    assert [one.label for one in found.causes] == ["input_bound"]


def test_the_name_of_a_metric_is_no_line_of_a_log(tmp_path):
    rows = devices("throttle_hw_slowdown", [steady(0)] * 2)
    found = told(tmp_path, rows, log="step 1 loss 2.0\nRuntimeError: it broke\n")
    assert "external_service" not in [one.label for one in [*found.causes, *found.candidates]]
