"""What lies between two specifications of one cluster: in words for the plan, and what an update may not do."""

from collections.abc import Iterator

import msgspec

from stepward.clusters.reading import Problem, refusal
from stepward.clusters.spec import ClusterSpec, nodes_of, permanent_nodes

_NEVER = ("provider", "plugin")


def refuse_impossible(old: ClusterSpec, new: ClusterSpec) -> None:
    """Refuse what an update cannot change.

    Raises:
        UsageError: ``bad_cluster_spec`` with the paths that must stay.
    """
    problems = [
        Problem(path=name, message=f"cannot be changed: it is {getattr(old, name)!r}")
        for name in _NEVER
        if getattr(old, name) != getattr(new, name)
    ]
    if old.controller.accounting != new.controller.accounting:
        # Slurm refuses a controller that began without accounting, or goes on without the records that it had.
        problems.append(Problem(path="controller.accounting", message="cannot be changed after the cluster was made"))
    known = {pool.id: pool for pool in old.node_pools}
    for place, pool in enumerate(new.node_pools):
        if pool.id in known and pool.shape != known[pool.id].shape:
            path = f"node_pools[{place}].shape"
            problems.append(
                Problem(path=path, message="cannot be changed; add a pool of the new shape and remove this one")
            )
    if problems:
        raise refusal(problems)


def removed_nodes(old: ClusterSpec, new: ClusterSpec) -> list[str]:
    """Nodes that would be gone for good."""
    kept = set(nodes_of(new))
    return [node for node in nodes_of(old) if node not in kept]


def changes(old: ClusterSpec, new: ClusterSpec) -> list[str]:
    """The differences, a line each."""
    lines = [*_of_pools(old, new), *_of_partitions(old, new), *_of_settings(old, new)]
    up, before = permanent_nodes(new), set(permanent_nodes(old))
    lines += [f"switch on {node}" for node in up if node not in before]
    lines += [f"remove {node}" for node in removed_nodes(old, new)]
    return lines


def _of_pools(old: ClusterSpec, new: ClusterSpec) -> Iterator[str]:
    before, after = ({pool.id: pool for pool in spec.node_pools} for spec in (old, new))
    for id in [*before, *(id for id in after if id not in before)]:
        if id not in after:
            yield f"remove pool {id}"
        elif id not in before:
            yield f"add pool {id} ({after[id].min_nodes} to {after[id].max_nodes} nodes)"
        elif before[id] != after[id]:
            yield f"pool {id}: {_difference(before[id], after[id])}"


def _of_partitions(old: ClusterSpec, new: ClusterSpec) -> Iterator[str]:
    before, after = ({one.id: one for one in spec.partitions} for spec in (old, new))
    for id in [*before, *(id for id in after if id not in before)]:
        if id not in after:
            yield f"remove partition {id}"
        elif id not in before:
            yield f"add partition {id} over {', '.join(after[id].node_pools)}"
        elif before[id] != after[id]:
            yield f"partition {id}: {_difference(before[id], after[id])}"


def _of_settings(old: ClusterSpec, new: ClusterSpec) -> Iterator[str]:
    elsewhere = {"node_pools", "partitions", *_NEVER}
    for name in (field for field in old.__struct_fields__ if field not in elsewhere):
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct):
            yield f"{name}: {_difference(before, after)}"
        else:
            yield f"{name}: {_plain(before)} → {_plain(after)}"


def _difference(before: msgspec.Struct, after: msgspec.Struct) -> str:
    names = [name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    return ", ".join(f"{name} {_plain(getattr(before, name))} → {_plain(getattr(after, name))}" for name in names)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
