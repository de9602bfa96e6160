"""Orchestrators: what started this process, and what it says about run, attempt, rank and node.

Both sides use this package: the SDK and the wrapper ask who they are (``identity``). Every answer is a pure function of
an environment and of ``ProcFacts``, so that it is tested on recorded environments.
"""
