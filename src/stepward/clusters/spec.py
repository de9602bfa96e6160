"""What a person writes about a cluster: the specification of ``docs/clusters.md``, as typed structs.

Every field says by its description what it takes; the reader (``stepward.clusters.reading``) answers a wrong value with it.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Provider = Literal["local", "ssh", "plugin"]
StorageKind = Literal["nfs", "lustre", "fuse", "local"]
HealthPolicy = Literal["default", "off"]
RestartPolicy = Literal["infrastructure", "off"]

_UNSEEN = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""Characters that nobody sees, that turn a line around, or that no text may hold."""
Title = Annotated[
    str,
    Meta(min_length=1, max_length=80, pattern=rf"^[^{_UNSEEN}]*\Z", description="1 to 80 characters that can be seen"),
]
Id = Annotated[
    str,
    Meta(
        max_length=24,
        pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?\Z",
        description="1 to 24 of a-z, 0-9 and -, a letter first and no - last",
    ),
]
PluginName = Annotated[
    str, Meta(max_length=80, pattern=r"^[A-Za-z_][A-Za-z0-9_.:-]*\Z", description="the name of an installed provider")
]
Count = Annotated[int, Meta(ge=0, le=4096, description="a whole number from 0 to 4096")]
Cpus = Annotated[int, Meta(ge=1, le=4096, description="a whole number from 1 to 4096")]
Megabytes = Annotated[int, Meta(ge=64, le=1 << 30, description="a whole number of MiB, at least 64")]
Gpus = Annotated[int, Meta(ge=0, le=64, description="a whole number from 0 to 64")]
GpuType = Annotated[
    str, Meta(max_length=32, pattern=r"^[a-z][a-z0-9_]*\Z", description="1 to 32 of a-z, 0-9 and _, a letter first")
]
Label = Annotated[
    str, Meta(max_length=40, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.]*\Z", description="1 to 40 letters, digits, _ and .")
]
ProjectName = Annotated[
    str,
    Meta(
        max_length=64,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*\Z",
        description="1 to 64 letters, digits, _ . and -, a letter or digit first",
    ),
]
Host = Annotated[
    str,
    Meta(
        max_length=253,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]*(\[[0-9,-]+\][A-Za-z0-9.:_-]*)?\Z",
        description="an address or a range such as node[01-16].example.org",
    ),
]
TimeLimit = Annotated[
    str,
    Meta(
        max_length=24,
        # At most what Slurm counts in 32 bits of minutes.
        pattern=r"^(UNLIMITED|INFINITE|[0-9]{1,8}(:[0-9]{2}){0,2}|[0-9]{1,5}-[0-9]{1,3}(:[0-9]{2}){0,2})\Z",
        description='a time limit of Slurm, such as "12:00:00", "7-00:00:00" or UNLIMITED',
    ),
]
AbsolutePath = Annotated[
    str,
    Meta(
        max_length=200, pattern=r"^/[A-Za-z0-9/._+-]*\Z", description="an absolute path of letters, digits, / . _ + -"
    ),
]
Source = Annotated[
    str, Meta(min_length=1, max_length=300, pattern=r"^[^\x00-\x20]+\Z", description="host:/path, a device or a path")
]
Mtu = Annotated[int, Meta(ge=576, le=65536, description="bytes from 576 to 65536")]
Rate = Annotated[float, Meta(gt=0, le=1e9, description="MB/s above 0, at most 1e9")]
Expiry = Annotated[int, Meta(ge=5, le=600, description="seconds from 5 to 600; Slurm takes less than 5 for 120")]
Grace = Annotated[int, Meta(ge=1, le=600, description="seconds from 1 to 600")]
PerHour = Annotated[int, Meta(ge=1, le=60, description="a whole number from 1 to 60")]
Patience = Annotated[int, Meta(ge=10, le=86400, description="seconds from 10 to 86400")]
Timeout = Annotated[int, Meta(ge=5, le=3600, description="seconds from 5 to 3600")]


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one node of a pool has."""

    cpus: Cpus
    memory_mb: Megabytes
    gpus: Gpus = 0
    gpu_type: GpuType | None = None


class Topology(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the nodes of a pool stand; becomes features of the nodes (``zone_a``, ``rack_r1``)."""

    zone: Label | None = None
    rack: Label | None = None


