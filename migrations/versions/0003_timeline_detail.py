"""Details on the time line: what a fault did to which call."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; what is there has no detail."""
    op.add_column("timeline", sa.Column("detail", TEXT, nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("timeline", "detail")
