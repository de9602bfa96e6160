"""A recorded host: rates need two looks, missing files give no reading."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.collect.host import Host
from stepward.collect.readings import Counters, Sample

FIRST = {
    "proc/stat": "cpu  1000 0 500 8000 100 0 0 0 0 0\n",
    "proc/loadavg": "3.50 2.00 1.00 2/345 678\n",
    "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 100 kB\nSwapFree: 90 kB\n",
    "proc/vmstat": "nr_free_pages 1\noom_kill 4\n",
    "proc/diskstats": " 8 0 sda 1 0 1000 0 1 0 2000 0 0 100 0\n 253 0 dm-0 1 0 1000 0 1 0 2000 0 0 100 0\n",
    "proc/net/dev": "eth0: 1000 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\nveth1: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n",
    "proc/pressure/memory": "some avg10=2.50 avg60=0 avg300=0 total=1\nfull avg10=1.00 avg60=0 avg300=0 total=1\n",
    "sys/block/sda/device/x": "",
    "sys/class/net/eth0/device/x": "",
}
SECOND = FIRST | {
    "proc/stat": "cpu  1600 0 700 8100 150 0 0 50 0 0\n",
    "proc/vmstat": "oom_kill 6\n",
    "proc/diskstats": " 8 0 sda 1 0 3000 0 1 0 2000 0 0 5100 0\n 253 0 dm-0 1 0 3000 0 1 0 2000 0 0 100 0\n",
    "proc/net/dev": "eth0: 21000 1 2 0 0 0 0 0 100 1 0 3 0 0 0 0\n",
}


@pytest.fixture
def recorded(tmp_path):
    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    write(FIRST)
    return tmp_path, write


def _look(host, now):
    sample = Sample()
    host.sample(sample, now)
    return {reading.metric: reading.value for reading in sample.readings}


def test_first_look_has_levels_but_no_rates(recorded):
    root, _ = recorded
    found = _look(Host({}, str(root)), 100.0)
    assert found == {
        "system/host/load": 3.5,
        "system/host/memory_used": 600 * 1024,
        "system/host/memory_total": 1000 * 1024,
        "system/host/swap_used": 10 * 1024,
        "system/host/oom_kills": 0,
        "system/network/eth0/errors": 0,
        "system/network/eth0/drops": 0,
        "system/host/pressure_memory": 2.5,
        "system/host/pressure_memory_full": 1.0,
    }


def test_second_look_has_rates_of_physical_parts(recorded):
    root, write = recorded
    host = Host({}, str(root))
    _look(host, 100.0)
    write(SECOND)
    found = _look(host, 110.0)
    assert found["system/host/cpu"] == pytest.approx(85.0)
    assert found["system/host/cpu_iowait"] == pytest.approx(5.0)
    assert found["system/host/cpu_steal"] == pytest.approx(5.0)
    assert found["system/host/oom_kills"] == 2
    assert found["system/disk/read"] == 2000 * 512 / 10, "dm-0 would count the same bytes again"
    assert found["system/disk/busy"] == 50.0
    assert found["system/network/eth0/received"] == 2000
    assert "system/network/eth0/sent" not in found, "a counter that went back gives no rate"
    assert (found["system/network/eth0/errors"], found["system/network/eth0/drops"]) == (2, 3)
    assert not any("veth1" in name for name in found)


def test_places_are_read_where_they_are(tmp_path):
    found = _look(Host({"work": str(tmp_path), "gone": str(tmp_path / "gone")}, str(tmp_path)), 0.0)
    assert set(found) == {"system/disk/work/free", "system/disk/work/used"}
    assert 0 <= found["system/disk/work/used"] <= 100


def test_nothing_to_read_gives_no_readings(tmp_path):
    assert _look(Host({}, str(tmp_path)), 0.0) == {}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0.1, 100)), min_size=2, max_size=20))
def test_rates_are_never_negative_and_totals_never_shrink(looks):
    rates, totals, now, last = Counters(), Counters(), 0.0, 0.0
    for value, pause in looks:
        now += pause
        rate = rates.rate("x", value, now)
        assert rate is None or rate >= 0
        total = totals.total("x", value)
        assert total >= last
        last = total