class NodePool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes alike: ``min_nodes`` are always there, those up to ``max_nodes`` are powered up on demand."""

    id: Id
    min_nodes: Count = 0
    max_nodes: Cpus
    shape: Shape
    hosts: list[Host] = []
    topology: Topology = Topology()


class Partition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue over pools."""

    id: Id
    node_pools: list[Id]
    default: bool = False
    max_time: TimeLimit = "UNLIMITED"
    up: bool = True


class Login(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pool from which people submit; its nodes run no jobs."""

    node_pool: Id


class Controller(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What runs beside the controller: the accounting database, the REST API."""

    accounting: bool = True
    rest: bool = True


class Network(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is expected of the network between the nodes."""

    mtu: Mtu | None = None


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The least that a storage must carry."""

    read_mb_s: Rate | None = None
    write_mb_s: Rate | None = None


class Storage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file system that every node must have at ``mount``."""

    kind: StorageKind
    mount: AbsolutePath
    source: Source | None = None
    expect: Expectation = Expectation()


class Health(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be done by itself about sick nodes; with ``dry_run`` it is said and not done."""

    policy: HealthPolicy = "default"
    dry_run: bool = False


class Restarts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be done by itself about jobs whose infrastructure failed (docs/respond.md).

    Attributes:
        policy: ``infrastructure``: moved off sick nodes, watched as they resume, held where they cannot; ``off``: nothing.
        dry_run: it is said and not done.
        per_hour: restarts of a job within an hour.
        progress_within_s: a new attempt is expected to have got beyond the old one by then.
    """

    policy: RestartPolicy = "off"
    dry_run: bool = False
    per_hour: PerHour = 4
    progress_within_s: Patience = 600


class SlurmSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Slurm's own time-outs, with the defaults that a cluster for training needs (docs/clusters.md says why each).

    Attributes:
        cred_expire_s: a requeued job waits so long before it starts again.
        slurmd_timeout_s: a silent node is down after about twice this.
        kill_wait_s: between SIGTERM and SIGKILL at a job's end.
        suspend_after_s: a node beyond ``min_nodes`` is powered down after so long without a job.
        resume_timeout_s: how long a node may take to come up.
    """

    cred_expire_s: Expiry = 5
    slurmd_timeout_s: Timeout = 30
    kill_wait_s: Grace = 10
    suspend_after_s: Timeout = 300
    resume_timeout_s: Timeout = 60


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster as a person wants it.

    Attributes:
        project: of the jobs on it that name none; None leaves that to who watches them (docs/watcher.md).
    """

    display_name: Title
    project: ProjectName | None = None
    provider: Provider = "local"
    plugin: PluginName | None = None
    node_pools: list[NodePool]
    partitions: list[Partition]
    login: Login | None = None
    controller: Controller = Controller()
    network: Network = Network()
    storage: list[Storage] = []
    health: Health = Health()
    restarts: Restarts = Restarts()
    slurm: SlurmSettings = SlurmSettings()

    def pool(self, id: str) -> NodePool:
        """The pool with this id; ``KeyError`` where there is none."""
        for pool in self.node_pools:
            if pool.id == id:
                return pool
        raise KeyError(id)

    def compute_pools(self) -> list[NodePool]:
        """The pools whose nodes run jobs."""
        login = self.login.node_pool if self.login else None
        return [pool for pool in self.node_pools if pool.id != login]

    def default_partition(self) -> str:
        """The partition of a job that names none: the one marked so, or the first."""
        return next((one.id for one in self.partitions if one.default), self.partitions[0].id)


def node_names(pool: NodePool) -> list[str]:
    """The nodes of a pool, by number: the first ``min_nodes`` are always there."""
    return [f"{pool.id}-{number}" for number in range(pool.max_nodes)]


def nodes_of(spec: ClusterSpec) -> list[str]:
    """All declared nodes, pool by pool."""
    return [node for pool in spec.compute_pools() for node in node_names(pool)]


def permanent_nodes(spec: ClusterSpec) -> list[str]:
    """The nodes that are always there."""
    return [node for pool in spec.compute_pools() for node in node_names(pool)[: pool.min_nodes]]


def spare_nodes(spec: ClusterSpec) -> list[str]:
    """The nodes that are powered up on demand."""
    return [node for pool in spec.compute_pools() for node in node_names(pool)[pool.min_nodes :]]
