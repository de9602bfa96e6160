"""A cluster as people see it in a terminal."""

from stepward.cli.figures import ago
from stepward.cli.table import Column, terminal, write_table
from stepward.cli.text import safe
from stepward.model.clusters import Cluster, ClusterNode, ClusterPartition, ClusterPool

_COLOURS = {"ready": "green", "degraded": "yellow", "failed": "bold red", "deleting": "yellow"}
_HEALTH = {"ok": "green", "bad": "bold red", "unknown": "yellow"}


def columns() -> list[Column[Cluster]]:
    """The columns of a list of clusters."""
    return [
        Column("name", lambda one: one.name),
        Column("state", lambda one: one.state, style=lambda one: _COLOURS.get(one.state, "")),
        Column("nodes_up", lambda one: sum(pool.up for pool in one.pools), right=True),
        Column("nodes_max", lambda one: sum(pool.max_nodes for pool in one.pools), right=True),
        Column("partitions", lambda one: [part.id for part in one.partitions], _partitions, flexible=True),
        Column("provider", lambda one: one.provider),
        Column("slurm_name", lambda one: one.slurm_name, spare=True),
        Column("problems", lambda one: one.problems, lambda one: "; ".join(one.problems), flexible=True),
    ]


def describe(cluster: Cluster, now: float) -> None:
    """Print everything of a cluster, seen at ``now`` (seconds since the epoch)."""
    from rich.text import Text

    out = terminal()
    state = Text(cluster.state, style=_COLOURS.get(cluster.state, ""))
    out.print(Text.assemble(safe(cluster.name), "  ", state, f"  {safe(cluster.display_name)}"), soft_wrap=True)
    for problem in cluster.problems:
        out.print(Text(f"  {safe(problem)}", style="yellow"), soft_wrap=True)
    operation = cluster.operation
    if operation is not None:
        when = ago(operation.ended_at or operation.started_at, now)
        by = f" by {safe(operation.actor)}" if operation.actor else ""
        print(f"  last operation: {operation.kind}, {operation.state} {when}{by} ({operation.id})")
        if operation.error is not None:
            print(f"  {safe(operation.error.detail)} [{safe(operation.error.code)}]")
            if operation.error.hint:
                print(f"  hint: {safe(operation.error.hint)}")
    down = [service.role for service in cluster.services if not service.running]
    print(f"  daemons: {len(cluster.services) - len(down)} run" + (f"; not {', '.join(down)}" if down else ""))
    print(f"  Slurm's name: {cluster.slurm_name}; REST: {cluster.rest_url or 'none'}")
    if cluster.spec.get("project"):
        print(f"  project of its jobs: {safe(str(cluster.spec['project']))}")
    print(f"  export SLURM_CONF={safe(cluster.slurm_conf)}\n")
    write_table(_POOLS, cluster.pools, console=out)
    print()
    write_table(_PARTITIONS, cluster.partitions, console=out)
    if cluster.nodes:
        print()
        write_table(_NODES, cluster.nodes, console=out)


def _partitions(cluster: Cluster) -> str:
    return " ".join(f"{part.id}{'*' if part.default else ''}" for part in cluster.partitions)


_POOLS: list[Column[ClusterPool]] = [
    Column("pool", lambda pool: pool.id),
    Column("up", lambda pool: pool.up, right=True),
    Column("min", lambda pool: pool.min_nodes, right=True),
    Column("max", lambda pool: pool.max_nodes, right=True),
    Column("shape", lambda pool: ", ".join(f"{key} {value}" for key, value in pool.shape.items() if value)),
]
_PARTITIONS: list[Column[ClusterPartition]] = [
    Column("partition", lambda part: f"{part.id}{'*' if part.default else ''}"),
    Column("state", lambda part: part.state),
    Column("max_time", lambda part: part.max_time),
    Column("pools", lambda part: " ".join(part.node_pools)),
]
_NODES: list[Column[ClusterNode]] = [
    Column("node", lambda node: node.name),
    Column("pool", lambda node: node.pool),
    Column("state", lambda node: node.state),
    Column("health", lambda node: node.health, style=lambda node: _HEALTH[node.health]),
    Column("power", lambda node: node.power),
    Column("spare", lambda node: "yes" if node.spare else ""),
    Column("reason", lambda node: node.reason, flexible=True),
]
