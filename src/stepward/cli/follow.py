"""Output as it comes: ``stepward logs --follow``.

Lines are fetched by their numbers, so that none is missed while the stream of updates is down, and none is printed twice.
The last line of a stream may grow while it is written (a progress bar); it is then printed again as it is now.
"""

from typing import NamedTuple

from stepward.cli.logs import Printed, Sink, by_time, choose
from stepward.client.api import Client
from stepward.client.live import Opened
from stepward.model.resources import LogLine, LogStream, Run
from stepward.model.updates import LogsUpdate, RunUpdate

QUIET_S = 2.0
"""How long after its end a run is still listened to: its last lines arrive with its exit, or just after."""
Wanted = tuple[int | None, str | None, int | None]
"""Rank, stream and attempt that the user named."""


class Seen(NamedTuple):
    """How far a stream was printed: its size then, number and text of the last line (None where it was not wanted)."""

    bytes: int
    n: int
    text: str | None


class Following:
    """A run whose output is printed as it comes, restarts included.

    Args:
        known: the streams that there were before ``shown``, what was printed of them, was fetched.
    """

    def __init__(
        self, client: Client, run: Run, sink: Sink, wanted: Wanted, *, known: list[LogStream], shown: list[Printed]
    ) -> None:
        self._client, self._run, self._sink, self._wanted = client, run, sink, wanted
        self._seen = {one.stream.id: Seen(-1, last_number(one.line), one.line.text) for one in shown}
        for stream in known:
            self._seen.setdefault(stream.id, Seen(stream.bytes, stream.lines, None))
        self._first_attempt = max((stream.attempt for stream in choose(known, *wanted)), default=0)

    def until_the_end(self) -> None:
        """Print what comes until the run has ended and nothing more arrives."""
        live = self._client.live(run=[self._run.id])
        ended = self._run.state.terminal
        while True:
            update = live.next(QUIET_S)
            if isinstance(update, RunUpdate) and update.run.id == self._run.id:
                ended = update.run.state.terminal
            if isinstance(update, Opened):
                ended = self._client.run(self._run.id).state.terminal
            if update is None or isinstance(update, LogsUpdate | Opened):
                self._print_new()
            if update is None and ended:
                return

    def _print_new(self) -> None:
        new = [Printed(stream, line) for stream in self._streams() for line in self._new_lines(stream)]
        if new:
            self._sink.write(by_time(new))

    def _streams(self) -> list[LogStream]:
        rank, stream, attempt = self._wanted
        every = self._client.log_streams(self._run.id)
        attempts = {one.attempt for one in every if one.attempt >= self._first_attempt}
        return [
            one
            for number in sorted(attempts)
            for one in choose(every, rank, stream, number)
            if attempt in (None, number)
        ]

    def _new_lines(self, stream: LogStream) -> list[LogLine]:
        seen = self._seen.get(stream.id, Seen(-1, 0, None))
        if stream.bytes == seen.bytes:
            return []
        lines = list(self._client.log_lines(self._run.id, stream.id, from_n=max(seen.n, 1)))
        if lines and last_number(lines[0]) == seen.n and seen.text in (None, lines[0].text):
            del lines[0]
        last = lines[-1] if lines else None
        self._seen[stream.id] = (
            Seen(stream.bytes, last_number(last), last.text) if last else seen._replace(bytes=stream.bytes)
        )
        return lines


def last_number(line: LogLine) -> int:
    """Number of the last line that a (folded) line stands for."""
    return line.n_last or line.n
