"""Authors of events that were written without one: for a real API server, whose audit events come later."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "authors",
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("sub", sa.BigInteger(), nullable=False),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("component", TEXT, nullable=False),
        sa.Column("component_version", TEXT, nullable=False),
        sa.Column("server_version", TEXT, nullable=False),
        sa.Column("request_id", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("revision", "sub", name="pk_authors"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("authors")
