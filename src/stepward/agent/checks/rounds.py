"""Runs checks when they are due and keeps what each says: the standing of a node, and its bad intervals as events.

One rounds object belongs to one thread, so that a look that hangs hangs its own group alone; ``overdue`` may be asked
from another thread meanwhile.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

import msgspec

from stepward.agent.checks.protocol import Answer, Check, Result, unknown
from stepward.model.frames import Event


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a check says of the node now.

    Attributes:
        at: when it was found, µs since the epoch.
        since: since when it is bad; None once it is ok. What is bad and then unknown has not become well.
    """

    check: Check
    answer: Answer
    at: int
    since: int | None = None

    def described(self) -> dict[str, object]:
        """As the configuration tree of the node's run has it."""
        return {
            "name": self.check.name,
            "layer": self.check.layer,
            "severity": self.check.severity.value,
            "result": self.answer.result.value,
            "reason": self.answer.reason,
            "value": self.answer.value,
            "at": self.at,
        }

    def event(self, *, ended_at: int | None = None) -> Event:
        """The interval in which it is bad."""
        assert self.since is not None
        return Event(
            id=f"check-{self.check.name}-{self.since}",
            type="node_check",
            started_at=self.since,
            ended_at=ended_at,
            title=f"{self.check.name}: {self.answer.reason}",
            data={
                "check": self.check.name,
                "layer": self.check.layer,
                "severity": self.check.severity.value,
                "reason": self.answer.reason,
                "value": self.answer.value,
            },
        )


class Rounds:
    """A group of checks.

    Args:
        clock: µs since the epoch.
        tell: takes each event: a bad interval that begins or ends.
        since: check -> since when it is bad, as an agent before this one left it.
    """

    def __init__(
        self,
        checks: Sequence[Check],
        clock: Callable[[], int],
        tell: Callable[[Event], None],
        since: Mapping[str, int] | None = None,
    ) -> None:
        self._checks, self._clock, self._tell = list(checks), clock, tell
        self._due = dict.fromkeys((check.name for check in checks), 0.0)
        self._bad_looks: dict[str, int] = {}
        self._findings: dict[str, Finding] = {}
        self._since = {name: at for name, at in (since or {}).items() if name in self._due}
        self._looking: tuple[Check, float] | None = None
        self._lock = threading.Lock()

    def turn(self, now: Callable[[], float]) -> bool:
        """Look with every check that is due; whether any says another thing than before.

        Args:
            now: monotonic seconds.
        """
        changed = False
        for check in self._checks:
            at = now()
            if at < self._due[check.name]:
                continue
            self._due[check.name] = at + check.period_s
            self._looking = check, at
            try:
                answer = check.look(at)
            except Exception as error:
                answer = unknown(f"{type(error).__name__}: {error}")
            self._looking = None
            changed |= self._take(check, answer)
        return changed

    def overdue(self, now: float) -> bool:
        """Tell of a look that has passed its deadline as ``unknown``; whether that is news. For another thread."""
        looking = self._looking
        if looking is None or now - looking[1] <= looking[0].deadline_s:
            return False
        return self._take(looking[0], unknown(f"no answer in {looking[0].deadline_s:g} s"))

    @property
    def complete(self) -> bool:
        """Whether every check has said something."""
        return len(self._findings) == len(self._checks)

    def findings(self) -> list[Finding]:
        """What each check said last, in the order of the checks."""
        with self._lock:
            return [self._findings[check.name] for check in self._checks if check.name in self._findings]

    def _take(self, check: Check, answer: Answer) -> bool:
        with self._lock:
            before, was = self._findings.get(check.name), self._since.get(check.name)
            looks = self._bad_looks.get(check.name, 0) + 1 if answer.result is Result.BAD else 0
            self._bad_looks[check.name] = looks
            if 0 < looks < check.confirm and was is None:
                answer = unknown(f"{answer.reason}; looked at again before it counts", answer.value)
            at = self._clock()
            if answer.result is Result.OK:
                self._since.pop(check.name, None)
            elif answer.result is Result.BAD:
                self._since.setdefault(check.name, at)
            found = Finding(check=check, answer=answer, at=at, since=self._since.get(check.name))
            self._findings[check.name] = found
        if found.since is not None and found.since != was:
            self._tell(found.event())
        elif found.since is None and was is not None:
            last = before if before is not None and before.since is not None else found
            self._tell(msgspec.structs.replace(last, since=was).event(ended_at=at))
        return before is None or (before.answer.result, before.answer.reason) != (answer.result, answer.reason)
