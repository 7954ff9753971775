"""Checksums of events, and with each the digest of all objects after it; how many events are retained.

The formulas are written out here: later versions that sum up differently must not change this step.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

CHUNK = 500
COLUMNS = (
    'revision, resource, namespace, name, uid, verb, value, previous, created, "user", component, '
    "component_version, server_version, request_id, time"
)


def upgrade() -> None:
    """Adds both columns and fills them by replaying the log."""
    for name in ("digest", "checksum"):
        op.add_column("events", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    connection = op.get_bind()
    _fill(connection)
    compacted = connection.execute(sa.text("SELECT value FROM meta WHERE name = 'compacted'")).scalar()
    if compacted is not None:
        count = sa.text("SELECT count(*) FROM events WHERE revision <= :compacted")
        retained = connection.execute(count, {"compacted": int(compacted)}).scalar()
        insert = sa.text("INSERT INTO meta (name, value) VALUES ('retained', :retained)")
        connection.execute(insert, {"retained": str(retained)})


def _fill(connection: sa.Connection) -> None:
    sums: dict[tuple[str, str, str], int] = {}
    digest, last = 0, 0
    chunk = sa.text(f"SELECT {COLUMNS} FROM events WHERE revision > :last ORDER BY revision LIMIT {CHUNK}")  # noqa: S608
    update = sa.text("UPDATE events SET digest = :digest, checksum = :checksum WHERE revision = :revision")
    while rows := connection.execute(chunk, {"last": last}).fetchall():
        changes = []
        for row in rows:
            state, key = _state(row), (row[1], row[2], row[3])
            digest -= sums.pop(key, 0)
            if row[5] != "delete":
                sums[key] = state
                digest += state
            changes.append({"revision": row[0], "digest": digest, "checksum": _event(row, state, digest)})
        connection.execute(update, changes)
        last = rows[-1][0]


def _state(row: Sequence[Any]) -> int:
    """The checksum of the object as an event leaves it."""
    head = f"{row[1]}\0{row[2]}\0{row[3]}\0{row[4]}\0{row[0]}\0{row[8]}\0"
    value = row[6] if isinstance(row[6], bytes) else repr(row[6]).encode("utf-8", "backslashreplace")
    return crc32(value, crc32(head.encode("utf-8", "backslashreplace")))


def _event(row: Sequence[Any], state: int, digest: int) -> int:
    rest = "\0".join(map(str, (row[5], row[7], *row[9:15], digest)))
    return crc32(rest.encode("utf-8", "backslashreplace"), state)


def downgrade() -> None:
    """Drops both columns, and rows of `meta` that only they need."""
    op.get_bind().execute(sa.text("DELETE FROM meta WHERE name <> 'compacted'"))
    for name in ("checksum", "digest"):
        op.drop_column("events", name)
