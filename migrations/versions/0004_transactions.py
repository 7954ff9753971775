"""Further events of a revision, counts of updates, and leases: for etcd's API."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

REVISION = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Adds the tables and columns; updates before this are not counted."""
    for table in ("events", "objects"):
        for name in ("updates", "lease"):
            op.add_column(table, sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "siblings",
        sa.Column("sub", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("resource", TEXT, nullable=False),
        sa.Column("namespace", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("uid", TEXT, nullable=False),
        sa.Column("verb", TEXT, nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("previous", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("component", TEXT, nullable=False),
        sa.Column("component_version", TEXT, nullable=False),
        sa.Column("server_version", TEXT, nullable=False),
        sa.Column("request_id", TEXT, nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=False),
        sa.Column("updates", sa.BigInteger(), nullable=False),
        sa.Column("lease", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("revision", "sub", name="pk_siblings"),
        sa.UniqueConstraint("resource", "namespace", "name", "previous", name="uq_siblings_previous"),
    )
    op.create_table(
        "leases",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("granted", sa.BigInteger(), nullable=False),
        sa.Column("ttl", sa.BigInteger(), nullable=False),
        sa.Column("revoked", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", "granted", name="pk_leases"),
    )


def downgrade() -> None:
    for table in ("leases", "siblings"):
        op.drop_table(table)
    for table in ("objects", "events"):
        for name in ("lease", "updates"):
            op.drop_column(table, name)
