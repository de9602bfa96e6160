"""Texts of /proc as kernels have written them, and texts that no kernel would write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.collect import procfs

STAT = """cpu  10132153 290696 3084719 46828483 16683 0 25195 17 175628 0
cpu0 1393280 32966 572056 13343292 6130 0 17875 17 23933 0
intr 1462898 0 9 0
"""
MEMINFO = """MemTotal:       263921732 kB
MemFree:        12044340 kB
MemAvailable:   201234020 kB
SwapTotal:       8388604 kB
SwapFree:        8300000 kB
HugePages_Total:       0
DirectMap1G:    246415360 kB
"""
DISKSTATS = """   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 82681 30773 4594850 22412 27489 83065 7593824 31329 0 13364 54470 8269 67 349592 601 3160 127
   8       0 sda 100 0 200 30 400 0 600 70 0 80 90
   8       1 sda1 cut off
"""
NETDEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 2776770   11307    0    0    0     0          0         0  2776770   11307    0    0    0     0       0          0
  eth0:1215645    2751    3    5    0     0          0         0  1782404    4324    4    6    0   427       0          0
eth0:1: 1 2 3 4 5 6 7 8 9 10 11 12
"""
PRESSURE = """some avg10=1.53 avg60=1.20 avg300=0.90 total=31212
full avg10=0.25 avg60=0.10 avg300=0.05 total=12
"""


def test_cpu_times():
    assert procfs.cpu_times(STAT) == procfs.CpuTimes(60377946, 46828483, 16683, 17)


@pytest.mark.parametrize("text", ["", "cpu", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8 9", "cpu a b c d e f g h"])
def test_cpu_times_that_are_none(text):
    assert procfs.cpu_times(text) is None


def test_numbers_by_key():
    memory = procfs.keyed_numbers(MEMINFO)
    assert memory["MemTotal"] == 263921732 * 1024
    assert memory["HugePages_Total"] == 0
    assert procfs.keyed_numbers("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")["oom_kill"] == 3
    assert procfs.keyed_numbers("max\nlow x\n") == {}


def test_disks_count_sectors_of_512_bytes():
    disks = procfs.disks(DISKSTATS)
    assert disks["nvme0n1"] == procfs.Disk(4594850 * 512, 7593824 * 512, 13364)
    assert disks["sda"] == procfs.Disk(200 * 512, 600 * 512, 80), "older kernels have fewer columns"
    assert "sda1" not in disks


def test_nics_sum_both_directions():
    nics = procfs.nics(NETDEV)
    assert nics["eth0"] == procfs.Nic(1215645, 1782404, 3 + 4, 5 + 6)
    assert nics["eth0:1"] == procfs.Nic(1, 9, 3 + 11, 4 + 12), "an alias has a colon in its name"
    assert set(nics) == {"lo", "eth0", "eth0:1"}


def test_pressure():
    assert procfs.pressure(PRESSURE) == {"some": 1.53, "full": 0.25}
    assert procfs.pressure("some avg10=x\n") == {}


def test_process_with_brackets_and_blanks_in_its_name():
    line = "4242 (a) R (b) T 17 4242 4242 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 9 0 123456 1000000 2500 18446744073709551615 1"
    assert procfs.process_stat(line) == procfs.ProcessStat("T", 17, 4242, 200, 9, 123456, 2500)


@pytest.mark.parametrize("text", ["", "1 (x", "1 (x) R 1 2", "1 (x) R one two"])
def test_process_that_cannot_be_read(text):
    assert procfs.process_stat(text) is None


def test_environment():
    assert procfs.environment(b"RANK=3\0EMPTY=\0TWO=a=b\0junk\0\xff=\xfe\0") == {
        "RANK": "3",
        "EMPTY": "",
        "TWO": "a=b",
        "�": "�",
    }


@given(st.text(alphabet=st.sampled_from("cpu 0123456789.:=\nsome avg10()R-x"), max_size=300))
def test_any_text_is_read_or_left(text):
    procfs.cpu_times(text)
    procfs.process_stat(text)
    procfs.load1(text)
    assert all(value >= 0 for value in procfs.keyed_numbers(text).values())
    for parse in (procfs.disks, procfs.nics, procfs.pressure):
        assert isinstance(parse(text), dict)


@given(
    name=st.text(min_size=0, max_size=15).filter(lambda s: "\0" not in s),
    numbers=st.lists(st.integers(0, 2**40), min_size=23, max_size=49),
    state=st.sampled_from("RSDTtZXI"),
)
def test_process_line_of_any_name(name, numbers, state):
    line = f"77 ({name}) {state} " + " ".join(map(str, numbers))
    stat = procfs.process_stat(line)
    assert stat is not None
    assert (stat.state, stat.parent, stat.ticks) == (state, numbers[0], numbers[10] + numbers[11])
