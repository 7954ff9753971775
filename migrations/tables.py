"""The tables of the event store, to which its migrations lead and of which its statements are built.

`events` is the log and the truth; `objects` is a projection of it; `authors` is about events, `timeline`
about components, `meta` about the store itself. Times are integer microseconds since the Unix epoch, UTC.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

# The newest migration. A test compares it with Alembic's own idea, which costs an import to ask for.
HEAD = "0006"

# SQLite makes only an INTEGER the row id; PostgreSQL needs 64 bits.
REVISION = BigInteger().with_variant(Integer(), "sqlite")
# Names are compared byte by byte, as SQLite does, in any language that PostgreSQL's database was made for.
TEXT = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)


def _of_events(**later: Any) -> Sequence[Column[Any]]:
    """The columns of `events` and `siblings` behind the revision; `later` is of those that came after the
    first schema, when there were rows already.
    """
    return [
        Column("resource", TEXT, nullable=False),
        Column("namespace", TEXT, nullable=False),
        Column("name", TEXT, nullable=False),
        Column("uid", TEXT, nullable=False),
        Column("verb", TEXT, nullable=False),
        Column("value", LargeBinary, nullable=False),
        Column("previous", BigInteger, nullable=False),
        Column("created", BigInteger, nullable=False),
        Column("user", TEXT, nullable=False),
        Column("component", TEXT, nullable=False),
        Column("component_version", TEXT, nullable=False),
        Column("server_version", TEXT, nullable=False),
        Column("request_id", TEXT, nullable=False),
        Column("time", BigInteger, nullable=False),
        *(
            Column(name, BigInteger, nullable=False, **later)
            for name in ("digest", "checksum", "updates", "lease")
        ),
    ]


# `digest` is the sum of the checksums of all objects after the event, `checksum` that of its own row.
# `updates` counts the updates since the create; `lease` is one of etcd's API that ends the object, or 0.
#
# No two events continue the same state of an object: the log cannot fork. `previous` is the revision of the
# event before it, a create's that of the deletion it follows, 0 if there is none. The constraint's index also
# answers "as of revision" without touching the rows: its entries end in the row id, which is the revision.
events = Table(
    "events",
    metadata,
    Column("revision", REVISION, primary_key=True, autoincrement=False),
    *_of_events(server_default="0"),
    UniqueConstraint("resource", "namespace", "name", "previous", name="uq_events_previous"),
)

# Further events of the revision of an event in `events`, which has the sub-revision 0: they come by
# etcd's API alone, which gives one revision to all keys of a transaction. `digest` is as after the last one.
siblings = Table(
    "siblings",
    metadata,
    Column("sub", BigInteger, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    *_of_events(),
    PrimaryKeyConstraint("revision", "sub", name="pk_siblings"),
    UniqueConstraint("resource", "namespace", "name", "previous", name="uq_siblings_previous"),
)

# Authors of events that were written without one, learnt later: an event never changes, nor its checksum.
# They go with their events.
authors = Table(
    "authors",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("sub", BigInteger, primary_key=True, autoincrement=False),
    Column("user", TEXT, nullable=False),
    Column("component", TEXT, nullable=False),
    Column("component_version", TEXT, nullable=False),
    Column("server_version", TEXT, nullable=False),
    Column("request_id", TEXT, nullable=False),
    sqlite_with_rowid=False,
)

objects = Table(
    "objects",
    metadata,
    Column("resource", TEXT, primary_key=True),
    Column("namespace", TEXT, primary_key=True),
    Column("name", TEXT, primary_key=True),
    Column("uid", TEXT, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("updates", BigInteger, nullable=False, server_default="0"),
    Column("lease", BigInteger, nullable=False, server_default="0"),
)

# Leases of etcd's API: `granted` is the newest revision at that time, `revoked` that of the transaction that
# deleted their keys, 0 before. A branch gives back those that were later revoked.
leases = Table(
    "leases",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("granted", BigInteger, primary_key=True, autoincrement=False),
    Column("ttl", BigInteger, nullable=False),
    Column("revoked", BigInteger, nullable=False),
)

# How often a lease was granted and renewed, and the last time of it in microseconds since 1970.
renewals = Table(
    "renewals",
    metadata,
    Column("lease", BigInteger, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),
)

timeline = Table(
    "timeline",
    metadata,
    Column("seq", REVISION, primary_key=True, autoincrement=True),
    Column("revision", BigInteger, nullable=False, index=True),
    Column("component", TEXT, nullable=False),
    Column("what", TEXT, nullable=False),
    Column("version", TEXT, nullable=False),
    Column("gates", TEXT, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("detail", TEXT, nullable=False, server_default=""),
    sqlite_autoincrement=True,
)

# `store_id` distinguishes a store from every other, also from those that are branched off. `compacted` is
# the revision of the last compaction, and `retained` the number of events that it has left at or before
# that revision; both are absent before the first. Only a repair writes the others: `floor`, the revision
# that the next one counts on from though the log ends earlier; `lost`, the ranges of revisions that are
# gone; `damaged`, the revisions of events that cannot be read; `digest_offset`, the digest of the table of
# objects minus `digest`.
meta = Table(
    "meta",
    metadata,
    Column("name", TEXT, primary_key=True),
    Column("value", TEXT, nullable=False),
)

# Alembic's own table, described here so that a fresh database can be made without importing Alembic.
alembic_version = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
