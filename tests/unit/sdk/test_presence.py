"""The end of a run keeps within the time that it is given, whatever the shipper does."""

import time

import pytest

from stepward.sdk.presence import Presence
from stepward.settings import Settings


class Shipper:
    """Takes all the time that it may."""

    def __init__(self, problem):
        self.problem = problem
        self.taken = 0.0

    def flush(self, timeout_s, *, unheard_s):
        self.taken += timeout_s
        return False

    def stop(self, timeout_s):
        self.taken += timeout_s


@pytest.mark.parametrize("problem", ["", "the server is away"])
@pytest.mark.parametrize("flush_s", [2.0, 10.0])
def test_flushing_and_stopping_share_one_budget(problem, flush_s):
    presence = Presence.__new__(Presence)
    presence._settings, presence._shipper = Settings(server="http://h"), Shipper(problem)
    presence._ship = lambda: None
    assert presence._flush(time.monotonic() + flush_s) is False
    assert 0.0 < presence._shipper.taken <= (2.5 if problem else flush_s)
