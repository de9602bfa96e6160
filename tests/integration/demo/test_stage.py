"""What the host gives: where it can, the disk is really small and the memory really limited."""

import os
import subprocess

import pytest

from stepward.demo.faults import Kind
from stepward.demo.stage import DISK_BYTES, Stage

pytestmark = pytest.mark.integration


@pytest.fixture
def stage(tmp_path):
    stages = []

    def made(kind):
        stages.append(Stage(str(tmp_path), kind))
        return stages[-1]

    yield made
    for each in stages:
        each.close()


def test_most_faults_take_nothing(stage):
    plain = stage(Kind.KILLED)
    assert (plain.by, plain.words, plain.before) == ("signal", "", [])
    assert os.path.isdir(plain.checkpoints)


def test_a_small_disk_is_full_soon_and_gone_later(stage):
    small = stage(Kind.DISK)
    if small.by != "tmpfs":
        pytest.skip("no right to mount here: the demo takes a limit on file sizes instead")
    with pytest.raises(OSError, match="No space left"), open(f"{small.checkpoints}/big", "wb", buffering=0) as file:
        file.write(bytes(2 * DISK_BYTES))
        file.write(b"more")
    small.close()
    assert not os.path.ismount(small.checkpoints)


def test_a_memory_limit_holds_for_the_command_and_goes_with_it(stage):
    small = stage(Kind.MEMORY)
    if small.by != "cgroup":
        pytest.skip("no memory cgroup can be made here: the demo limits the address space instead")
    done = subprocess.run([*small.before, "cat", "/proc/self/cgroup"], capture_output=True, text=True, check=True)
    assert "stepward-demo-" in done.stdout
    folder = os.path.dirname(small.before[-1])
    small.close()
    assert not os.path.exists(folder)
