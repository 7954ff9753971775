"""The schema: what Alembic's migrations lead to, and what a fresh database gets without them."""

import re
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from damages import fill, opened, sql, value
from storage_cases import CLOCK, create, pod, url_in

from kubeskew.apiserver.storage import projection
from kubeskew.apiserver.storage.interfaces import DamageError, StorageError
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.sqlite.database import statements
from kubeskew.apiserver.storage.sqlite.maintenance import repair
from kubeskew.migrations import upgrade
from kubeskew.migrations.tables import HEAD, metadata


def schema(path: Path) -> list[tuple[str, str, str]]:
    """Every table and index of the database, in SQL with its white space evened out."""
    raw = sqlite3.connect(path)
    rows = raw.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    raw.close()
    return sorted(
        (kind, name, re.sub(r"\s*([\s(),])\s*", r"\1", sql or "").strip()) for kind, name, sql in rows
    )


async def test_a_fresh_database_equals_a_migrated_one(tmp_path):
    """The quick way and Alembic's way lead to the same tables, to the letter."""
    upgrade.upgrade(str(tmp_path / "migrated.db"))
    await (await SQLLog.open(url_in(tmp_path), CLOCK)).close()
    assert schema(tmp_path / "events.db") == schema(tmp_path / "migrated.db")


def test_the_migrations_lead_to_the_tables(tmp_path):
    """Alembic's autogenerate finds nothing to do after an upgrade of an empty file."""
    path = tmp_path / "migrated.db"
    upgrade.upgrade(str(path))
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_head_is_alembics():
    """The constant that spares an import names the newest migration."""
    assert ScriptDirectory.from_config(upgrade.config()).get_heads() == [HEAD]


def test_the_newest_migration_can_be_undone(tmp_path):
    """Down to nothing and up again."""
    path = str(tmp_path / "migrated.db")
    upgrade.upgrade(path)
    before = schema(Path(path))
    settings = upgrade.config()
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        settings.attributes["connection"] = connection
        command.downgrade(settings, "base")
    engine.dispose()
    upgrade.upgrade(path)
    assert schema(Path(path)) == before


async def test_an_older_database_is_migrated_when_it_is_opened(tmp_path):
    """A database that Alembic has stamped but not filled is brought to the head."""
    raw = sqlite3.connect(tmp_path / "events.db")
    raw.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    raw.commit()
    raw.close()
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    assert (await log.append(create(pod()))).revision == 2
    await log.close()


async def test_a_newer_database_is_refused(tmp_path):
    """A database written by a later kubeskew is refused."""
    await (await SQLLog.open(url_in(tmp_path), CLOCK)).close()
    raw = sqlite3.connect(tmp_path / "events.db")
    raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.commit()
    raw.close()
    with pytest.raises(StorageError, match="schema 9999 is newer than"):
        await SQLLog.open(url_in(tmp_path), CLOCK)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE alembic_version SET version_num = '0000'", "schema 0000 is older than 0001, the oldest"),
        (
            "UPDATE alembic_version SET version_num = 'ae1027a6acf'",
            "'ae1027a6acf' is no schema of kubeskew's",
        ),
        ("UPDATE alembic_version SET version_num = ''", "'' is no schema of kubeskew's"),
        ("DELETE FROM alembic_version", "nothing says at which schema its tables are: .* is empty"),
        ("INSERT INTO alembic_version VALUES ('0000')", "alembic_version has 2 rows"),
        ("DROP TABLE alembic_version", "not an event store: it has the tables "),
    ],
)
async def test_a_database_of_no_known_schema_is_refused(tmp_path, change, problem):
    """One line says what is wrong with it and what to do instead; it is left as it was."""
    await (await SQLLog.open(url_in(tmp_path), CLOCK)).close()
    raw = sqlite3.connect(tmp_path / "events.db")
    raw.execute(change)
    raw.commit()
    raw.close()
    before = schema(tmp_path / "events.db")

    with pytest.raises(StorageError, match=problem) as caught:
        await SQLLog.open(url_in(tmp_path), CLOCK)

    assert "\n" not in str(caught.value)
    assert "start with an empty database" in str(caught.value)
    assert schema(tmp_path / "events.db") == before


