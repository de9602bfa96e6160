"""One batch of frames on its way into the catalog: rows read once, changed in memory, written once.

Everything that writers say passes ``bounds``: no content of a committed frame may make its application fail.
"""

from collections.abc import Iterable, Sequence

import msgspec
import sqlalchemy as sa

from stepward.ingest.protocols import CommittedFrame, MetricSummary
from stepward.model.frames import Config, Events, Logs, Status
from stepward.model.identity import attempt_key
from stepward.model.launches import outer_keys
from stepward.model.states import Exit, State
from stepward.model.words import SourceKind
from stepward.store.catalog import schema
from stepward.store.catalog.bounds import (
    MAX_LEAVES,
    int32,
    int64,
    leaves,
    merged,
    text,
    tree,
)
from stepward.store.catalog.changes import Change
from stepward.store.catalog.claims import MOVED
from stepward.store.catalog.database import upsert
from stepward.store.catalog.launches import Launches, claimed_jobs, covered, own_start
from stepward.store.catalog.reading import run_event
from stepward.store.catalog.rows import (
    Row,
    bounded_exit,
    corrected,
    event_row,
    heard_at,
    new_attempt,
    new_run,
    new_source,
    offset_of,
    truer_offset,
    who_writes,
)
from stepward.store.catalog.stitching import NO_RANK, Stitching, newer, replaces

_exits = msgspec.msgpack.Decoder(list[Exit])
_encode = msgspec.msgpack.encode


