"""Root-cause labels of a diagnosis, each with its layer: the only source of a layer in the product.

A diagnosis without a cause above the threshold has no label at all; ``healthy`` and ``unknown`` are outcomes, not labels.
"""

from enum import StrEnum
from typing import NamedTuple


class Layer(StrEnum):
    """Where a cause lives, and so who can mend it."""

    INFRASTRUCTURE = "infrastructure"
    ORCHESTRATOR = "orchestrator"
    FRAMEWORK = "framework"
    USER_CODE = "user_code"


class Label(NamedTuple):
    """Layer and meaning of a root-cause label."""

    layer: Layer
    means: str


LABELS: dict[str, Label] = {
    "gpu_memory_ecc": Label(Layer.INFRASTRUCTURE, "uncorrectable or row-remap memory errors of an accelerator"),
    "gpu_off_bus": Label(Layer.INFRASTRUCTURE, "device vanished from the bus, or from the driver"),
    "gpu_driver_firmware": Label(Layer.INFRASTRUCTURE, "driver, GSP or firmware fault"),
    "nvlink_fabric": Label(Layer.INFRASTRUCTURE, "NVLink, NVSwitch, ICI or fabric-manager fault"),
    "network_link": Label(Layer.INFRASTRUCTURE, "a NIC, cable, port or switch that fails or flaps"),
    "network_config": Label(Layer.INFRASTRUCTURE, "interface, DNS, firewall, GID, routing or ACS set wrong"),
    "node_failure": Label(Layer.INFRASTRUCTURE, "host crashed, rebooted or became unreachable"),
    "thermal_power": Label(Layer.INFRASTRUCTURE, "thermal or power throttling or shutdown"),
    "storage_full": Label(Layer.INFRASTRUCTURE, "no space, inodes or quota left"),
    "storage_io": Label(Layer.INFRASTRUCTURE, "I/O errors, stale handles, a stalled file system"),
    "checkpoint_corrupt": Label(Layer.FRAMEWORK, "a checkpoint that is truncated, corrupt or incompatible"),
    "checkpoint_stall": Label(Layer.FRAMEWORK, "saving or loading a checkpoint holds the run up"),
    "host_oom": Label(Layer.INFRASTRUCTURE, "host or cgroup memory exhausted"),
    "host_contention": Label(Layer.INFRASTRUCTURE, "CPU, memory bandwidth or I/O of the host taken by others"),
    "gpu_oom": Label(Layer.FRAMEWORK, "device memory exhausted"),
    "os_limits": Label(Layer.INFRASTRUCTURE, "shared memory, file descriptors, threads, locked memory"),
    "preemption": Label(Layer.ORCHESTRATOR, "taken away for higher priority, spot reclaim or maintenance"),
    "scheduler_limit": Label(Layer.ORCHESTRATOR, "time limit, memory limit or deadline"),
    "user_cancelled": Label(Layer.ORCHESTRATOR, "a person or script cancelled it"),
    "unschedulable": Label(Layer.ORCHESTRATOR, "cannot be placed: resources, constraints, image, quota"),
    "resource_conflict": Label(Layer.ORCHESTRATOR, "port, device or memory held by a leftover or another tenant"),
    "rendezvous_failure": Label(Layer.FRAMEWORK, "processes never met: coordinator, world size, late or missing peers"),
    "collective_desync": Label(Layer.FRAMEWORK, "ranks disagree on which collective, in which order, of which shape"),
    "workload_imbalance": Label(Layer.FRAMEWORK, "ranks legitimately unequal: stage, sequence or expert imbalance"),
    "timeout_budget": Label(
        Layer.FRAMEWORK, "legitimate long work (compile, save, evaluation) against a timeout too short"
    ),
    "numerics_nan": Label(Layer.FRAMEWORK, "NaN, Inf or divergence in loss, gradients or weights"),
    "data_pipeline": Label(Layer.USER_CODE, "bad samples, loader worker deaths, shards missing, order repeated"),
    "input_bound": Label(Layer.USER_CODE, "accelerators wait for data"),
    "user_code_index": Label(
        Layer.USER_CODE, "a bug in user code or configuration: shapes, indices, imports, types, arguments"
    ),
    "hang_in_user_code": Label(Layer.USER_CODE, "a rank stuck in its own code or lock, others wait"),
    "version_mismatch": Label(Layer.FRAMEWORK, "incompatible versions of libraries, drivers or checkpoints"),
    "external_service": Label(Layer.INFRASTRUCTURE, "hub, object store, registry, licence or tracking service failed"),
    "recompilation": Label(Layer.FRAMEWORK, "repeated or very long compilation"),
    "framework_bug": Label(Layer.FRAMEWORK, "a confirmed defect of a framework or library"),
    "cuda_kernel_fault": Label(Layer.FRAMEWORK, "illegal access, assert or launch failure in a device kernel"),
}
