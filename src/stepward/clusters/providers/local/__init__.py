"""A cluster of real Slurm daemons on one host."""

from stepward.clusters.providers.local.provider import LocalProvider

__all__ = ["LocalProvider"]
