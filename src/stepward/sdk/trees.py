"""The software and system trees of a run's configuration: what it runs on, collected without being asked.

Collected in the background thread after ``init``: the training loop never waits for it. Packages are read from the names
of their metadata folders (parsing 300 metadata files holds the interpreter for a second); a library that isn't loaded
isn't loaded for it. Everything leaves masked (``secrets``).
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from stepward.sdk.git import read_git
from stepward.sdk.secrets import mask_argv, mask_text, mask_tree

T = TypeVar("T")
MAX_PACKAGES = 2000
_FLAG_PREFIXES = (
    "ACCELERATE_",
    "CUBLAS_",
    "CUDA_",
    "CUDNN_",
    "DEEPSPEED_",
    "FI_",
    "FSDP_",
    "GLOO_",
    "HIP_",
    "JAX_",
    "KMP_",
    "LIBTPU_",
    "MKL_",
    "NCCL_",
    "NEURON_",
    "NVIDIA_",
    "NVTE_",
    "OMP_",
    "PYTORCH_",
    "RCCL_",
    "ROCR_",
    "TF_",
    "TORCH",
    "TPU_",
    "TRITON_",
    "UCX_",
    "VLLM_",
    "XLA_",
)
_FLAG_NAMES = frozenset(
    {
        "CONDA_DEFAULT_ENV",
        "LD_PRELOAD",
        "MALLOC_ARENA_MAX",
        "PYTHONHASHSEED",
        "PYTHONOPTIMIZE",
        "TOKENIZERS_PARALLELISM",
    }
)
_SCHEDULER_PREFIXES = ("SLURM_", "PBS_", "LSB_", "FLUX_", "KUBERNETES_SERVICE_", "JOBSET_", "JOB_COMPLETION_")
_IMAGE_NAMES = ("STEPWARD_IMAGE", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "ENROOT_ROOTFS", "CONTAINER_IMAGE")


def software(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The software tree: interpreter, packages, flags, git, command line."""
    entry = entry_script()
    folder = os.path.dirname(os.path.abspath(entry)) if entry and os.path.exists(entry) else os.getcwd()
    tree: dict[str, Any] = {
        "python": {
            "version": ".".join(map(str, sys.version_info[:3])),
            "implementation": sys.implementation.name,
            "executable": sys.executable,
        },
        "command": " ".join(_quoted(argument) for argument in mask_argv(sys.orig_argv)),
        "argv": mask_argv(sys.argv),
        "entry": entry,
        "folder": os.getcwd(),
        "packages": _known(packages),
        "flags": flags(environ),
        "git": _known(lambda: read_git(folder)),
    }
    return mask_tree({key: value for key, value in tree.items() if value})  # type: ignore[no-any-return]


def frameworks() -> dict[str, Any]:
    """Versions and settings of the frameworks that this process has loaded by now."""
    found = {name: _known(ask) for name, ask in (("torch", _torch), ("jax", _jax)) if name in sys.modules}
    return {name: facts for name, facts in found.items() if facts}


def system(node: str, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The system tree of this host, under its name: a run's hosts stand beside each other."""
    uname = os.uname()
    tree = {
        "hostname": uname.nodename,
        "os": _known(_os_name),
        "kernel": uname.release,
        "machine": uname.machine,
        "cpu": _known(_cpu),
        "memory_bytes": _known(lambda: os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
        "devices": _known(_devices),
        "driver": _known(_driver),
        "image": next((mask_text(environ[name]) for name in _IMAGE_NAMES if environ.get(name)), None),
        "scheduler": selected(environ, _SCHEDULER_PREFIXES),
    }
    return {node: {key: value for key, value in tree.items() if value}}


def flags(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that change how frameworks and their libraries behave."""
    return selected(environ, _FLAG_PREFIXES, _FLAG_NAMES)


def selected(environ: Mapping[str, str], prefixes: tuple[str, ...], names: Iterable[str] = ()) -> dict[str, str]:
    """Variables by prefix or name, masked; no other variable ever leaves the process."""
    wanted = frozenset(names)
    found = {name: environ[name] for name in sorted(environ) if name.startswith(prefixes) or name in wanted}
    return mask_tree(found)  # type: ignore[no-any-return]


def packages(folders: Iterable[str] | None = None) -> dict[str, str]:
    """Installed distributions and their versions, the first on the path wins, as the import does."""
    found: dict[str, str] = {}
    for folder in sys.path if folders is None else folders:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            stem, ending = os.path.splitext(name)
            package, dash, version = stem.partition("-")
            if ending in (".dist-info", ".egg-info") and dash and len(found) < MAX_PACKAGES:
                found.setdefault(package, version.split("-py")[0])
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def entry_script() -> str | None:
    """Path of the script, or the module that ``python -m`` runs; None in a notebook or a shell."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name.removesuffix(".__main__"))
    path = getattr(main, "__file__", None)
    return os.path.abspath(path) if path else None


def _torch() -> dict[str, Any]:
    torch = sys.modules["torch"]
    backends = torch.backends
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn_benchmark": backends.cudnn.benchmark,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def _jax() -> dict[str, Any]:
    jax = sys.modules["jax"]
    config = jax.config
    names = ("jax_enable_x64", "jax_default_matmul_precision", "jax_debug_nans", "jax_compilation_cache_dir")
    return {"version": str(jax.__version__), **{name: getattr(config, name, None) for name in names}}


def _os_name() -> str:
    # Imported on use, in the background thread.
    import platform

    return platform.freedesktop_os_release().get("PRETTY_NAME", "") if sys.platform == "linux" else platform.platform()


def _cpu() -> dict[str, Any]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    model = None
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), None)
    return {"model": model, "cores": os.cpu_count(), "usable_cores": usable}


def _devices() -> list[dict[str, Any]]:
    # Imported on use: NVML is looked for in the background thread.
    from stepward.collect.devices import Devices, load_nvml

    return Devices(load_nvml()).describe()


def _driver() -> str:
    with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
        return file.readline().strip()


def _quoted(argument: str) -> str:
    # Imported on use, in the background thread.
    import shlex

    return shlex.quote(argument)


def _known(read: Callable[[], T]) -> T | None:
    """What ``read`` answers; None where it can't: one fact that is missing never costs the others."""
    try:
        return read()
    except Exception:
        return None
