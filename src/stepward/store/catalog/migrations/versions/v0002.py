"""What the second version of the catalog adds."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("projects", sa.Column("retention_s", sa.Double))
    op.add_column("runs", sa.Column("changes", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("observed", sa.BigInteger))
    op.add_column("runs", sa.Column("usual_step_s", sa.Double))
    op.execute("UPDATE runs SET observed = changes")  # older runs are judged when somebody asks for it (reprocess)
    op.create_table(
        "ledgers",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("changes", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("share", sa.LargeBinary),
        sa.Column("answer", sa.LargeBinary),
    )
    op.add_column("attempts", sa.Column("own_started_at", sa.BigInteger))
    op.add_column("attempts", sa.Column("watched_only", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("sources", sa.Column("vouched_by", sa.String(64)))
    op.create_table(
        "launches",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(1024), primary_key=True),
        sa.Column("state", sa.String(16)),
        sa.Column("reason", sa.Text),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("told_at", sa.BigInteger),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("nodes", sa.JSON, nullable=False),
    )
    op.create_table(
        "claims",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("cluster", sa.String(1024), nullable=False),
        sa.Column("job", sa.String(1024), nullable=False),
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("project", sa.String(1024), nullable=False),
        sa.Column("covered", sa.Boolean, nullable=False),
        sa.UniqueConstraint("cluster", "job", name="claims_by_job"),
        sqlite_autoincrement=True,
    )
    op.create_index("claims_by_run", "claims", ["run"])
    op.create_index("runs_by_key", "runs", ["key"])
    op.create_table(
        "actions",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.String(1024), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(1024), nullable=False),
        sa.Column("node", sa.String(1024), nullable=False),
        sa.Column("job", sa.String(1024), nullable=False),
        sa.Column("run", sa.String(64)),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("policy", sa.String(1024), nullable=False),
        sa.Column("dry_run", sa.Boolean, nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
    )
    op.create_index("actions_by_cluster", "actions", ["cluster", "id"])
    op.create_index("actions_by_run", "actions", ["run", "id"])
    op.add_column("events", sa.Column("detector", sa.String(1024)))
    op.add_column("events", sa.Column("certainty", sa.String(16)))
    op.add_column("events", sa.Column("severity", sa.String(16)))
    detected = sa.text("detector IS NOT NULL")
    op.create_index(
        "events_detected", "events", ["started_at", "run", "id"], sqlite_where=detected, postgresql_where=detected
    )
    hung = sa.text("type = 'hang' AND ended_at IS NULL")
    op.create_index("events_hung", "events", ["run"], sqlite_where=hung, postgresql_where=hung)
    op.create_table(
        "rules",
        sa.Column("project", sa.String(1024), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("changed_by", sa.String(1024), nullable=False),
    )
    op.create_table(
        "diagnoses",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("attempt", sa.String(1024), primary_key=True),
        sa.Column("event", sa.String(1024), primary_key=True),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "notices",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("route", sa.String(1024), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("sent_at", sa.BigInteger),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
    )
    op.create_index("notices_due", "notices", ["state", "due_at"])
    op.create_index("notices_sent", "notices", ["route", "sent_at"])
    op.create_table(
        "notice_items",
        sa.Column("route", sa.String(1024), primary_key=True),
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("event", sa.String(1024), primary_key=True),
        sa.Column("phase", sa.String(16), primary_key=True),
        sa.Column("notice", sa.String(64), nullable=False),
        sa.Column("project", sa.String(1024), nullable=False),
        sa.Column("type", sa.String(1024), nullable=False),
        sa.Column("severity", sa.String(16), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
    )
    op.create_index("notice_items_by_notice", "notice_items", ["notice"])
    op.create_table(
        "notice_routes",
        sa.Column("name", sa.String(1024), primary_key=True),
        sa.Column("route", sa.LargeBinary, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "silences",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("project", sa.String(1024)),
        sa.Column("run", sa.String(64)),
        sa.Column("type", sa.String(1024)),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("made_by", sa.String(1024), nullable=False),
    )
    _keep_values_as_given()


def _keep_values_as_given() -> None:
    """Make ``latest`` anew: SQLite loses the sign of -0.0 in a column of type REAL, and changes no column's type."""
    op.drop_index("latest_by_value", "latest")
    op.rename_table("latest", "former_latest")
    op.create_table(
        "latest",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("metric", sa.String(1024), primary_key=True),
        sa.Column("step", sa.BigInteger, nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("value", sa.Double().with_variant(sa.LargeBinary(), "sqlite")),
        sa.Column("rank", sa.Integer),
        sa.Column("attempt", sa.String(1024), nullable=False),
        sa.Column("system", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )
    columns = "run, metric, step, time, value, rank, attempt, system"
    op.execute(f"INSERT INTO latest ({columns}) SELECT {columns} FROM former_latest")
    op.drop_table("former_latest")
    op.create_index("latest_by_value", "latest", ["metric", "value", "run"])
