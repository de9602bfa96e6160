"""stepward keeps ML runs healthy, fast and explained.

``import stepward`` loads nothing but this file; the SDK comes with the first name that is used. The names of ``__all__``
are the public surface of the training process; ``__init__.pyi`` has their types.
"""

__version__ = "0.1.0"
__all__ = ["Run", "StepwardError", "UsageError", "current_run", "finish", "init", "log", "phase", "step"]

_HOMES = {"Run": "stepward.sdk.run", "StepwardError": "stepward.errors", "UsageError": "stepward.errors"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'stepward' has no attribute {name!r}")
    # Imported on use: a process that only imports stepward pays for nothing.
    from importlib import import_module

    value = getattr(import_module(_HOMES.get(name, "stepward.sdk.session")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
