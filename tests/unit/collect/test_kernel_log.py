"""Records of the kernel's log as kernels have written them."""

import os

import pytest

from stepward.collect.kernel_log import KernelLog, KernelRecord, killed_for_memory, read_record


@pytest.mark.parametrize(
    ("line", "pid"),
    [
        (
            "Memory cgroup out of memory: Killed process 18201 (python) total-vm:90kB, anon-rss:60kB, UID:0 oom_score_adj:0",
            18201,
        ),
        ("Out of memory: Killed process 77 (train.py) total-vm:1kB", 77),
        ("Out of memory: kill process 77 (x) score 900 or sacrifice child", None),
        ("oom_reaper: reaped process 18201 (python), now anon-rss:0kB", None),
        ("audit: user said: Killed process 5", None),
        ("EXT4-fs (vda): mounted filesystem", None),
    ],
)
def test_who_was_killed_for_memory(line, pid):
    assert killed_for_memory(line) == pid


def test_message_of_a_record():
    assert read_record(b"3,5123,987654321,-;Out of memory: Killed process 7 (x)\n SUBSYSTEM=x\n") == KernelRecord(
        5123, 987654321, "Out of memory: Killed process 7 (x)"
    )
    assert read_record(b"no prefix") == KernelRecord(-1, 0, "no prefix")
    assert read_record(b"a;b") == KernelRecord(-1, 0, "b")


def test_only_what_comes_after_the_start_is_read(tmp_path):
    path = tmp_path / "kmsg"
    path.write_text("6,1,1,-;old\n")
    log = KernelLog(str(path))
    with path.open("a") as file:
        file.write("6,2,2,-;new\n")
    assert log.lines() == ["new"]
    assert log.lines() == []
    log.close()
    assert log.lines() == []


@pytest.mark.parametrize(("after", "texts"), [(-1, ["old"]), (0, ["old"]), (1, [])])
def test_who_was_away_goes_on_behind_what_was_read(tmp_path, after, texts):
    path = tmp_path / "kmsg"
    path.write_text("6,1,1,-;old\n")
    log = KernelLog(str(path), after=after)
    assert log.lines() == texts
    log.close()


def test_without_the_right_to_read_there_are_no_lines(tmp_path):
    assert KernelLog(str(tmp_path / "none")).lines() == []
    assert not os.path.exists(tmp_path / "none")
