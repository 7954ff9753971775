"""PostgreSQL's own: databases that are refused, connections that are lost, notifications, schemas."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from postgresql_server import PostgreSQLServer
from sqlalchemy.ext.asyncio import create_async_engine
from storage_cases import CLOCK, START, create, every_event, pod, update, url_in

from kubeskew.apiserver.storage.factory import SQLStorage
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.postgresql import connections, database, maintenance
from kubeskew.apiserver.storage.postgresql.maintenance import remove, repair_into_schema
from kubeskew.apiserver.storage.projection import digest
from kubeskew.apiserver.storage.records import ComponentEvent, Key
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.store import CachedStore
from kubeskew.apiserver.storage.urls import without_password
from kubeskew.cluster.config import check_storage
from kubeskew.cluster.failures import UserError
from kubeskew.migrations import upgrade
from kubeskew.migrations.tables import HEAD, metadata

pytestmark = pytest.mark.postgresql


@pytest.fixture
def url(postgresql: PostgreSQLServer) -> str:
    return postgresql.fresh()


@pytest.fixture
async def log(url: str) -> AsyncIterator[SQLLog]:
    opened = await SQLLog.open(url, CLOCK)
    yield opened
    await opened.close()


async def refusal(url: str) -> str:
    """The one line that says why a log cannot be opened."""
    with pytest.raises(StorageError) as caught:
        await SQLLog.open(url, CLOCK)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_a_server_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    """The line has host and database, the password is nowhere in it."""
    said = await refusal(f"postgresql://me:secret@/db?host={tmp_path}")
    assert "secret" not in said
    assert said.startswith(f"postgresql://me:***@/db?host={tmp_path}: cannot connect: ")
    said = await refusal("postgresql://me@127.0.0.1:1/db?password=secret")
    assert "secret" not in said
    assert "127.0.0.1:1/db" in said
    assert ": cannot connect: is a PostgreSQL running there, and is that its host and port? " in said


async def test_databases_and_users_that_are_not_there_are_named(postgresql: PostgreSQLServer) -> None:
    """The line has PostgreSQL's own words."""
    assert 'database "other" does not exist' in await refusal(postgresql.url("other"))
    assert 'role "nobody-here" does not exist' in await refusal(postgresql.url(user="nobody-here"))
    missing = postgresql.url(options="-csearch_path=no_such_schema")
    assert "make one with CREATE SCHEMA" in await refusal(missing)


async def test_a_user_without_rights_learns_which(postgresql: PostgreSQLServer, url: str) -> None:
    """Neither the right to make tables nor that to write to them goes missing in silence."""
    schema = url.rpartition("%3D")[2].rpartition("=")[2]
    postgresql.sql(f"CREATE ROLE reader_{schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO reader_{schema}")
    theirs = url.replace("://kubeskew@", f"://reader_{schema}@")
    assert f"permission denied for schema {schema}" in await refusal(theirs)
    await (await SQLLog.open(url, CLOCK)).close()
    postgresql.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader_{schema}")
    assert await refusal(theirs) == (
        f"{theirs}: the user may not INSERT into events: "
        "GRANT ALL on all tables and sequences of the schema to it"
    )
    async with await LogReader.open(theirs) as reader:
        assert await reader.revision() == 1
    postgresql.sql(
        f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO reader_{schema};"
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO reader_{schema}"
    )
    for table in metadata.tables.keys() - {"alembic_version"}:
        postgresql.sql(f"REVOKE DELETE ON {schema}.{table} FROM reader_{schema}")
        assert f"the user may not DELETE from {table}: " in await refusal(theirs)
        postgresql.sql(f"GRANT DELETE ON {schema}.{table} TO reader_{schema}")


