"""The first catalog."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "applied",
        sa.Column("project", sa.String(length=1024), nullable=False),
        sa.Column("writer", sa.String(length=64), nullable=False),
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "writer"),
    )
    op.create_index("applied_by_run", "applied", ["run"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=1024), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.String(length=32), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("world", sa.Integer(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("announced_start", sa.Boolean(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("run", "key"),
    )
    op.create_table(
        "config_leaves",
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("path", sa.String(length=1024), nullable=False),
        sa.Column("number", sa.Double(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run", "path"),
        sqlite_with_rowid=False,
    )
    op.create_index("config_leaves_by_number", "config_leaves", ["path", "number", "run"], unique=False)
    op.create_table(
        "configs",
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("user", sa.JSON(), nullable=False),
        sa.Column("software", sa.JSON(), nullable=False),
        sa.Column("system", sa.JSON(), nullable=False),
        sa.Column("job", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run"),
    )
    op.create_table(
        "deleted_writers",
        sa.Column("project", sa.String(length=1024), nullable=False),
        sa.Column("writer", sa.String(length=64), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "writer"),
    )
    op.create_table(
        "events",
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=1024), nullable=False),
        sa.Column("type", sa.String(length=1024), nullable=False),
        sa.Column("attempt", sa.String(length=1024), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run", "id"),
    )
    op.create_index("events_by_start", "events", ["run", "started_at"], unique=False)
    op.create_table(
        "latest",
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("metric", sa.String(length=1024), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("attempt", sa.String(length=1024), nullable=False),
        sa.Column("system", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("run", "metric"),
        sqlite_with_rowid=False,
    )
    op.create_index("latest_by_value", "latest", ["metric", "value", "run"], unique=False)
    op.create_table(
        "login_links",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_table(
        "projects",
        sa.Column("name", sa.String(length=1024), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project", sa.String(length=1024), nullable=False),
        sa.Column("name", sa.String(length=1024), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=True),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("notes", sa.Text(), server_default="", nullable=False),
        sa.Column("name_edited", sa.Boolean(), nullable=False),
        sa.Column("tags_edited", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("runs_by_name", "runs", ["name", "id"], unique=False)
    op.create_index("runs_by_project", "runs", ["project", "started_at", "id"], unique=False)
    op.create_index("runs_by_start", "runs", ["started_at", "id"], unique=False)
    op.create_index("runs_live", "runs", ["live"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_table(
        "sources",
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("writer", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.String(length=1024), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("role", sa.String(length=1024), nullable=False),
        sa.Column("node", sa.String(length=1024), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=True),
        sa.Column("last_seen", sa.BigInteger(), nullable=False),
        sa.Column("offset_us", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("phase", sa.String(length=1024), nullable=True),
        sa.Column("pending", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.Column("gaps", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt", sa.String(length=1024), nullable=True),
        sa.Column("status_at", sa.BigInteger(), nullable=True),
        sa.Column("alive", sa.JSON(), nullable=False),
        sa.Column("stopped", sa.JSON(), nullable=False),
        sa.Column("exits", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("run", "writer", "attempt"),
    )
    op.create_table(
        "tags",
        sa.Column("run", sa.String(length=64), nullable=False),
        sa.Column("tag", sa.String(length=1024), nullable=False),
        sa.PrimaryKeyConstraint("run", "tag"),
        sqlite_with_rowid=False,
    )
    op.create_index("tags_by_tag", "tags", ["tag", "run"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=1024), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("projects", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("sha256"),
    )


def downgrade() -> None:
    raise NotImplementedError("an older version never opens a newer catalog")
