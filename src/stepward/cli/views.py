"""What ``stepward watch`` shows: one run, or the runs of a query, kept true by live updates.

An update only marks what is stale; ``refresh`` fetches it. Bursts of updates therefore cost one fetch a redraw, and a
stream that was down is made up for by marking everything.
"""

from typing import Protocol

from rich.text import Text

from stepward.cli.figures import figure, sparkline
from stepward.cli.ls import COLOURS, columns
from stepward.cli.show import SAMPLED, attempt_columns, facts
from stepward.cli.table import layout
from stepward.cli.text import cut_middle, pad, safe
from stepward.client.api import Client
from stepward.client.live import Opened, Update
from stepward.errors import NotFound
from stepward.model.resources import Run
from stepward.model.updates import PointsUpdate, RunRemoved, RunUpdate

SPARKS, SPARK_CELLS = 12, 40
"""Metrics that are drawn, and buckets of each."""
_NAME_CELLS, _VALUE_CELLS = 32, 11


class View(Protocol):
    """Something that is watched."""

    @property
    def over(self) -> bool:
        """Whether nothing more is expected."""

    def take(self, update: Update) -> None:
        """Mark what the update makes stale."""

    def refresh(self) -> list[Run]:
        """Fetch what is stale; the runs that changed, oldest first."""

    def lines(self, width: int, now: float) -> list[Text]:
        """The picture, at most ``width`` cells wide, at ``now`` (seconds since the epoch)."""


class OneRun:
    """A run and the newest buckets of its metrics."""

    def __init__(self, client: Client, run: Run, *, sparks: bool) -> None:
        self.run = run
        self._client = client
        self._with_sparks = sparks
        self._sparks: dict[str, list[float | None]] = {}
        self._stale_metrics: set[str] = set()
        self._changed, self._stale = True, True

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.run.state.terminal

    def take(self, update: Update) -> None:
        """Mark what the update makes stale; a run that was deleted ends the watch."""
        if isinstance(update, RunRemoved) and update.id == self.run.id:
            raise NotFound(f"{self.run.name} was deleted", code="no_such_run")
        if isinstance(update, Opened):
            self._stale = True
            self._sparks.clear()
        elif isinstance(update, RunUpdate) and update.run.id == self.run.id:
            self._stale = True
        elif isinstance(update, PointsUpdate) and update.run == self.run.id:
            self._stale_metrics.update(update.metrics)

    def refresh(self) -> list[Run]:
        """Fetch the run where the stream was down, and the metrics that have new points."""
        if self._stale or self._stale_metrics:
            run = self._client.run(self.run.id)
            self._changed |= run != self.run
            self.run, self._stale = run, False
            if self._with_sparks:
                self._fetch_sparks()
            self._stale_metrics.clear()
        changed, self._changed = self._changed, False
        return [self.run] if changed else []

    def lines(self, width: int, now: float) -> list[Text]:
        """State, facts, attempts and a line a metric."""
        head = Text.assemble(
            (safe(self.run.name), "bold"), "  ", (self.run.state.value, COLOURS.get(self.run.state, "red"))
        )
        told = [Text(f"  {name:<9} {safe(value)}") for name, value in facts(self.run, now)]
        _, table = layout(attempt_columns(now), self.run.attempts, width)
        attempts = [Text("  ".join(row)) for row in table]
        picture = [head, *told, Text(), *attempts, Text(), *(self._spark(metric) for metric in self._drawn())]
        for line in picture:
            line.truncate(width, overflow="ellipsis")
        return picture

    def _fetch_sparks(self) -> None:
        for metric in self._drawn():
            if metric in self._stale_metrics or metric not in self._sparks:
                chart = self._client.points(self.run.id, metric, buckets=SPARK_CELLS)
                surviving = [line for line in chart.lines if not line.abandoned]
                self._sparks[metric] = surviving[-1].mean if surviving else []

    def _spark(self, metric: str) -> Text:
        name = pad(cut_middle(safe(metric), _NAME_CELLS), _NAME_CELLS)
        value = pad(figure(self.run.latest[metric].value), _VALUE_CELLS, right=True)
        return Text(f"{name}  {value}  ").append(sparkline(self._sparks.get(metric, [])), style="cyan")

    def _drawn(self) -> list[str]:
        return sorted(self.run.latest, key=lambda name: (name.startswith(SAMPLED), name))[:SPARKS]


class AllRuns:
    """The newest runs of a query."""

    over = False

    def __init__(
        self, client: Client, project: str | None, filter: str | None, limit: int, metrics: list[str] | None = None
    ) -> None:
        self._metrics = metrics
        self._client, self._project, self._filter, self._limit = client, project, filter, limit
        self._runs: list[Run] = []
        self._stale = True

    def take(self, update: Update) -> None:
        """Mark the list as stale: which runs match, and in which order, is the server's to say."""
        self._stale |= isinstance(update, (Opened, RunUpdate, RunRemoved))

    def refresh(self) -> list[Run]:
        """Fetch the list where it is stale."""
        if not self._stale:
            return []
        before = {run.id: run for run in self._runs}
        asked = self._client.runs(project=self._project, filter=self._filter, limit=self._limit, metrics=self._metrics)
        self._runs = list(asked)
        self._stale = False
        return [run for run in reversed(self._runs) if run != before.get(run.id)]

    def lines(self, width: int, now: float) -> list[Text]:
        """The table of ``ls``."""
        _, table = layout(columns(now, []), self._runs, width)
        return [Text("  ".join(row), style="" if place else "bold") for place, row in enumerate(table)]
