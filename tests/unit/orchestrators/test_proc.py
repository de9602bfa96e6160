"""Facts about the own process are read from the real /proc."""

import os

from stepward.orchestrators.local.proc import read_facts


def test_own_process():
    me = read_facts()
    assert me.pid == os.getpid()
    assert me.start > 0
    assert len(me.boot) == 36
    assert me.ancestors[0].pid == os.getppid()
    assert me.ancestors[0].start <= me.start
