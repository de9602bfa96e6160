"""How ranks that no launcher names agree on one run: rank 0's goes through the store of the group that they form.

JAX has a key-value store at its coordinator, torch.distributed a store of its own; both are used once they are there,
never waited for. Only a framework that is loaded is asked. What it says about rank and world is read here too.
"""

import sys
from typing import Any, NamedTuple

import msgspec

_KEY = "stepward/run"


class Agreement(msgspec.Struct, frozen=True):
    """The run and attempt that rank 0 writes for."""

    run: str
    attempt: str
    key: str | None = None


class Group(NamedTuple):
    """The processes that a framework joins: this one's number, how many there are, their store once it may be used."""

    rank: int
    world: int
    store: "_TorchStore | _JaxStore | None"


class Meeting:
    """Asks, and where this process is rank 0 tells; ``ordinal`` counts the runs of this process, alike on all ranks."""

    def __init__(self, ordinal: int) -> None:
        self._key = f"{_KEY}/{ordinal}"

    def agree(self, mine: Agreement) -> Agreement | None:
        """What rank 0 said; ``mine`` where this is rank 0; None as long as there is no group or no word."""
        group = find_group()
        store = group.store if group is not None else None
        if group is None or store is None or group.world < 2:
            return None
        try:
            if group.rank == 0:
                store.put(self._key, msgspec.json.encode(mine))
                return mine
            said = store.take(self._key)
            return msgspec.json.decode(said, type=Agreement) if said is not None else None
        except Exception:  # the store went away with rank 0
            return None


def find_group() -> Group | None:
    """The group that torch or JAX has formed in this process; None before, or where there is none."""
    for find in (_jax_group, _torch_group):
        try:
            group = find()
        except Exception:  # a version with other internals: no group is known then
            continue
        if group is not None:
            return group
    return None


class _JaxStore:
    def __init__(self, client: Any) -> None:
        self._client = client

    def put(self, key: str, value: bytes) -> None:
        self._client.key_value_set(key, value.decode())

    def take(self, key: str) -> bytes | None:
        try:
            return str(self._client.key_value_try_get(key)).encode()
        except Exception:  # not found is an error of its own kind in each version
            return None


class _TorchStore:
    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def take(self, key: str) -> bytes | None:
        # check() first: a get() of a missing key would hold the store's lock, and with it the collectives.
        return bytes(self._store.get(key)) if self._store.check([key]) else None


def _jax_group() -> Group | None:
    distributed = sys.modules.get("jax._src.distributed")
    state = getattr(distributed, "global_state", None)
    if state is None or state.client is None:
        return None
    store = _JaxStore(state.client) if _jax_is_connected(state) else None
    return Group(int(state.process_id), int(state.num_processes), store)


def _jax_is_connected(state: Any) -> bool:
    """Whether JAX's client may be used: a call while it connects in the main thread would hang both for good.

    What JAX makes after it has connected tells: its preemption manager (unless that is switched off) or a backend.
    """
    if getattr(state, "preemption_sync_manager", None) is not None:
        return True
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(bridge.backends_are_initialized())


def _torch_group() -> Group | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    store = distributed.distributed_c10d._get_default_store()
    return Group(int(distributed.get_rank()), int(distributed.get_world_size()), _TorchStore(store))
