"""The files that Slurm reads, rendered from a record: pure, so that what will be written can be shown and compared.

Every setting that differs from Slurm's default says here why; docs/clusters.md tells users.
"""

import msgspec

from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.record import ClusterRecord, Ports
from stepward.clusters.spec import ClusterSpec, NodePool, node_names, nodes_of, permanent_nodes, spare_nodes
from stepward.model.words import REQUEUE_EXIT

JOB_MEMORY_PLUGIN = "cgroup/v1"


class Host(msgspec.Struct, frozen=True):
    """What matters of the host.

    Attributes:
        memory_limits: whether control groups of version 1 can enforce memory limits.
        loopback_name: whether its own name means 127.0.0.1.
    """

    memory_limits: bool
    loopback_name: bool = True


def files(record: ClusterRecord, layout: Layout, host: Host, password: str) -> dict[str, tuple[str, int]]:
    """Name below ``etc/`` -> content and mode."""
    return {
        "slurm.conf": (slurm_conf(record, layout, host), 0o644),
        "gres.conf": (gres_conf(record.spec, layout), 0o644),
        "cgroup.conf": (cgroup_conf(layout, host), 0o644),
        "slurmdbd.conf": (slurmdbd_conf(record, layout, host, password), 0o600),
    }


def slurm_conf(record: ClusterRecord, layout: Layout, host: Host) -> str:
    """slurm.conf of a cluster."""
    spec, ports = record.spec, ports_of(record)
    lines = [
        *_daemons(record, ports, layout, host),
        *_scheduling(spec, host),
        *_failures(spec),
        *_power(spec, layout),
        *_accounting(spec, ports, layout),
    ]
    for pool in spec.compute_pools():
        lines += [_node_line(pool, node, ports.nodes[node], place) for place, node in enumerate(node_names(pool))]
    lines += _partition_lines(spec, host)
    return "\n".join(lines) + "\n"


def ports_of(record: ClusterRecord) -> Ports:
    """The ports of a cluster that has them."""
    assert record.ports is not None, "ports are chosen before anything is rendered"
    return record.ports


def _daemons(record: ClusterRecord, ports: Ports, layout: Layout, host: Host) -> list[str]:
    lines = [
        f"ClusterName={record.slurm_name}",
        "SlurmctldHost=localhost(127.0.0.1)",
        f"SlurmctldPort={ports.controller}",
        # ResumeProgram starts slurmd on this host, which needs root.
        "SlurmUser=root",
        "SlurmdUser=root",
        # Slurm listens on all addresses unless it is told not to. Then it takes that of the host's name: where this is
        # another one (Debian has 127.0.1.1), its daemons and srun would not find each other.
        *(["CommunicationParameters=NoInAddrAny,NoCtldInAddrAny"] if host.loopback_name else []),
        "AuthType=auth/munge",
        f"AuthInfo=socket={layout.munge_socket},cred_expire={record.spec.slurm.cred_expire_s}",
        f"StateSaveLocation={layout.path('state')}",
        f"SlurmdSpoolDir={layout.path('spool')}/%n",
        f"SlurmctldPidFile={layout.path('run')}/slurmctld.pid",
        f"SlurmdPidFile={layout.path('run')}/slurmd.%n.pid",
        f"SlurmctldLogFile={layout.path('log')}/slurmctld.log",
        f"SlurmdLogFile={layout.path('log')}/slurmd.%n.log",
        "MailProg=/bin/true",
        # Tells what runs in a job where the server is.
        f"TaskProlog={layout.path('bin')}/task_prolog",
    ]
    if record.spec.controller.rest:
        lines += ["AuthAltTypes=auth/jwt", f"AuthAltParameters=jwt_key={layout.jwt_key}"]
    return lines


def _scheduling(spec: ClusterSpec, host: Host) -> list[str]:
    gpus = any(pool.shape.gpus for pool in spec.compute_pools())
    return [
        f"ProctrackType=proctrack/{'cgroup' if host.memory_limits else 'linuxproc'}",
        f"TaskPlugin=task/{'cgroup' if host.memory_limits else 'none'}",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=task=5",
        # The nodes of a pool claim what its shape says, whatever this host has.
        "SlurmdParameters=config_overrides",
        "MpiDefault=none",
        "SchedulerType=sched/backfill",
        # A requeued job waits for its credential to expire and no event wakes the scheduler then; it would look after 60 s.
        "SchedulerParameters=bf_interval=5,sched_interval=1,sched_min_interval=100000",
        "SelectType=select/cons_tres",
        f"SelectTypeParameters={'CR_Core_Memory' if host.memory_limits else 'CR_Core'}",
        *(["GresTypes=gpu"] if gpus else []),
        f"MaxNodeCount={max(64, len(nodes_of(spec)))}",
        "MinJobAge=300",
        "TreeWidth=64",
    ]


def _failures(spec: ClusterSpec) -> list[str]:
    return [
        f"SlurmdTimeout={spec.slurm.slurmd_timeout_s}",
        "SlurmctldTimeout=30",
        "MessageTimeout=10",
        "BatchStartTimeout=10",
        f"KillWait={spec.slurm.kill_wait_s}",
        f"UnkillableStepTimeout={spec.slurm.kill_wait_s + 20}",
        "InactiveLimit=0",
        # A node that was silent comes back by itself; one that somebody drained never does.
        "ReturnToService=1",
        "JobRequeue=1",
        # A job that has saved its last checkpoint before its end asks to be started again.
        f"RequeueExit={REQUEUE_EXIT}",
        # What an attempt wrote is kept when the job starts again.
        "JobFileAppend=1",
    ]


