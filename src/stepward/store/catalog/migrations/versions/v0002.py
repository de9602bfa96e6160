"""What the second version of the catalog adds."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("projects", sa.Column("retention_s", sa.Double))
    op.add_column("runs", sa.Column("changes", sa.BigInteger, nullable=False, server_default="0"))
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
