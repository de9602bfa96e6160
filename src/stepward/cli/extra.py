"""Optional parts: the modules by which each is known, and one error with the pip line where one is missing."""

import contextlib
from collections.abc import Iterator

from stepward.errors import MissingExtra

EXTRAS = {
    "server": ("litestar", "uvicorn", "sqlalchemy", "alembic", "duckdb", "numpy"),
    "agent": ("psutil", "pynvml"),
    "demo": ("numpy",),
}
"""Extras of pyproject.toml and modules that they install; what only makes something faster is not among them."""


@contextlib.contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around the import of something that needs an extra.

    Raises:
        MissingExtra: ``missing_extra``, with the pip line.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS[extra]:
            raise
        raise MissingExtra(module, extra) from None
