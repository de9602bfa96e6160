"""Who am I: run, attempt, rank and node of a process, asked of every orchestrator in the order of ARCHITECTURE.md 5.0.

The wrapper asks too (``outer_attempt``): what it exports as ``STEPWARD_ATTEMPT`` must be the same on every node.
"""

from stepward.model.identity import derived_run_id, random_run_id, run_id
from stepward.orchestrators.kubernetes import identity as kubernetes
from stepward.orchestrators.local import identity as local
from stepward.orchestrators.protocol import Environ, Identity, ProcFacts
from stepward.orchestrators.slurm import identity as slurm


def identify(environ: Environ, facts: ProcFacts, *, project: str, run: str | None = None) -> Identity:
    """The identity of this process; ``run`` is what the caller names: a run id or a key."""
    named = environ.get("STEPWARD_RUN") or run
    key = named or launch_key(environ, facts)
    launched = launch_attempt(environ, facts)
    several = local.several(environ)
    return Identity(
        key=key,
        run=run_id(project, key) if key else random_run_id(),
        attempt=launched or local.launch_part(environ, facts),
        rank=rank(environ),
        local_rank=_local_rank(environ),
        world=_world(environ),
        node=node(environ, facts),
        job=slurm.job(environ) or kubernetes.job(environ),
        alone=several and (key is None or launched is None) and not _one_parent(environ, key),
    )


def launch_key(environ: Environ, facts: ProcFacts) -> str | None:
    """The run key that scheduler or launcher give; None where they give none."""
    return (
        slurm.run_key(environ)
        or kubernetes.run_key(environ)
        or local.torch_key(environ, facts)
        or local.mpi_key(environ)
    )


def launch_attempt(environ: Environ, facts: ProcFacts) -> str | None:
    """The attempt key that scheduler, launcher and wrapper give; None where they give none."""
    parts = [environ.get("STEPWARD_ATTEMPT") or outer_attempt(environ), local.elastic_part(environ)]
    if not parts[0]:
        key = local.torch_key(environ, facts) or local.mpi_key(environ)
        parts[0] = f"launch:{local.launcher(environ, facts)}" if key and key.startswith("torchrun:") else key
    return "/".join(part for part in parts if part) or None


def outer_attempt(environ: Environ) -> str | None:
    """What the scheduler says of this launch, the same on every node; None outside of a scheduler."""
    return slurm.attempt_part(environ, in_step=local.rank(environ) is None) or kubernetes.attempt_part(environ)


def rank(environ: Environ) -> int:
    """Rank of this process: what a launcher below the scheduler sets, else the scheduler's task, else 0."""
    inner = local.rank(environ)
    return inner if inner is not None else slurm.rank(environ) or 0


def has_rank(environ: Environ) -> bool:
    """Whether a launcher says the rank; where none does, a framework may still join this process with others."""
    return local.rank(environ) is not None or slurm.rank(environ) is not None


def node(environ: Environ, facts: ProcFacts) -> str:
    """Name of this node as the scheduler knows it."""
    return environ.get("SLURMD_NODENAME") or facts.host


def host_run(identity: Identity, environ: Environ, facts: ProcFacts, *, project: str) -> Identity:
    """The identity to go on with when ranks could not agree: one run, or one attempt of a named run, a host."""
    launcher = local.launcher(environ, facts)
    key = identity.key or f"host:{launcher}:{environ.get('MASTER_ADDR', '')}:{environ.get('MASTER_PORT', '')}"
    run = identity.run if identity.key else derived_run_id(project, key)
    return Identity(
        key=key,
        run=run,
        attempt=f"launch:{launcher}",
        rank=identity.rank,
        local_rank=identity.local_rank,
        world=identity.world,
        node=identity.node,
        job=identity.job,
    )


def _local_rank(environ: Environ) -> int | None:
    inner = local.local_rank(environ)
    if inner is not None or local.rank(environ) is not None:
        return inner
    return slurm.local_rank(environ)


def _world(environ: Environ) -> int | None:
    inner = local.world(environ)
    return inner if inner is not None or local.rank(environ) is not None else slurm.world(environ)


def _one_parent(environ: Environ, key: str | None) -> bool:
    """Ranks of a named run that a shell started on one host: their parent is enough to know the attempt."""
    return key is not None and environ.get("RANK") is not None and not environ.get("JAX_COORDINATOR_ADDRESS")