def _power(spec: ClusterSpec, layout: Layout) -> list[str]:
    lines = [f"RebootProgram={layout.path('bin')}/reboot"]
    if not spare_nodes(spec):
        return lines
    kept = permanent_nodes(spec)
    return [
        *lines,
        f"SuspendProgram={layout.path('bin')}/suspend",
        f"ResumeProgram={layout.path('bin')}/resume",
        # A job on spares begins when they are up, not at slurmctld's next look, which may be 30 s later.
        f"PrologSlurmctld={layout.path('bin')}/await_boot",
        f"SuspendTime={spec.slurm.suspend_after_s}",
        *([f"SuspendExcNodes={','.join(kept)}"] if kept else []),
        "SuspendTimeout=15",
        f"ResumeTimeout={spec.slurm.resume_timeout_s}",
        "SuspendRate=0",
        "ResumeRate=0",
        # So that spares are shown while they are powered down.
        "PrivateData=cloud",
    ]


def _accounting(spec: ClusterSpec, ports: Ports, layout: Layout) -> list[str]:
    if not spec.controller.accounting:
        return ["AccountingStorageType=accounting_storage/none"]
    gpus = any(pool.shape.gpus for pool in spec.compute_pools())
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={ports.accounting}",
        # AuthInfo's socket alone is not enough here.
        f"AccountingStoragePass={layout.munge_socket}",
        *(["AccountingStorageTRES=gres/gpu"] if gpus else []),
    ]


def _node_line(pool: NodePool, node: str, port: int, place: int) -> str:
    shape, topology = pool.shape, pool.topology
    features = [
        pool.id,
        *(f"{what}_{name}" for what, name in (("zone", topology.zone), ("rack", topology.rack)) if name),
    ]
    parts = [
        f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port}",
        f"CPUs={shape.cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={shape.cpus} ThreadsPerCore=1",
        f"RealMemory={shape.memory_mb}",
        *([f"Gres={_gres(pool)}"] if shape.gpus else []),
        f"Feature={','.join(features)}",
        # Spares cost something to start: they come after the nodes that are there.
        f"State={'UNKNOWN Weight=1' if place < pool.min_nodes else 'CLOUD Weight=10'}",
    ]
    return " ".join(parts)


def _gres(pool: NodePool) -> str:
    kind = f":{pool.shape.gpu_type}" if pool.shape.gpu_type else ""
    return f"gpu{kind}:{pool.shape.gpus}"


def _partition_lines(spec: ClusterSpec, host: Host) -> list[str]:
    lines = []
    for partition in spec.partitions:
        pools = [spec.pool(id) for id in partition.node_pools]
        nodes = ",".join(node for pool in pools for node in node_names(pool))
        parts = [
            f"PartitionName={partition.id} Nodes={nodes}",
            f"Default={'YES' if partition.id == spec.default_partition() else 'NO'}",
            f"MaxTime={partition.max_time} State={'UP' if partition.up else 'DOWN'} OverSubscribe=NO",
        ]
        if host.memory_limits:
            # Without it a job that names no memory gets all of the node's, and no second one fits beside it.
            parts.append(f"DefMemPerCPU={max(1, min(pool.shape.memory_mb // pool.shape.cpus for pool in pools))}")
        lines.append(" ".join(parts))
    return lines


def gres_conf(spec: ClusterSpec, layout: Layout) -> str:
    """gres.conf: a device file for each GPU of a node."""
    lines = ["AutoDetect=off"]
    for pool in spec.compute_pools():
        if pool.shape.gpus:
            last = pool.shape.gpus - 1
            devices = f"{layout.path('dev')}/nvidia{f'[0-{last}]' if last else '0'}"
            kind = f" Type={pool.shape.gpu_type}" if pool.shape.gpu_type else ""
            lines.append(f"NodeName={','.join(node_names(pool))} Name=gpu{kind} File={devices}")
    return "\n".join(lines) + "\n"


def cgroup_conf(layout: Layout, host: Host) -> str:
    """cgroup.conf: memory limits that the kernel enforces, where it can; below a group of the cluster's own."""
    if not host.memory_limits:
        return "CgroupPlugin=autodetect\n"
    # Slurm names its groups by node and job alone, which two clusters on one host share: `cgroup` holds links to groups
    # of this cluster (see cgroups.py).
    return f"CgroupPlugin={JOB_MEMORY_PLUGIN}\nCgroupMountpoint={layout.path('cgroup')}\nConstrainRAMSpace=yes\n"


def slurmdbd_conf(record: ClusterRecord, layout: Layout, host: Host, password: str) -> str:
    """slurmdbd.conf; it holds the database's password."""
    ports = ports_of(record)
    lines = [
        "AuthType=auth/munge",
        f"AuthInfo=socket={layout.munge_socket}",
        "DbdHost=localhost",
        "DbdAddr=127.0.0.1",
        # As in slurm.conf; the manual of slurmdbd 22.05 does not say that it can be told.
        *(["CommunicationParameters=NoInAddrAny"] if host.loopback_name else []),
        f"DbdPort={ports.accounting}",
        "SlurmUser=root",
        f"PidFile={layout.path('run')}/slurmdbd.pid",
        f"LogFile={layout.path('log')}/slurmdbd.log",
        "StorageType=accounting_storage/mysql",
        # By TCP: the socket that Slurm would use is the host's own database.
        "StorageHost=127.0.0.1",
        f"StoragePort={ports.database}",
        "StorageUser=slurm",
        f"StoragePass={password}",
        "StorageLoc=slurm_acct_db",
    ]
    return "\n".join(lines) + "\n"
