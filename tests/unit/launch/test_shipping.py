"""The wait at the end of a command: on and on for a server that takes records, not for one that doesn't."""

from stepward.launch import shipping


class Shipper:
    """Acknowledges ``takes[n]`` bytes in its n-th flush; the last flush of all delivers the rest."""

    def __init__(self, takes, then):
        self.takes, self.then, self.flushes, self.delivered_bytes = list(takes), then, 0, 0

    def flush(self, timeout_s, *, unheard_s):
        self.flushes += 1
        if not self.takes:
            return self.then
        self.delivered_bytes += self.takes.pop(0)
        return False


def test_a_server_that_takes_record_after_record_is_waited_for():
    slow = Shipper([5, 1, 3], then=True)
    assert shipping._flush(slow, 10.0)
    assert slow.flushes == 4


def test_a_server_that_takes_nothing_is_waited_for_once():
    stuck = Shipper([0, 9], then=True)
    assert not shipping._flush(stuck, 10.0)
    assert stuck.flushes == 1


def test_the_wait_ends_where_the_server_stops_taking():
    tired = Shipper([5, 0, 9], then=True)
    assert not shipping._flush(tired, 10.0)
    assert tired.flushes == 2
