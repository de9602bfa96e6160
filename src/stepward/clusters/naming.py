"""What a cluster may be called."""

import re

from stepward.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")


def cluster_name(name: str) -> str:
    """``name``, where a cluster may be called so.

    Raises:
        UsageError: ``bad_cluster_name``.
    """
    if not _NAME.fullmatch(name) or name == "host":
        raise UsageError(
            f"{name[:40]!r} cannot name a cluster",
            code="bad_cluster_name",
            hint="1 to 20 of a-z, 0-9 and -, a letter first; `host` is the Slurm of the server's own host",
        )
    return name


def default_name(title: str) -> str:
    """The name of a cluster that is only given a ``display_name``; it need not be a good one."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:20].rstrip("-")
