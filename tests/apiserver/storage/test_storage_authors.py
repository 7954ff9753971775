"""Authors that a log learns after the events: in every log, its readers, branches and repairs."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy
from alembic import command
from damages import sql, value
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import examples
from storage_cases import AUTHOR, CLOCK, create, delete, every_event, pod, update, url_in

from kubeskew.apiserver.storage.factory import MemoryStorage, SQLStorage
from kubeskew.apiserver.storage.interfaces import Log, StorageError
from kubeskew.apiserver.storage.memory_log import MemoryLog
from kubeskew.apiserver.storage.records import Author, ComponentEvent, Event, Key, Place, Transaction
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.sqlite.maintenance import repair
from kubeskew.migrations import upgrade
from kubeskew.migrations.tables import HEAD

ALICE = Author("alice", "kubectl", "1.36", "1.36.3", "request-2")
BOB = ALICE._replace(user="bob", request_id="request-3")


def forked(revision: int) -> ComponentEvent:
    return ComponentEvent(revision, "store", "forked", "", "", datetime(2026, 1, 1, tzinfo=UTC), "")


async def lives(log: Log) -> list[Event]:
    """Pods a and b at revision 2, a changed at 3, b gone at 4, c made at 5."""
    _, (first, other) = await log.transact(
        Transaction([create(pod("a"), value("a")), create(pod("b"), value("b"))])
    )
    changed = await log.append(update(first, value("a2")))
    gone = await log.append(delete(other))
    return [first, other, changed, gone, await log.append(create(pod("c"), value("c")))]


def users(events: Sequence[Event]) -> dict[Place, str]:
    return {(event.revision, event.sub): event.author.user for event in events}


ADMIN = AUTHOR.user


class TestLearning:
    async def test_readers_get_the_author(self, log: Log):
        """Events of a revision have authors of their own; all else of the events stays."""
        written = await lives(log)
        await log.attribute([((2, 1), BOB), ((3, 0), ALICE)])
        events = await every_event(log)
        assert users(events) == {(2, 0): ADMIN, (2, 1): "bob", (3, 0): "alice", (4, 0): ADMIN, (5, 0): ADMIN}
        assert [event._replace(author=AUTHOR) for event in events] == written
        assert [event.author for event in await log.after(2, 1)] == [ALICE]
        assert [event.author for event in await log.after(1, 9, until=2, resource="pods")] == [AUTHOR, BOB]

    async def test_the_first_author_counts(self, log: Log):
        """Repeating is harmless, in one call and in several; another one does not take the place."""
        await lives(log)
        await log.attribute([((3, 0), ALICE), ((3, 0), BOB)])
        await log.attribute([((3, 0), ALICE)])
        await log.attribute([((3, 0), BOB)])
        await log.attribute([])
        assert (await log.after(2, 1))[0].author == ALICE

    async def test_places_without_an_event_are_left_out(self, log: Log):
        """An author of what is written later, or never, or was compacted, is not kept."""
        await lives(log)
        await log.compact(4)
        nowhere = [(1, 0), (2, 0), (2, 1), (2, 2), (3, 1), (4, 0), (5, 1), (6, 0), (-1, -1), (1 << 62, 0)]
        await log.attribute([*((place, BOB) for place in nowhere), ((5, 0), ALICE)])
        written = await log.append(create(pod("d")))
        assert written.author == AUTHOR
        assert users(await log.after(4, 9)) == {(5, 0): "alice", (6, 0): ADMIN}

    async def test_a_closed_log_refuses(self, tmp_path: Path):
        """Nothing was kept, and the caller gets to know."""
        for log in (MemoryLog(), await SQLLog.open(url_in(tmp_path), CLOCK)):
            await log.close()
            with pytest.raises(StorageError):
                await log.attribute([((2, 0), ALICE)])

    async def test_other_servers_read_it(self, url: str):
        """The author is in the database that servers share, also after it was opened again."""
        first, second = await SQLLog.open(url, CLOCK), await SQLLog.open(url, CLOCK)
        await lives(first)
        await second.attribute([((3, 0), ALICE)])
        assert (await first.after(2, 1))[0].author == ALICE
        await first.close()
        await second.close()
        async with await LogReader.open(url) as reader:
            events = [event async for event in reader.events() if isinstance(event, Event)]
            assert users(events)[3, 0] == "alice"
            assert users(await reader.history(pod("a"))) == {(2, 0): ADMIN, (3, 0): "alice"}
            assert users([event async for event in reader.remaining()])[3, 0] == "alice"


class TestKeeping:
    async def test_compaction_forgets_them_with_their_events(self, url: str):
        """Compaction drops an author with its event, and leaves those of the events that it leaves."""
        log = await SQLLog.open(url, CLOCK)
        await lives(log)
        everything = [(2, 0), (2, 1), (3, 0), (4, 0), (5, 0)]
        await log.attribute([(place, ALICE) for place in everything])
        await log.compact(4)
        rows = await log._database.read(lambda session: session.all("authors", since=0, until=99))
        assert [tuple(row[:2]) for row in rows] == [(3, 0), (5, 0)]
        await log.close()
        async with await LogReader.open(url) as reader:
            assert (await reader.replay()).differences == []

    async def test_compaction_in_memory(self):
        """The log in memory forgets which events they were of, too."""
        log = MemoryLog()
        await lives(log)
        await log.attribute([((2, 0), ALICE), ((5, 0), ALICE)])
        await log.compact(4)
        assert log._records.attributed == {(5, 0)}

    @pytest.mark.parametrize("later", [0, 20])
    @pytest.mark.parametrize("revision", range(2, 6))
    async def test_a_branch_has_those_of_its_events(
        self, tmp_path: Path, url: str, revision: int, later: int
    ):
        """A fork and a rewind, of few revisions or of most, have the authors up to theirs and no others."""
        log = await SQLLog.open(url, CLOCK)
        await lives(log)
        for number in range(later):
            await log.append(create(pod(f"later-{number}")))
        learnt = [((2, 1), BOB), ((3, 0), ALICE), ((4, 0), BOB), ((5, 0), ALICE)]
        await log.attribute(learnt)
        expected = {place: author.user for place, author in learnt if place[0] <= revision}
        target = f"sqlite+aiosqlite:///{tmp_path / 'branch.db'}"
        await SQLStorage().branch(url, target, forked(revision))
        await log.close()
        branched = await SQLLog.open(target, CLOCK)
        found = users(await every_event(branched))
        assert {place: user for place, user in found.items() if user != ADMIN} == expected
        assert (await branched.append(create(pod("z")))).author == AUTHOR
        assert users(await branched.after(revision, 1)) == {(revision + 1, 0): ADMIN}
        await branched.close()
        async with await LogReader.open(target) as reader:
            assert (await reader.replay()).differences == []

    async def test_a_branch_in_memory(self):
        """It has the authors up to its revision, and learns of its own events."""
        storage = MemoryStorage()
        log = await storage.log("one", CLOCK)
        await lives(log)
        await log.attribute([((3, 0), ALICE), ((5, 0), ALICE)])
        await storage.branch("one", "two", forked(4))
        branched = await storage.log("two", CLOCK)
        await branched.append(create(pod("z")))
        await branched.attribute([((5, 0), BOB), ((3, 0), BOB)])
        assert users(await branched.after(2, 9)) == {(3, 0): "alice", (4, 0): ADMIN, (5, 0): "bob"}
        assert users(await log.after(4, 9)) == {(5, 0): "alice"}

    @pytest.mark.postgresql
    async def test_a_successor_in_postgresql(self, request: pytest.FixtureRequest):
        """A log that is rewound into a new schema keeps them."""
        url = request.getfixturevalue("postgresql").fresh()
        log = await SQLLog.open(url, CLOCK)
        await lives(log)
        await log.attribute([((2, 1), BOB), ((5, 0), BOB)])
        await log.close()
        successor = await SQLLog.open(await SQLStorage().succeed(url, "", forked(4)), CLOCK)
        assert users(await every_event(successor))[2, 1] == "bob"
        await successor.close()

    async def test_an_older_database_learns_from_then_on(self, tmp_path: Path):
        """A database of the schema before is migrated as it is opened, and its events stay as they are."""
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        written = await lives(log)
        await log.close()
        path = tmp_path / "events.db"
        settings_of_alembic = upgrade.config()
        engine = sqlalchemy.create_engine(f"sqlite:///{path}")
        with engine.begin() as connection:
            settings_of_alembic.attributes["connection"] = connection
            command.downgrade(settings_of_alembic, "0004")
        engine.dispose()
        with pytest.raises(StorageError, match=f"schema 0004 is older than {HEAD}"):
            await LogReader.open(url_in(tmp_path))
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        assert await every_event(log) == written
        await log.attribute([((3, 0), ALICE)])
        assert (await log.after(2, 1))[0].author == ALICE
        await log.close()


class TestDamage:
    async def test_an_author_of_nothing_is_reported(self, tmp_path: Path):
        """Nothing writes such rows. A repair drops them, and keeps the others."""
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        await lives(log)
        await log.attribute([((2, 1), BOB), ((3, 0), ALICE)])
        await log.close()
        for place in ("9, 0", "3, 1"):
            sql(tmp_path, f"INSERT INTO authors VALUES ({place}, 'eve', '', '', '', '')")
        async with await LogReader.open(url_in(tmp_path)) as reader:
            differences = (await reader.replay()).differences
        assert [(difference.what, difference.text) for difference in differences] == [
            ("author-unknown", "the log has an author of event 1 of revision 3, but no such event"),
            ("author-unknown", "the log has an author of event 9, but no such event"),
        ]
        assert repair(str(tmp_path / "events.db")).lost == []
        async with await LogReader.open(url_in(tmp_path)) as reader:
            assert (await reader.replay()).differences == []
            assert users([event async for event in reader.remaining()])[2, 1] == "bob"
        with closing(sqlite3.connect(tmp_path / "events.db")) as raw:
            assert raw.execute("SELECT count(*) FROM authors").fetchone() == (2,)

    async def test_a_lost_event_is_missed_by_itself(self, tmp_path: Path):
        """Its author is no second difference, and goes with the repair."""
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        await lives(log)
        await log.attribute([((3, 0), ALICE)])
        await log.close()
        sql(tmp_path, "DELETE FROM events WHERE revision = 3")
        async with await LogReader.open(url_in(tmp_path)) as reader:
            whats = {difference.what for difference in (await reader.replay()).differences}
        assert "events-lost" in whats
        assert "author-unknown" not in whats
        repair(str(tmp_path / "events.db"))
        async with await LogReader.open(url_in(tmp_path)) as reader:
            assert (await reader.replay()).differences == []

    async def test_a_damaged_author_does_not_count(self, tmp_path: Path):
        """The event has the author that it was written with."""
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        await lives(log)
        await log.attribute([((3, 0), ALICE)])
        await log.close()
        sql(tmp_path, "UPDATE authors SET component = x'ff00'")
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        assert (await log.after(2, 1))[0].author == AUTHOR
        await log.close()
        assert repair(str(tmp_path / "events.db")).lost == []


OPERATIONS = st.tuples(
    st.sampled_from(["write", "write", "both", "delete", "attribute", "attribute", "compact"]),
    st.integers(0, 3),
    st.integers(0, 1),
)
KEYS: Sequence[Key] = [pod("a"), pod("b"), pod("a", "other"), Key("nodes", "", "a")]


async def _run(log: Log, steps: Sequence[tuple[str, int, int]]) -> list[Event]:
    for what, number, other in steps:
        revision, entries = await log.entries()
        current = {entry.key: entry for entry in entries}
        keys = [KEYS[number], KEYS[(number + 1) % len(KEYS)]]
        if what == "attribute":
            await log.attribute([((revision - number, other), (ALICE, BOB)[other])])
        elif what == "compact":
            await log.compact(max(1, revision - number))
        elif what == "delete":
            if keys[0] in current:
                await log.append(delete(current[keys[0]]))
        else:
            wanted = keys if what == "both" else keys[:1]
            changes = [update(current[key]) if key in current else create(key) for key in wanted]
            await log.transact(Transaction(changes))
    events = [*await log.after(await log.compacted(), 1000)]
    await log.close()
    return events


@settings(max_examples=examples(60))
@given(steps=st.lists(OPERATIONS, max_size=20))
def test_both_logs_learn_alike(steps: Sequence[tuple[str, int, int]]):
    """The log in SQL and the model have the same events with the same authors after any history."""

    async def both() -> None:
        in_sql = await _run(await SQLLog.open("sqlite+aiosqlite://", CLOCK), steps)
        assert in_sql == await _run(MemoryLog(), steps)

    asyncio.run(both())
