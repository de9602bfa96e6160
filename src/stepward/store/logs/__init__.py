"""Output of runs: sealed chunks of bytes, an index of their lines, and the folded view that people read."""

from stepward.store.logs.store import LogStore

__all__ = ["LogStore"]
