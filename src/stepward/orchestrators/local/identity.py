"""Who a process is below torchrun, mpirun, JAX's environment or a plain shell, from variables and process facts.

On one host the launcher's process (boot id, pid, start time) names the launch. Over several hosts only what the
launcher exports does; where it exports nothing, ``several`` says that the ranks have to agree among themselves.
"""

from stepward.orchestrators.protocol import Environ, ProcFacts, first_integer, integer


def torch_key(environ: Environ, facts: ProcFacts) -> str | None:
    """Key of a torchrun launch: its run id with the rendezvous address, or on one host the launcher's process.

    None outside of torchrun, and for several hosts without a run id (``--rdzv-id``).
    """
    name = environ.get("TORCHELASTIC_RUN_ID")
    if not name:
        return None
    if name != "none":
        return f"torchelastic:{name}@{environ.get('MASTER_ADDR', '')}:{environ.get('MASTER_PORT', '')}"
    return f"torchrun:{launcher(environ, facts)}" if (integer(environ, "GROUP_WORLD_SIZE") or 1) == 1 else None


def mpi_key(environ: Environ) -> str | None:
    """Key of an MPI launch: its PMIx name space."""
    namespace = environ.get("PMIX_NAMESPACE")
    return f"mpi:{namespace}" if namespace else None


def elastic_part(environ: Environ) -> str | None:
    """``torchelastic.<n>`` after the n-th restart; None before, so that the wrapper outside names the same attempt."""
    restarts = integer(environ, "TORCHELASTIC_RESTART_COUNT")
    return f"torchelastic.{restarts}" if restarts else None


def launch_part(environ: Environ, facts: ProcFacts) -> str:
    """Attempt of processes that no launcher names: those with a RANK share their parent, one without stands alone."""
    if integer(environ, "RANK") is not None or integer(environ, "JAX_PROCESS_ID") is not None:
        return f"launch:{launcher(environ, facts)}"
    return f"process:{facts.boot}:{facts.pid}:{facts.start}"


def launcher(environ: Environ, facts: ProcFacts) -> str:
    """``<boot id>:<pid>:<start time>`` of what started the ranks: the nearest ancestor that is not of this rank."""
    own = environ.get("RANK")
    for ancestor in facts.ancestors:
        if own is None or ancestor.rank != own:
            return f"{facts.boot}:{ancestor.pid}:{ancestor.start}"
    return f"{facts.boot}:{facts.pid}:{facts.start}"


def rank(environ: Environ) -> int | None:
    """Rank that a launcher below the scheduler sets."""
    return first_integer(environ, "RANK", "JAX_PROCESS_ID", "OMPI_COMM_WORLD_RANK")


def local_rank(environ: Environ) -> int | None:
    """Rank on this node that such a launcher sets."""
    return first_integer(environ, "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")


def world(environ: Environ) -> int | None:
    """Number of ranks that such a launcher sets."""
    return first_integer(environ, "WORLD_SIZE", "JAX_NUM_PROCESSES", "OMPI_COMM_WORLD_SIZE")


def several(environ: Environ) -> bool:
    """Whether the environment hints at more ranks than this process, started by something that names no run."""
    hosts = environ.get("TPU_WORKER_HOSTNAMES", "")
    return (world(environ) or 1) > 1 or bool(environ.get("JAX_COORDINATOR_ADDRESS")) or "," in hosts
