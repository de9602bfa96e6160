"""One a cluster: every Slurm job becomes a run by itself (docs/watcher.md)."""

from stepward.agent.watcher.watching import watch

__all__ = ["watch"]
