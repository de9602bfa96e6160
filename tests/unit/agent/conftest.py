"""A host as files: what the agent reads of ``/proc`` and ``/sys``."""

import os

import pytest


class FakeHost:
    """Processes and counters below a folder."""

    def __init__(self, root):
        self.root = str(root)
        os.makedirs(f"{self.root}/proc/self")

    def write(self, path, text):
        os.makedirs(os.path.dirname(f"{self.root}{path}"), exist_ok=True)
        with open(f"{self.root}{path}", "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def process(self, pid, *, parent=1, state="S", ticks=0, rss=10, started=100, environ=None, cgroup="", comm="python",
                cmdline=("python",)):  # fmt: skip
        fields = [state, parent, pid, 0, 0, 0, 0, 0, 0, 0, 0, ticks, 0, 0, 0, 20, 0, 1, 0, started, 0, rss]
        self.write(f"/proc/{pid}/stat", f"{pid} ({comm}) " + " ".join(map(str, fields)))
        self.write(f"/proc/{pid}/comm", comm)
        self.write(f"/proc/{pid}/cmdline", "\0".join(cmdline))
        self.write(f"/proc/{pid}/cgroup", cgroup)
        if environ is not None:
            self.write(f"/proc/{pid}/environ", "\0".join(f"{name}={value}" for name, value in environ.items()))

    def gone(self, pid):
        for name in os.listdir(f"{self.root}/proc/{pid}"):
            os.unlink(f"{self.root}/proc/{pid}/{name}")
        os.rmdir(f"{self.root}/proc/{pid}")


@pytest.fixture
def host(tmp_path):
    return FakeHost(tmp_path)
