"""The mean over ranks, with threads for ranks."""

import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from stepward.demo.allreduce import AllReduce

pytestmark = pytest.mark.integration


@pytest.fixture
def address():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()


@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_rank_gets_the_mean(address, world):
    def rank_of(rank):
        ranks = AllReduce(rank, world, address, timeout_s=120)
        means = [ranks.mean(np.full(200_000, rank + round_, np.float32)) for round_ in range(3)]
        ranks.close()
        return means

    with ThreadPoolExecutor(world) as pool:
        for means in pool.map(rank_of, range(world)):
            assert [mean[0] for mean in means] == [(world - 1) / 2 + round_ for round_ in range(3)]
            assert all((mean == mean[0]).all() for mean in means)


def test_a_rank_whose_peer_is_gone_waits_for_its_time_out(address):
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(AllReduce, 0, 2, address, timeout_s=4)
        second = pool.submit(AllReduce, 1, 2, address, timeout_s=4)
        second.result().close()
        with pytest.raises(TimeoutError, match="rank 0 had no answer within 4 s"):
            first.result().mean(np.zeros(4, np.float32))
        first.result().close()


def test_ranks_that_never_meet_say_so(address):
    with pytest.raises(TimeoutError, match="only 1 of 2 ranks"):
        AllReduce(0, 2, address, timeout_s=0.2)
    with pytest.raises(TimeoutError, match="nobody listens"):
        AllReduce(1, 2, address, timeout_s=0.2)
