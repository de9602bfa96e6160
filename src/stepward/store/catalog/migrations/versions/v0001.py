"""The first catalog."""

from alembic import op

from stepward.store.catalog.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
