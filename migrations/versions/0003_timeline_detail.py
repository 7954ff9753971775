"""Details on the time line: the effect of a fault and its call."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Adds the column; rows that are there have no detail."""
    op.add_column("timeline", sa.Column("detail", TEXT, nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("timeline", "detail")
