"""One a cluster: every Slurm job becomes a run by itself (docs/watcher.md)."""

from stepward.agent.watcher.starting import watch

__all__ = ["watch"]
