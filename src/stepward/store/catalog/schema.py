"""The catalog's tables: what the product knows about runs besides their points and lines.

Times are int64 µs since the epoch on the server's clock, unless a column says ``sent``. A value that is NaN is stored as
NULL in ``latest.value`` (SQLite has no NaN), which makes every comparison with it false on any database. JSON columns
hold what is only ever read whole. A change here needs a migration (``migrations/``); a test compares the two.
"""

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData()


class _AsGiven(sa.types.UserDefinedType[float]):
    """A number that SQLite keeps as it was given: in a column of type REAL, -0.0 comes back as 0.0."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Its name in SQLite."""
        return "BLOB"


_Id = sa.String(64)
_Name = sa.String(1024)
_Time = sa.BigInteger

projects = sa.Table(
    "projects",
    metadata,
    sa.Column("name", _Name, primary_key=True),
    sa.Column("created_at", _Time, nullable=False),
    sa.Column("retention_s", sa.Double),  # ended runs older than that are deleted; NULL keeps them
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("project", _Name, nullable=False),
    sa.Column("name", _Name, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("key", sa.Text),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("state_reason", sa.Text),
    sa.Column("live", sa.Boolean, nullable=False),  # some attempt may still change by the clock alone
    sa.Column("notes", sa.Text, nullable=False, server_default=""),
    sa.Column("name_edited", sa.Boolean, nullable=False),  # a person has named it: the job no longer may
    sa.Column("tags_edited", sa.Boolean, nullable=False),
    sa.Column("created_at", _Time, nullable=False),
    sa.Column("started_at", _Time, nullable=False),
    sa.Column("ended_at", _Time),
    sa.Column("last_seen_at", _Time),
    sa.Column("step", sa.BigInteger),
    sa.Column(
        "changes", sa.BigInteger, nullable=False, server_default="0"
    ),  # grows with all that is said about the run
    sa.Column("observed", sa.BigInteger),  # ``changes`` of a run that was over when detectors had judged it to its end
    sa.Column("usual_step_s", sa.Double),  # as detectors saw its newest attempt; NULL: too few steps, or not judged yet
    sa.Index("runs_by_start", "started_at", "id"),
    sa.Index("runs_by_project", "project", "started_at", "id"),
    sa.Index("runs_by_name", "name", "id"),
    sa.Index("runs_live", "live"),
    sa.Index("runs_by_key", "key"),
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("key", _Name, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("exit_code", sa.Integer),
    sa.Column("signal", sa.String(32)),
    sa.Column("reason", sa.Text),
    sa.Column("world", sa.Integer),  # ranks that the launcher announced
    sa.Column("started_at", _Time, nullable=False),
    sa.Column(
        "announced_start", sa.Boolean, nullable=False
    ),  # own_started_at was sent, not guessed from the first frame
    sa.Column("own_started_at", _Time),  # as its own sources say; ``started_at`` knows the scheduler's start too
    sa.Column("watched_only", sa.Boolean, nullable=False, server_default=sa.false()),  # nothing inside was heard yet
    sa.Column("ended_at", _Time),
    sa.Column("first_step", sa.BigInteger),
    sa.Column("last_step", sa.BigInteger),
)

sources = sa.Table(
    "sources",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("writer", _Id, primary_key=True),
    sa.Column("attempt", _Name, primary_key=True),  # a wrapper may outlive an attempt
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("rank", sa.Integer),
    sa.Column("role", _Name, nullable=False),
    sa.Column("node", _Name, nullable=False),
    sa.Column("pid", sa.BigInteger, nullable=False),
    sa.Column("heard_at", _Time),  # the newest instant at which it is known to have been alive
    sa.Column("last_seen", _Time, nullable=False),  # when its newest frame came
    sa.Column("offset_us", sa.BigInteger, nullable=False),  # server's clock minus its own
    sa.Column("step", sa.BigInteger),
    sa.Column("phase", _Name),
    sa.Column("pending", sa.BigInteger, nullable=False),
    sa.Column("dropped", sa.BigInteger, nullable=False),
    sa.Column("gaps", sa.BigInteger, nullable=False),
    sa.Column("next_attempt", _Name),
    sa.Column("status_at", _Time),  # sent: newest heartbeat, so that an older one changes nothing
    sa.Column("alive", sa.JSON, nullable=False),
    sa.Column("stopped", sa.JSON, nullable=False),
    sa.Column("exits", sa.LargeBinary),  # MessagePack of list[model.states.Exit], times as sent
    sa.Column("vouched_by", _Id),  # run whose heartbeats stand for this source's
)

launches = sa.Table(  # what a scheduler launched, as its watcher says; it covers the attempts inside
    "launches",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("key", _Name, primary_key=True),
    sa.Column("state", sa.String(16)),
    sa.Column("reason", sa.Text),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("told_at", _Time),  # sent: of the status that says so
    sa.Column("started_at", _Time),
    sa.Column("nodes", sa.JSON, nullable=False),
)

claims = sa.Table(  # runs that say which job they run in: a watcher of that job then writes there
    "claims",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("cluster", _Name, nullable=False),
    sa.Column("job", _Name, nullable=False),
    sa.Column("run", _Id, nullable=False),
    sa.Column("project", _Name, nullable=False),
    sa.Column("covered", sa.Boolean, nullable=False),  # somebody inside sends the job's output
    sa.UniqueConstraint("cluster", "job", name="claims_by_job"),
    sa.Index("claims_by_run", "run"),
    sqlite_autoincrement=True,  # a number that was seen never comes again
)

latest = sa.Table(
    "latest",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("metric", _Name, primary_key=True),
    sa.Column("step", sa.BigInteger, nullable=False),
    sa.Column("time", _Time, nullable=False),  # sent
    sa.Column("value", sa.Double().with_variant(_AsGiven(), "sqlite")),
    sa.Column("rank", sa.Integer),
    sa.Column("attempt", _Name, nullable=False),
    sa.Column("system", sa.Boolean, nullable=False),
    sa.Index("latest_by_value", "metric", "value", "run"),
    sqlite_with_rowid=False,
)

configs = sa.Table(
    "configs",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("user", sa.JSON, nullable=False),
    sa.Column("software", sa.JSON, nullable=False),
    sa.Column("system", sa.JSON, nullable=False),
    sa.Column("job", sa.JSON, nullable=False),
)

config_leaves = sa.Table(
    "config_leaves",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("path", _Name, primary_key=True),
    sa.Column("number", sa.Double),
    sa.Column("text", sa.Text, nullable=False),
    sa.Index("config_leaves_by_number", "path", "number", "run"),
    sqlite_with_rowid=False,
)

tags = sa.Table(
    "tags",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("tag", _Name, primary_key=True),
    sa.Index("tags_by_tag", "tag", "run"),
    sqlite_with_rowid=False,
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("id", _Name, primary_key=True),
    sa.Column("type", _Name, nullable=False),
    sa.Column("attempt", _Name, nullable=False),
    sa.Column("rank", sa.Integer),
    sa.Column("step", sa.BigInteger),
    sa.Column("started_at", _Time, nullable=False),
    sa.Column("ended_at", _Time),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Column("detector", _Name),  # name and version of the detector that said so; NULL: a writer did
    sa.Column("certainty", sa.String(16)),  # of detectors
    sa.Column("severity", sa.String(16)),  # of detectors
    sa.Index("events_by_start", "run", "started_at"),
    sa.Index(
        "events_detected",
        "started_at",
        "run",
        "id",
        sqlite_where=sa.text("detector IS NOT NULL"),
        postgresql_where=sa.text("detector IS NOT NULL"),
    ),
    sa.Index(  # the server asks for these every second
        "events_hung",
        "run",
        sqlite_where=sa.text("type = 'hang' AND ended_at IS NULL"),
        postgresql_where=sa.text("type = 'hang' AND ended_at IS NULL"),
    ),
)

rules = sa.Table(  # of people, for the detectors
    "rules",
    metadata,
    sa.Column("project", _Name, primary_key=True),
    sa.Column("text", sa.Text, nullable=False),  # TOML, parsed before it was kept
    sa.Column("changed_at", _Time, nullable=False),
    sa.Column("changed_by", _Name, nullable=False),
)

diagnoses = sa.Table(
    "diagnoses",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("attempt", _Name, primary_key=True),
    sa.Column("event", _Name, primary_key=True),  # that it was made for; empty: the attempt itself
    sa.Column("made_at", _Time, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),  # diagnose.engine.VERSION
    sa.Column("document", sa.LargeBinary, nullable=False),  # JSON of diagnose.document.Document
)

notices = sa.Table(  # messages of the outbox
    "notices",
    metadata,
    sa.Column("id", _Id, primary_key=True),  # a ULID
    sa.Column("route", _Name, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("made_at", _Time, nullable=False),
    sa.Column("due_at", _Time, nullable=False),
    sa.Column("sent_at", _Time),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("error", sa.Text),
    sa.Index("notices_due", "state", "due_at"),
    sa.Index("notices_sent", "route", "sent_at"),
)

notice_items = sa.Table(  # what the messages tell; a thing once a route
    "notice_items",
    metadata,
    sa.Column("route", _Name, primary_key=True),
    sa.Column("run", _Id, primary_key=True),
    sa.Column("event", _Name, primary_key=True),
    sa.Column("phase", sa.String(16), primary_key=True),
    sa.Column("notice", _Id, nullable=False),
    sa.Column("project", _Name, nullable=False),
    sa.Column("type", _Name, nullable=False),
    sa.Column("severity", sa.String(16), nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("at", _Time, nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Index("notice_items_by_notice", "notice"),
)

notice_routes = sa.Table(  # those made by the API
    "notice_routes",
    metadata,
    sa.Column("name", _Name, primary_key=True),
    sa.Column("route", sa.LargeBinary, nullable=False),  # JSON of model.notices.NoticeRoute
    sa.Column("changed_at", _Time, nullable=False),
)

silences = sa.Table(
    "silences",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("project", _Name),
    sa.Column("run", _Id),
    sa.Column("type", _Name),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("until", _Time, nullable=False),
    sa.Column("made_by", _Name, nullable=False),
)

ledgers = sa.Table(  # where the time of a run that has ended went; good for the run as it was: changes, state, ended_at
    "ledgers",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),  # goodput.ledger.VERSION
    sa.Column("changes", sa.BigInteger, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("ended_at", _Time),
    sa.Column("share", sa.LargeBinary),  # MessagePack of goodput.answers.RunShare; NULL: nothing to account for
    sa.Column("answer", sa.LargeBinary),  # MessagePack of goodput.answers.RunGoodput
)

applied = sa.Table(
    "applied",
    metadata,
    sa.Column("project", _Name, primary_key=True),
    sa.Column("writer", _Id, primary_key=True),
    sa.Column("run", _Id, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Index("applied_by_run", "run"),
)

deleted_writers = sa.Table(  # what still comes from them is refused; a new process may use the run's id again
    "deleted_writers",
    metadata,
    sa.Column("project", _Name, primary_key=True),
    sa.Column("writer", _Id, primary_key=True),
    sa.Column("deleted_at", _Time, nullable=False),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("name", _Name, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("projects", sa.JSON(none_as_null=True)),
    sa.Column("sha256", sa.String(64), nullable=False, unique=True),
    sa.Column("created_at", _Time, nullable=False),
    sa.Column("last_used_at", _Time),
    sa.Column("expires_at", _Time),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("sha256", sa.String(64), primary_key=True),
    sa.Column("token", _Id, nullable=False),
    sa.Column("expires_at", _Time, nullable=False),
)

login_links = sa.Table(
    "login_links",
    metadata,
    sa.Column("sha256", sa.String(64), primary_key=True),
    sa.Column("token", _Id, nullable=False),
    sa.Column("expires_at", _Time, nullable=False),
)

actions = sa.Table(  # the audit: what was done, or would have been in a dry run
    "actions",
    metadata,
    sa.Column("id", _Id, primary_key=True),  # a ULID: sorts by time
    sa.Column("at", _Time, nullable=False),
    sa.Column("actor", _Name, nullable=False),
    sa.Column("kind", sa.String(64), nullable=False),
    sa.Column("cluster", _Name, nullable=False),
    sa.Column("node", _Name, nullable=False),
    sa.Column("job", _Name, nullable=False),
    sa.Column("run", _Id),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("policy", _Name, nullable=False),
    sa.Column("dry_run", sa.Boolean, nullable=False),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Index("actions_by_cluster", "cluster", "id"),
    sa.Index("actions_by_run", "run", "id"),
)
