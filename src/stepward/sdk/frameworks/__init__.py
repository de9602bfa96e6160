"""Thin callbacks of training frameworks, each imported on use: ``hf``, ``lightning``, ``jax``.

They only translate a framework's hooks into the calls of ``Run``; what a framework has no hook for is not measured.
"""