class Batch:
    """Frames of one project that are applied in one transaction.

    Attributes:
        judged: run -> attempts whose state must be judged again.
        dropped: run -> metrics whose newest value was abandoned, filled by ``write``.
        moved: runs whose watcher says that it writes elsewhere from now on.
    """

    def __init__(self, connection: sa.Connection, project: str, frames: Sequence[CommittedFrame]) -> None:
        self._connection = connection
        self._project = project
        self.judged: dict[str, set[str]] = {}
        self.dropped: dict[str, list[str]] = {}
        self.moved: set[str] = set()
        runs = {frame.run for frame in frames}
        self._runs: dict[str, Row] = {row["id"]: row for row in self._load(schema.runs, "id", runs)}
        self._attempts: dict[str, dict[str, Row]] = {run: {} for run in runs}
        for row in self._load(schema.attempts, "run", runs):
            self._attempts[row["run"]][row["key"]] = row
        self._launches = Launches(self._load(schema.launches, "run", runs))
        self._gone: list[tuple[str, str]] = []
        self._claims: dict[tuple[str, str], Row] = {}
        self._covered: set[str] = set()
        self._sources = {
            (row["run"], row["writer"], row["attempt"]): row
            for row in self._load(schema.sources, "writer", {frame.writer for frame in frames})
        }
        self._configs: dict[str, Row] = {}
        self._tags: dict[str, set[str]] = {}
        self._events: dict[tuple[str, str], Row] = {}
        self._values: dict[tuple[str, str, str], Row] = {}
        self._restitch: set[str] = set()
        self._changes: dict[str, Change] = {}

    def _load(self, table: sa.Table, column: str, values: Iterable[str]) -> list[Row]:
        return self._load_where(table, table.c[column].in_(sorted(values)))

    def _load_where(self, table: sa.Table, condition: sa.ColumnElement[bool]) -> list[Row]:
        return [dict(row) for row in self._connection.execute(sa.select(table).where(condition)).mappings()]

    def take(self, frame: CommittedFrame) -> None:
        """Change the rows as one frame says. A frame for a run of another project changes nothing."""
        run = self._run(frame)
        if run["project"] != self._project:
            return
        attempt = self._attempt(frame)
        source = self._source(frame, attempt)
        change = self._changes.setdefault(frame.run, Change(project=self._project, run=frame.run))
        for _, payload in frame.payloads:
            if isinstance(payload, Status):
                self._take_status(payload, attempt, source)
            elif isinstance(payload, Exit):
                self._take_exit(payload, source)
                for row in covered(source["attempt"], self._attempts[frame.run].values()):
                    self._judge(frame.run, row["key"])
            elif isinstance(payload, Config):
                self._take_config(payload, run, attempt, source)
            elif isinstance(payload, Events):
                self._take_events(payload, attempt, source, change)
            elif isinstance(payload, Logs):
                change.logs = True
                self._covered.update([frame.run] if frame.source.kind is not SourceKind.WATCHER else [])
        for summary in frame.metrics:
            self._take_metric(frame, summary, attempt, change)
        if frame.last_step is not None:
            self._step(attempt, frame.last_step)
            source["step"] = int64(frame.last_step)
            change.step = max(frame.last_step, change.step if change.step is not None else frame.last_step)
        if State(attempt["state"]) is not State.RUNNING:
            self._judge(frame.run, attempt["key"])

    def _judge(self, run: str, attempt: str) -> None:
        self.judged.setdefault(run, set()).add(attempt)

    # ── who writes ──

    def _run(self, frame: CommittedFrame) -> Row:
        run = self._runs.get(frame.run)
        if run is None:
            run = self._runs[frame.run] = new_run(frame)
        run["last_seen_at"] = max(frame.received_at, run["last_seen_at"] or 0)
        run["changes"] += 1
        return run

    def _attempt(self, frame: CommittedFrame) -> Row:
        """The attempt that a frame is about: of a watcher's, the newest one inside the launch that it sees."""
        key, of_run = text(frame.source.attempt), self._attempts[frame.run]
        watched = frame.source.kind is SourceKind.WATCHER
        inside = covered(key, of_run.values()) if watched else []
        if inside:
            return inside[-1]
        attempt: Row | None = of_run.get(key)
        if attempt is None:
            attempt = of_run[key] = new_attempt(frame)
            self._renumber(frame.run)
        elif attempt["watched_only"]:
            attempt |= {"watched_only": False, "world": None, "own_started_at": new_attempt(frame)["started_at"]}
            self._renumber(frame.run)
        if not watched:
            self._replace_placeholders(frame.run, key)
        return attempt

    def _replace_placeholders(self, run: str, key: str) -> None:
        """What stood for the launches around an attempt until it was heard goes."""
        for outer in outer_keys(key):
            row = self._attempts[run].get(outer)
            if row is not None and row["watched_only"]:
                del self._attempts[run][outer]
                self._gone.append((run, outer))
                self._renumber(run)

    def _renumber(self, run: str) -> None:
        starts = self._launches.starts(run, self._attempts[run])
        for row in self._attempts[run].values():
            row["own_started_at"], row["started_at"] = own_start(row), starts[row["key"]]
        attempts = sorted(self._attempts[run].values(), key=lambda row: (row["started_at"], row["key"]))
        for number, row in enumerate(attempts, 1):
            row["number"] = number
            self._judge(run, row["key"])
        self._runs[run]["started_at"] = attempts[0]["started_at"]
        self._restitch.add(run)

    def _source(self, frame: CommittedFrame, attempt: Row) -> Row:
        who, key = frame.source, (frame.run, frame.writer, text(frame.source.attempt))
        row = self._sources.get(key)
        offset = offset_of(frame)
        if row is None:
            row = self._sources[key] = new_source(key, offset)
            self._judge(frame.run, attempt["key"])
        else:
            row["offset_us"] = truer_offset(row["offset_us"], offset)
        row |= who_writes(who)
        row["last_seen"] = max(frame.received_at, row["last_seen"])
        heard = heard_at(frame)
        if heard is not None:
            row["heard_at"] = max(heard, row["heard_at"] or 0)
        return row

    # ── what they say ──

    def _take_status(self, status: Status, attempt: Row, source: Row) -> None:
        if source["status_at"] is not None and status.at < source["status_at"]:
            return
        seen = {"alive": [int32(rank) for rank in status.alive], "stopped": [int32(rank) for rank in status.stopped]}
        announced = None if status.next_attempt is None else attempt_key(status.next_attempt)
        if any(source[name] != value for name, value in seen.items()) or source["next_attempt"] != announced:
            self._judge(source["run"], source["attempt"])
        source |= seen
        source["next_attempt"] = announced
        source["status_at"] = int64(status.at)
        if source["kind"] == SourceKind.WATCHER and self._launches.take_status(
            source["run"], source["attempt"], status
        ):
            self._judge(source["run"], attempt["key"])
        source["phase"] = None if status.phase is None else text(status.phase)
        for name in ("pending", "dropped", "gaps"):
            source[name] = max(0, int64(getattr(status, name)))
        if status.step is not None:
            source["step"] = int64(status.step)
            self._step(attempt, status.step)

    def _step(self, attempt: Row, step: int) -> None:
        last = int64(step)
        attempt["last_step"] = last if attempt["last_step"] is None else max(last, attempt["last_step"])

    def _first_step(self, attempt: Row, step: int) -> None:
        """Only what was logged cuts off earlier attempts: a heartbeat's step has no values to put in their place."""
        first = int64(step)
        if attempt["first_step"] is None or first < attempt["first_step"]:
            attempt["first_step"] = first
            self._restitch.add(attempt["run"])

    def _take_exit(self, exit: Exit, source: Row) -> None:
        known = _exits.decode(source["exits"]) if source["exits"] else []
        kept = [other for other in known if (other.rank, other.by) != (exit.rank, exit.by)]
        source["exits"] = _encode([*kept, bounded_exit(exit)])

    def _take_events(self, events: Events, attempt: Row, source: Row, change: Change) -> None:
        for event in events.events:
            row = event_row(event, source)
            self._events[source["run"], row["id"]] = row
            change.events.append(run_event(row, attempt["number"]))
            if event.type == MOVED and source["kind"] == SourceKind.WATCHER:
                self.moved.add(source["run"])
        self._judge(source["run"], attempt["key"])

    def _take_config(self, config: Config, run: Row, attempt: Row, source: Row) -> None:
        watched = source["kind"] == SourceKind.WATCHER
        # A job's name is the least of names: it never takes the place of one that the program gave.
        if config.name and not run["name_edited"] and (not watched or run["name"] in (run["id"], run["key"])):
            run["name"] = text(config.name)
        if config.key:
            run["key"] = text(config.key)
            if run["name"] == run["id"]:
                run["name"] = run["key"]
        if config.kind is not None:
            run["kind"] = config.kind.value
        if config.tags and not run["tags_edited"]:
            self._tags.setdefault(run["id"], set()).update(text(tag) for tag in config.tags if tag)
        if config.ranks is not None and (not watched or attempt["watched_only"]):
            attempt["world"] = max(int32(config.ranks), attempt["world"] or 0)
        started_at = None if config.started_at is None else corrected(config.started_at, source["offset_us"])
        if watched:
            if self._launches.take_config(run["id"], source["attempt"], config, started_at):
                self._renumber(run["id"])
        elif started_at is not None:
            self._start(attempt, started_at)
        if not watched:
            for cluster, job in claimed_jobs(config):
                claim = {"cluster": cluster, "job": job, "run": run["id"], "project": self._project, "covered": False}
                self._claims.setdefault((cluster, job), claim)
            self._covered.update([run["id"]] if source["kind"] == SourceKind.WRAPPER else [])
        self._take_trees(run["id"], config)

    def _start(self, attempt: Row, started_at: int) -> None:
        if attempt["announced_start"]:
            started_at = min(started_at, own_start(attempt))
        attempt["announced_start"] = True
        if started_at != own_start(attempt):
            attempt["own_started_at"] = started_at
            self._renumber(attempt["run"])

    def _take_trees(self, run: str, config: Config) -> None:
        trees = {name: getattr(config, name) for name in ("user", "software", "system", "job")}
        if not any(trees.values()):
            return
        row = self._configs.get(run)
        if row is None:
            found = self._load(schema.configs, "run", [run])
            row = found[0] if found else {"run": run, "user": {}, "software": {}, "system": {}, "job": {}}
            self._configs[run] = row
        for name, new in trees.items():
            if new:
                row[name] = merged(row[name], tree(new))

    def _take_metric(self, frame: CommittedFrame, summary: MetricSummary, attempt: Row, change: Change) -> None:
        change.metrics.add(summary.metric)
        if not summary.system:
            self._step(attempt, summary.step)
            self._first_step(attempt, summary.first_step)
        row = {
            "run": frame.run,
            "metric": summary.metric,
            "step": summary.step,
            "time": int64(summary.time),
            "value": None if summary.value != summary.value else summary.value,
            "rank": NO_RANK if frame.source.rank is None else int32(frame.source.rank),
            "attempt": attempt["key"],
            "system": summary.system,
        }
        key = (frame.run, summary.metric, attempt["key"])
        if key not in self._values or newer(row, self._values[key]):
            self._values[key] = row

    # ── into the tables ──

    def write(self) -> dict[str, Change]:
        """Write every row that changed; returns what changed, by run."""
        write = self._connection
        runs = [run for run in self._runs.values() if run["project"] == self._project]
        for run in runs:
            self._finish(run)
        upsert(write, schema.projects, _projects(self._project, runs), keep=("created_at",))
        kept = ("notes", "name_edited", "tags_edited", "created_at", "observed", "usual_step_s")
        upsert(write, schema.runs, runs, keep=kept)
        for run_id, key in self._gone:
            table = schema.attempts.c
            write.execute(sa.delete(schema.attempts).where(table.run == run_id, table.key == key))
        upsert(write, schema.attempts, [row for run in runs for row in self._attempts[run["id"]].values()])
        upsert(write, schema.sources, list(self._sources.values()))
        self._launches.write(write)
        self._write_claims()
        for run_id, config in self._configs.items():
            upsert(write, schema.configs, [config])
            self._write_leaves(run_id, config["user"])
        rows = [{"run": run, "tag": tag} for run, tags in self._tags.items() for tag in sorted(tags)]
        upsert(write, schema.tags, rows)
        upsert(write, schema.events, list(self._events.values()))
        self._write_latest()
        return self._changes

    def _finish(self, run: Row) -> None:
        stepped = [row for row in self._attempts[run["id"]].values() if row["last_step"] is not None]
        if stepped:
            run["step"] = max(stepped, key=lambda row: row["number"])["last_step"]

    def _write_claims(self) -> None:
        """A job belongs to the run that claimed it first."""
        table = schema.claims.c
        for (cluster, job), claim in self._claims.items():
            known = sa.select(table.seq).where(table.cluster == cluster, table.job == job)
            if self._connection.execute(known).first() is None:
                self._connection.execute(sa.insert(schema.claims).values(claim))
        if not self._covered:
            return
        silent = sa.and_(table.run.in_(sorted(self._covered)), table.covered.is_(False))
        for row in self._load_where(schema.claims, silent):
            # As a new claim, so that whoever has seen the old one sees it.
            self._connection.execute(sa.delete(schema.claims).where(table.seq == row.pop("seq")))
            self._connection.execute(sa.insert(schema.claims).values(row | {"covered": True}))

    def _write_leaves(self, run: str, user: Row) -> None:
        rows = {}
        for path, number, words in leaves(user):
            rows[text(path)] = {"run": run, "path": text(path), "number": number, "text": text(words)}
            if len(rows) >= MAX_LEAVES:
                break
        self._connection.execute(sa.delete(schema.config_leaves).where(schema.config_leaves.c.run == run))
        upsert(self._connection, schema.config_leaves, list(rows.values()))

    def _write_latest(self) -> None:
        stitchings = {run: Stitching(attempts.values()) for run, attempts in self._attempts.items()}
        for run in self._restitch:
            self.dropped[run] = stitchings[run].drop_abandoned(self._connection, run)
        newest: dict[tuple[str, str], Row] = {}
        for (run, metric, _), row in self._values.items():
            known = newest.get((run, metric))
            if not stitchings[run].abandons(row) and (known is None or newer(row, known)):
                newest[run, metric] = row
        for system in (False, True):
            rows = [row for row in newest.values() if row["system"] is system]
            upsert(self._connection, schema.latest, rows, where=replaces(system))


def _projects(project: str, runs: list[Row]) -> list[Row]:
    return [{"name": project, "created_at": min(run["created_at"] for run in runs)}] if runs else []
