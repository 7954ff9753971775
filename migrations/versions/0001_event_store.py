"""The event store's first tables: events, objects, timeline, meta."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

REVISION = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("revision", REVISION, nullable=False, autoincrement=False),
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
        sa.PrimaryKeyConstraint("revision", name="pk_events"),
        sa.UniqueConstraint("resource", "namespace", "name", "previous", name="uq_events_previous"),
    )
    op.create_table(
        "objects",
        sa.Column("resource", TEXT, nullable=False),
        sa.Column("namespace", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("uid", TEXT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("resource", "namespace", "name", name="pk_objects"),
    )
    op.create_table(
        "timeline",
        sa.Column("seq", REVISION, nullable=False, autoincrement=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("component", TEXT, nullable=False),
        sa.Column("what", TEXT, nullable=False),
        sa.Column("version", TEXT, nullable=False),
        sa.Column("gates", TEXT, nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_timeline"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_timeline_revision", "timeline", ["revision"])
    op.create_table(
        "meta",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("value", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_meta"),
    )


def downgrade() -> None:
    for table in ("meta", "timeline", "objects", "events"):
        op.drop_table(table)