async def test_an_old_server_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says which release would do."""
    monkeypatch.setattr(database, "OLDEST", 99)
    assert "is too old: 99 or a newer one is needed" in await refusal(url)


async def test_another_encoding_is_refused(postgresql: PostgreSQLServer) -> None:
    """A database that does not know UTF-8 cannot keep every name."""
    postgresql.sql("DROP DATABASE IF EXISTS ascii")
    postgresql.sql("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    assert "encoding is SQL_ASCII: it must be UTF8" in await refusal(postgresql.url("ascii"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", f"schema 9999 is newer than {HEAD}, the newest"),
        ("DELETE FROM alembic_version", "nothing says at which schema its tables are"),
        (
            "DROP TABLE alembic_version",
            "not an event store: it has the tables authors, events, leases, meta,",
        ),
    ],
)
async def test_a_schema_that_is_not_known_is_refused(
    postgresql: PostgreSQLServer, url: str, change: str, problem: str
) -> None:
    """It is informed what to do instead, and all that was there is there."""
    log = await SQLLog.open(url, CLOCK)
    await log.append(create(pod()))
    await log.close()
    postgresql.sql(change, url)
    said = await refusal(url)
    assert problem in said
    assert "start with an empty database" in said
    assert postgresql.sql("SELECT revision, name FROM events", url) == ["2|a"]


async def test_without_asyncpg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says how to install the extra."""
    for name in [name for name in sys.modules if name.startswith(connections.__package__ or "")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    assert "pip install 'kubeskew[postgres]'" in await refusal("postgresql://db.example.com/kubeskew")


async def test_the_migrations_lead_to_the_tables(url: str) -> None:
    """Alembic finds nothing to do after it has brought an empty schema to the head, nor in a fresh log."""
    server = connections.PostgreSQLServer(url)
    await upgrade.upgrade_over("postgresql+asyncpg://", server.connect)
    engine = create_async_engine("postgresql+asyncpg://", async_creator=server.connect)

    def difference(connection: object) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))

    async with engine.connect() as connection:
        assert await connection.run_sync(difference) == []
    await engine.dispose()
    log = await SQLLog.open(url, CLOCK)
    assert (await log.append(create(pod()))).revision == 2
    await log.close()


async def test_what_another_server_writes_is_received(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event comes by notification: nobody asks the database for it again."""
    monkeypatch.setattr(connections, "LISTEN_SECONDS", 1e6)
    one, two = [await CachedStore.open(await SQLLog.open(url, CLOCK), CLOCK) for _ in range(2)]
    for number, (writer, other) in enumerate([(one, two), (two, one)] * 5):
        watch = other.watch("pods", None, None, other.revision)
        written = await writer.write(create(pod(f"p{number}")))
        assert [event.revision for event in await anext(watch)] == [written.revision]
        watch.close()
    await one.close()
    await two.close()


async def test_a_lost_connection_costs_nothing(postgresql: PostgreSQLServer, log: SQLLog) -> None:
    """An administrator who ends every session of the log's is not noticed: between writes no write fails."""
    first = await log.append(create(pod()))
    for number in range(3):
        postgresql.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'kubeskew'"
        )
        assert (await log.append(create(pod(f"p{number}")))).revision == 3 + number
        assert await log.revision() == 3 + number
    assert (await every_event(log))[0] == first


