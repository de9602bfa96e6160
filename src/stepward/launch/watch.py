"""What can be seen of a running process from outside: state, cgroup, descendants.

Only files that never block are read here (``stat``, ``children``, ``cgroup``): this runs in the loop that keeps the
heartbeat, beside processes in state D.
"""

from stepward.collect import cgroup as cgroups
from stepward.collect.process import stat_of, tree


class Watch:
    """Follows one process of an attempt.

    Attributes:
        pids: the process and every descendant that was ever seen.
        ranks: rank -> pid of ranks that a launcher below has started, as the readings thread finds them.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.pids = {pid}
        self.ranks: dict[int, int] = {}
        self._cgroup: cgroups.Cgroup | None = None
        self._kills_before: int | None = None

    def look(self) -> None:
        """Note cgroup and descendants of this moment."""
        self.pids.update(tree(self.pid))
        found = cgroups.locate(self.pid)
        # A zombie of version 1 has been moved to the root already: the last place of its life is what counts.
        if found is not None and found.memory != (self._cgroup and self._cgroup.memory) and not self.is_zombie():
            self._cgroup, self._kills_before = found, cgroups.oom_kills(found)

    def is_zombie(self) -> bool:
        """Whether it has ended and waits to be reaped."""
        stat = stat_of(self.pid)
        return stat is None or stat.state in "ZX"

    def killed_in_cgroup(self) -> bool:
        """Whether the kernel has killed for memory in its cgroup since it came there."""
        now = cgroups.oom_kills(self._cgroup)
        return now is not None and self._kills_before is not None and now > self._kills_before

    def states(self, rank: int) -> dict[int, bool]:
        """Living ranks of this process -> whether they are stopped: those of a launcher below, else ``rank`` itself."""
        roots = {number: pid for number, pid in self.ranks.items() if stat_of(pid) is not None} or {rank: self.pid}
        return {number: _is_stopped(pid) for number, pid in roots.items()}


def _is_stopped(pid: int) -> bool:
    """Whether the process or one below it is stopped: a stopped loader or child of a shell stops its rank."""
    return any((stat := stat_of(one)) is not None and stat.state == "T" for one in tree(pid))
