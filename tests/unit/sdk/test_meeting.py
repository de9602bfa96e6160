"""Rank 0's word through stores that behave like torch's and JAX's."""

import sys
import types

import pytest

from stepward.sdk.meeting import Agreement, Meeting, find_group

MINE = Agreement("run_mine", "a", "k")


class TorchStore(dict):
    def set(self, key, value):
        self[key] = value

    def check(self, keys):
        return all(key in self for key in keys)

    get = dict.__getitem__


class JaxClient(dict):
    def key_value_set(self, key, value):
        self[key] = value

    def key_value_try_get(self, key):
        if key not in self:
            raise RuntimeError("NOT_FOUND")
        return self[key]


@pytest.fixture
def torch(monkeypatch):
    store = TorchStore()

    def be(rank, world=2, initialized=True):
        module = types.SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: initialized,
            get_rank=lambda: rank,
            get_world_size=lambda: world,
            distributed_c10d=types.SimpleNamespace(_get_default_store=lambda: store),
        )
        monkeypatch.setitem(sys.modules, "torch.distributed", module)

    monkeypatch.delitem(sys.modules, "jax._src.distributed", raising=False)
    return be


@pytest.fixture
def jax(monkeypatch):
    client = JaxClient()

    def be(rank, connected=True):
        state = types.SimpleNamespace(
            client=client, process_id=rank, num_processes=2, preemption_sync_manager=object() if connected else None
        )
        monkeypatch.setitem(sys.modules, "jax._src.distributed", types.SimpleNamespace(global_state=state))
        monkeypatch.delitem(sys.modules, "jax._src.xla_bridge", raising=False)

    return be


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_ranks_take_the_word_of_rank_0(request, framework):
    be = request.getfixturevalue(framework)
    be(rank=1)
    other = Agreement("run_other", "b")
    assert Meeting(1).agree(other) is None
    be(rank=0)
    assert Meeting(1).agree(MINE) == MINE
    be(rank=1)
    assert Meeting(1).agree(other) == MINE
    assert Meeting(2).agree(other) is None


def test_no_group_no_agreement(torch):
    torch(rank=0, initialized=False)
    assert Meeting(1).agree(MINE) is None
    torch(rank=0, world=1)
    assert Meeting(1).agree(MINE) is None


def test_a_client_that_connects_is_left_alone_but_its_rank_is_known(jax):
    jax(rank=1, connected=False)
    assert Meeting(1).agree(MINE) is None
    assert (find_group().rank, find_group().world) == (1, 2)


def test_unknown_internals_are_no_group(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax._src.distributed", types.SimpleNamespace(global_state=object()))
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    assert find_group() is None