async def test_a_server_that_crashes_fails_writes_until_it_is_back(
    postgresql: PostgreSQLServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes fail in one line while it is away; then the same stores write on, and learn of each other."""
    monkeypatch.setattr(connections, "RETRY_SECONDS", 0.01)
    one, two = [await CachedStore.open(await SQLLog.open(url, CLOCK), CLOCK) for _ in range(2)]
    await one.write(create(pod()))
    postgresql.stop(signal.SIGQUIT)
    try:
        with pytest.raises(StorageError) as caught:
            await one.write(create(pod("lost")))
        assert str(caught.value).startswith("postgresql://")
        assert "\n" not in str(caught.value)
        assert caught.value.refused
    finally:
        postgresql.start()
    watch = two.watch("pods", None, None, 1)  # it may not have learnt of the first before the crash
    await one.write(create(pod("b")))
    names: list[str] = []
    while names[-1:] != ["b"]:
        names += [event.key.name for event in await anext(watch)]
    assert names == ["a", "b"]
    watch.close()
    assert [event.key.name for event in await every_event(one._log)] == ["a", "b"]
    await one.close()
    await two.close()


async def test_a_log_is_branched_into_a_file_and_next_to_itself(
    url: str, log: SQLLog, tmp_path: Path
) -> None:
    """Both branches have the objects of then, and write on from there; the log has what it had."""
    first = await log.append(create(pod()))
    await log.append(update(first))
    note = ComponentEvent(2, "store", "forked", "", "", START)
    storage = SQLStorage()
    assert (await storage.branch(url, url_in(tmp_path), note)).objects == 1
    successor = await storage.succeed(url, "sqlite:///unused", note)
    for branch in (url_in(tmp_path), successor):
        async with await LogReader.open(branch) as reader:
            assert [entry.value for entry in await reader.entries()] == [b"1"]
            assert (await reader.replay()).differences == []
            assert [event.what for event in await reader.timeline()] == ["forked"]
        other = await SQLLog.open(branch, CLOCK)
        assert (await other.append(create(pod("b")))).revision == 3
        await other.close()
    assert [event.revision for event in await every_event(log)] == [2, 3]
    await remove(successor)
    assert "make one with CREATE SCHEMA" in await refusal(successor)


async def test_only_an_empty_database_is_claimed(url: str, log: SQLLog) -> None:
    """A new cluster does not write on in the log of another."""
    storage = SQLStorage()
    await storage.claim(url, CLOCK)
    await log.append(create(pod()))
    with pytest.raises(StorageError, match="has the log of another cluster, up to revision 2: name an empty"):
        await storage.claim(url, CLOCK)


async def test_removal_leaves_what_is_not_the_logs(
    postgresql: PostgreSQLServer, log: SQLLog, url: str
) -> None:
    """The tables of the log go; another table, and the schema that somebody made, stay."""
    postgresql.sql("CREATE TABLE others (x int)", url)
    await log.close()
    await remove(url)
    assert postgresql.sql("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()", url) == [
        "others"
    ]
    postgresql.sql("CREATE SCHEMA IF NOT EXISTS kubeskew_mine; CREATE TABLE kubeskew_mine.t (x int)")
    await remove(postgresql.url(options="-csearch_path=kubeskew_mine"))
    assert postgresql.sql("SELECT count(*) FROM kubeskew_mine.t") == ["0"]


async def test_a_damaged_object_is_repaired_next_to_it(postgresql: PostgreSQLServer, url: str) -> None:
    """The damage shows when the log is opened; the repaired log has what was written, the old one stays."""
    log = await SQLLog.open(url, CLOCK)
    store = await CachedStore.open(log, CLOCK)
    for name in "abc":
        await store.write(create(Key("pods", "default", name), b'{"n":1}'))
    _, before = await log.entries()
    await store.close()
    postgresql.sql("UPDATE objects SET value = 'x' WHERE name = 'b'", url)
    log = await SQLLog.open(url, CLOCK)
    with pytest.raises(StorageError, match="default/b"):
        await CachedStore.open(log, CLOCK)
    await log.close()
    there, repair = await repair_into_schema(url, START)
    assert (repair.objects, repair.lost) == (3, [])
    repaired = await SQLLog.open(there, CLOCK)
    assert digest((await repaired.entries())[1]) == digest(before)
    await repaired.close()
    assert postgresql.sql("SELECT value FROM objects WHERE name = 'b'", url) == ["\\x78"]


async def test_writers_of_many_servers_leave_no_gap(url: str) -> None:
    """Eight servers that write at once give revisions in a row, in the order in which they are committed."""
    logs = [await SQLLog.open(url, CLOCK) for _ in range(8)]
    written = await asyncio.gather(
        *(log.append(create(pod(f"p{number}-{i}"))) for i in range(20) for number, log in enumerate(logs))
    )
    assert sorted(event.revision for event in written) == [*range(2, 162)]
    for log in logs:
        await log.close()


async def test_a_branch_never_is_in_the_schema_that_it_is_of(url: str, postgresql: PostgreSQLServer) -> None:
    """A search_path next to the options goes; where sessions begin elsewhere all the same, nothing is
    lost."""
    made = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'kubeskew_%'"
    before = postgresql.sql(made)
    schema = url.rpartition("%3D")[2]
    named = postgresql.url(search_path=schema)
    log = await SQLLog.open(named, CLOCK)
    await log.append(create(pod()))
    note = ComponentEvent(2, "store", "rewound", "", "", START)
    successor = await SQLStorage().succeed(named, "sqlite:///unused", note)
    async with await LogReader.open(successor) as reader:
        assert [event.what for event in await reader.timeline()] == ["rewound"]
    await remove(successor)
    assert [event.revision for event in await every_event(log)] == [2]

    def unheard(url: str, _schema: str) -> str:
        return url

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maintenance, "with_schema", unheard)
        with pytest.raises(StorageError, match=f"the session is in the schema {schema}, not in kubeskew_"):
            await SQLStorage().succeed(named, "sqlite:///unused", note)
    assert [event.revision for event in await every_event(log)] == [2]
    assert postgresql.sql(made) == before
    await log.close()


async def test_every_connection_that_writes_waits_for_the_disk(url: str) -> None:
    """The one that takes the place of one that was ended does so, too, regardless of the server's default."""
    opened = await database.PostgreSQLDatabase.open(f"{url}%20-csynchronous_commit%3Doff")
    for _ in range(2):
        connection = await opened._connected()
        assert await connection.fetchval("SHOW synchronous_commit") == "on"
        await connection.close()
    await opened.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:pa%23ss@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@host/db?sslpassword=secret", "postgresql://me@host/db?sslpassword=***"),
        ("postgresql://me:pa#ss@host/db", "postgresql://***"),
        ("postgresql://me:pa/ss@host/db", "postgresql://***"),
        ("postgresql://me:pa?ss@host/db", "postgresql://***"),
        ("postgresql://me:p@ss@host/db", "postgresql://***"),
        ("postgresql://me:pa[ss@host/db", "postgresql://***"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    """A URL that is not encoded as it should be is refused, and shown without what may be the password."""
    assert without_password(url) == shown
    if shown.endswith("://***"):
        with pytest.raises(UserError, match="percent-encoded"):
            check_storage(url, "--storage")
