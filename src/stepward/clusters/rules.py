"""What the fields of a specification say to each other: references, sizes, and the fields of other providers."""

from collections import Counter
from collections.abc import Iterator

from stepward.clusters.spec import ClusterSpec, NodePool
from stepward.model.slurm_text import duration_s

LOCAL_NODES = 64
"""Nodes that the local provider runs on one host: each costs three ports, 6 MB and a process or two."""

Contradiction = tuple[str, str]


def contradictions(spec: ClusterSpec) -> Iterator[Contradiction]:
    """Path and message of everything that does not fit together."""
    yield from _pools(spec)
    yield from _partitions(spec)
    yield from _login(spec)
    yield from _storage(spec)
    yield from _provider(spec)


def _pools(spec: ClusterSpec) -> Iterator[Contradiction]:
    if not spec.node_pools:
        yield "node_pools", "at least one pool is needed"
    yield from _twice("node_pools", [pool.id for pool in spec.node_pools])
    for place, pool in enumerate(spec.node_pools):
        at = f"node_pools[{place}]"
        if pool.min_nodes > pool.max_nodes:
            yield f"{at}.min_nodes", f"{pool.min_nodes} is more than max_nodes, {pool.max_nodes}"
        if pool.shape.gpu_type and not pool.shape.gpus:
            yield f"{at}.shape.gpu_type", "is for nodes with GPUs; shape.gpus is 0"


def _partitions(spec: ClusterSpec) -> Iterator[Contradiction]:
    if not spec.partitions:
        yield "partitions", "at least one partition is needed"
    yield from _twice("partitions", [partition.id for partition in spec.partitions])
    known = [pool.id for pool in spec.node_pools]
    login = spec.login.node_pool if spec.login else None
    for place, partition in enumerate(spec.partitions):
        at = f"partitions[{place}]"
        if partition.id == "default":
            yield f"{at}.id", "'default' is Slurm's word for the settings of all partitions"
        if duration_s(partition.max_time) == 0:
            yield f"{at}.max_time", f"{partition.max_time!r} leaves a job no time"
        if not partition.node_pools:
            yield f"{at}.node_pools", f"at least one pool is needed; there are {', '.join(known)}"
        for number, pool in enumerate(partition.node_pools):
            if pool not in known:
                yield f"{at}.node_pools[{number}]", f"there is no pool {pool!r}; there are {', '.join(known)}"
            elif pool == login:
                yield f"{at}.node_pools[{number}]", f"{pool!r} is the login pool, whose nodes run no jobs"
        yield from _twice(f"{at}.node_pools", partition.node_pools, field="")
    defaults = [place for place, partition in enumerate(spec.partitions) if partition.default]
    for place in defaults[1:]:
        yield f"partitions[{place}].default", f"{spec.partitions[defaults[0]].id!r} is the default already"


def _login(spec: ClusterSpec) -> Iterator[Contradiction]:
    known = [pool.id for pool in spec.node_pools]
    if spec.login and spec.login.node_pool not in known:
        yield "login.node_pool", f"there is no pool {spec.login.node_pool!r}; there are {', '.join(known)}"


def _storage(spec: ClusterSpec) -> Iterator[Contradiction]:
    yield from _twice("storage", [storage.mount for storage in spec.storage], field=".mount")
    for place, storage in enumerate(spec.storage):
        if storage.kind in ("nfs", "lustre") and not storage.source:
            yield f"storage[{place}].source", f"is needed for {storage.kind}: host:/path"


def _provider(spec: ClusterSpec) -> Iterator[Contradiction]:
    if spec.provider == "plugin" and not spec.plugin:
        yield "plugin", "is missing: the name of the provider"
    if spec.provider != "plugin" and spec.plugin:
        yield "plugin", f"is a field of provider plugin, not of {spec.provider}"
    for place, pool in enumerate(spec.node_pools):
        yield from _hosts(spec, pool, f"node_pools[{place}].hosts")
    if spec.provider == "local":
        total = sum(pool.max_nodes for pool in spec.compute_pools())
        if total > LOCAL_NODES:
            yield (
                "node_pools",
                f"{total} nodes are more than the {LOCAL_NODES} that the local provider runs on one host",
            )


def _hosts(spec: ClusterSpec, pool: NodePool, at: str) -> Iterator[Contradiction]:
    if spec.provider == "ssh" and not pool.hosts:
        yield at, "is missing: the addresses of the nodes"
    if spec.provider != "ssh" and pool.hosts:
        yield at, f"is a field of provider ssh, not of {spec.provider}"


def _twice(path: str, names: list[str], field: str = ".id") -> Iterator[Contradiction]:
    seen: Counter[str] = Counter()
    for place, name in enumerate(names):
        seen[name] += 1
        if seen[name] == 2:
            yield f"{path}[{place}]{field}", f"{name!r} is given twice"
