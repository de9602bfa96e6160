"""What the second version of the catalog adds."""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    pass