async def test_the_constraint_keeps_the_log_from_forking(tmp_path):
    """No two events may continue the same state, whoever writes them."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    await log.append(create(pod()))
    await log.close()
    raw = sqlite3.connect(tmp_path / "events.db")
    columns = "resource, namespace, name, uid, verb, value, previous, created, user, component"
    columns += ", component_version, server_version, request_id, time"
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        raw.execute(f"INSERT INTO events (revision, {columns}) SELECT 3, {columns} FROM events")
    raw.close()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("at", "USING COVERING INDEX"),
        ("at_in", "USING COVERING INDEX"),
        ("states", "SEARCH objects USING INDEX"),
        ("after", "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        ("after_of", "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        ("after", "SEARCH authors USING PRIMARY KEY (revision=? AND sub=?)"),
        ("present", "SEARCH events USING INTEGER PRIMARY KEY (rowid=?)"),
        ("present", "SEARCH siblings USING COVERING INDEX"),
        ("remove_superseded", "MULTI-INDEX OR"),
        ("superseded", "MULTI-INDEX OR"),
        ("history", "(resource=? AND namespace=? AND name=?)"),
    ],
)
def test_statements_use_their_index(name: str, expected: str):
    """The plan of every statement that matters touches what it answers, not what is stored."""
    raw = sqlite3.connect(":memory:", isolation_level=None)
    upgrade.prepare(upgrade.SQLiteConnection(raw), lambda: None)
    statement = statements()[name]
    arguments = tuple("1" for _ in statement.parameters)
    plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {statement.sql}", arguments)]
    raw.close()
    assert expected in "; ".join(plan)
    assert not [step for step in plan if step.startswith(("SCAN events", "SCAN objects"))]


def test_opening_does_not_import_alembic(tmp_path):
    """A fresh database is made, and an up-to-date one opened, without paying for Alembic's import."""
    import os
    import subprocess
    import sys

    program = (
        "import asyncio, sys\n"
        "from apimachinery.clock import SystemClock\n"
        "from apiserver.storage.sql_log import SQLLog\n"
        "async def main():\n"
        "    for _ in range(2):\n"
        "        await (await SQLLog.open(sys.argv[1], SystemClock())).close()\n"
        "asyncio.run(main())\n"
        "assert 'alembic' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run([sys.executable, "-c", program, url_in(tmp_path)], check=True, env=environment)


def taken_back(path: Path) -> None:
    """Give a database the schema that the first kubeskew wrote."""
    settings = upgrade.config()
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        settings.attributes["connection"] = connection
        command.downgrade(settings, "0001")
    engine.dispose()


def rows(path: Path) -> list[list[tuple[object, ...]]]:
    """Everything that stands in the log, the projection and the metadata, but for the store's id: older
    schemas had none. Nor did they count updates: here their objects are made without any."""
    raw = sqlite3.connect(path)
    tables = ("events", "objects", "meta WHERE name != 'store_id'")
    found = [sorted(raw.execute(f"SELECT * FROM {table}").fetchall()) for table in tables]
    raw.close()
    return found


@pytest.mark.parametrize("compacted", [0, 8, 16])
async def test_a_database_without_checksums_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compacted: int
):
    """The migration replays the log, and comes to the very sums that a server would have written."""
    monkeypatch.setattr(projection, "updates_after", lambda change, current: 0)
    await fill(tmp_path)
    async with await opened(tmp_path) as store:
        if compacted:
            await store.compact(compacted)
        await store.write(create(pod("last"), value("last")))
    path = tmp_path / "events.db"
    before = rows(path)
    taken_back(path)
    assert rows(path) != before

    async with await opened(tmp_path) as store:
        assert store.get(pod("last")) is not None

    migrated = rows(path)
    if not compacted:
        assert migrated == before
    assert migrated[1:] == before[1:]
    async with await LogReader.open(url_in(tmp_path)) as reader:
        assert (await reader.replay()).differences == []


async def test_an_old_database_that_is_damaged_is_reported(tmp_path: Path):
    """The sums of an old database come from its log, with which its objects are then compared."""
    await fill(tmp_path)
    taken_back(tmp_path / "events.db")
    sql(tmp_path, "DELETE FROM objects WHERE name = 'p3'")
    with pytest.raises(DamageError, match="pods default/p3 is not in the table of objects, though the log"):
        await opened(tmp_path)
    repair(str(tmp_path / "events.db"))
    await (await opened(tmp_path)).close()


async def test_an_old_database_is_not_migrated_by_who_only_reads(tmp_path: Path):
    """Reading the log of an older schema says that the cluster has to be started first."""
    await fill(tmp_path)
    taken_back(tmp_path / "events.db")
    with pytest.raises(StorageError, match=f"schema 0001 is older than {HEAD}: starting the cluster"):
        await LogReader.open(url_in(tmp_path))
