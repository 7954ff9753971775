"""Renewals of leases, which several servers of etcd's API on one log share."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "renewals",
        sa.Column("lease", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("lease", name="pk_renewals"),
    )


def downgrade() -> None:
    op.drop_table("renewals")
