"""Plain JAX and Flax loops: what XLA compiles becomes phase ``compile``, of the step or phase that waited for it.

``watch`` listens to ``jax.monitoring``; a run does it by itself where JAX is loaded when it begins or at its first step.
Tracing is not counted: traces of nested functions overlap. Rank and world come from ``jax.distributed`` (``meeting``).
"""

import sys
from typing import Any

from stepward.model.words import Phase
from stepward.sdk import session

_COMPILING = frozenset(
    {"/jax/core/compile/backend_compile_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration"}
)

_watching = False


def watch() -> bool:
    """Listen to the compilations of this process; whether there is a JAX to listen to. Once is enough."""
    global _watching
    if _watching:
        return True
    try:
        sys.modules["jax"].monitoring.register_event_duration_secs_listener(_on_duration)
    except (KeyError, AttributeError):  # not loaded, or half loaded by another thread
        return False
    _watching = True
    return True


def _on_duration(event: str, duration: float, **_: Any) -> None:
    if event in _COMPILING:
        run = session.current_run()
        if run is not None:
            run.timer.passed(Phase.COMPILE.value, duration)
