"""Transactions, of which all events have one revision: in every log, its readers, branches and repairs."""

import asyncio
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from damages import opened, sql, value
from storage_cases import CLOCK, create, delete, every_event, pod, update, url_in

from kubeskew.apiserver.storage.factory import SQLStorage
from kubeskew.apiserver.storage.interfaces import (
    LeaseChangedError,
    Log,
    RevisionMismatchError,
    StorageError,
    WrittenSinceError,
)
from kubeskew.apiserver.storage.memory_log import MemoryLog
from kubeskew.apiserver.storage.projection import digest
from kubeskew.apiserver.storage.records import (
    Change,
    ComponentEvent,
    Event,
    Key,
    Lease,
    Transaction,
    Verb,
)
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.sqlite.database import SQLiteSession
from kubeskew.apiserver.storage.sqlite.maintenance import branch, repair
from kubeskew.apiserver.storage.store import CachedStore
from kubeskew.apiserver.storage.watches import Window

NODE = Key("nodes", "", "n")


def places(events: Sequence[Event]) -> list[tuple[int, int, str, str]]:
    return [(event.revision, event.sub, event.verb.value, event.key.name) for event in events]


def forked(revision: int) -> ComponentEvent:
    return ComponentEvent(revision, "store", "forked", "", "", datetime(2026, 1, 1, tzinfo=UTC), "")


async def lives(log: Log) -> list[Event]:
    """Pods a, b and c, and a node, through transactions and single writes; at the end a and the node are."""
    _, first = await log.transact(
        Transaction([create(pod("a"), value("a")), create(pod("b"), value("b")), create(NODE, value("n"))])
    )
    changed = await log.append(update(first[1], value("b2")))
    _, second = await log.transact(
        Transaction([create(pod("c"), value("c")), delete(changed), update(first[0], value("a2"))])
    )
    gone = await log.append(delete(second[0]))
    _, third = await log.transact(
        Transaction([update(first[2], value("n2")), update(second[2], value("a3"))])
    )
    return [*first, changed, *second, gone, *third]


class TestTransact:
    async def test_all_changes_get_one_revision(self, log: Log):
        """They are numbered from 0, in the order of the changes, and read back as they were written."""
        revision, events = await log.transact(
            Transaction([create(pod("b")), create(pod("a")), create(NODE, b"3")])
        )
        assert (revision, await log.revision()) == (2, 2)
        assert places(events) == [(2, 0, "create", "b"), (2, 1, "create", "a"), (2, 2, "create", "n")]
        assert await every_event(log) == list(events)
        assert (await log.append(create(pod("c")))).revision == 3

    async def test_a_whole_life_reads_alike_everywhere(self, log: Log):
        """Events know the state before them, whichever event of a revision left it."""
        events = await lives(log)
        assert await every_event(log) == events
        assert places(events)[3:] == [
            (3, 0, "update", "b"), (4, 0, "create", "c"), (4, 1, "delete", "b"), (4, 2, "update", "a"),
            (5, 0, "delete", "c"), (6, 0, "update", "n"), (6, 1, "update", "a"),
        ]  # fmt: skip
        before = {(event.revision, event.key.name): event.previous_value for event in events}
        assert before[3, "b"] == value("b")
        assert before[4, "a"] == value("a")
        assert before[5, "c"] == value("c")
        assert before[6, "a"] == value("a2")

    async def test_a_revision_is_never_split(self, log: Log):
        """Bounded reading gives all events of the last revision, of one resource or of all."""
        await lives(log)
        for limit in (1, 2, 3, 4, 5, 20):
            since, seen = 0, []
            while events := await log.after(since, limit):
                assert len(events) >= limit or events[-1].revision == 6
                seen += events
                since = events[-1].revision
            assert seen == await every_event(log)
        nodes = await log.after(0, 1, resource="nodes")
        assert places(nodes) == [(2, 2, "create", "n")]
        assert places(await log.after(2, 5, resource="nodes")) == [(6, 0, "update", "n")]
        assert places(await log.after(2, 2, until=4, resource="pods")) == [
            (3, 0, "update", "b"), (4, 0, "create", "c"), (4, 1, "delete", "b"), (4, 2, "update", "a"),
        ]  # fmt: skip

    async def test_the_past_has_all_of_them(self, log: Log):
        """States as of every revision, of a resource, a namespace or all."""
        await lives(log)
        past = [[entry.key.name for entry in await log.at(revision, None)] for revision in range(1, 7)]
        assert past == [[], ["n", "a", "b"], ["n", "a", "b"], ["n", "a", "c"], ["n", "a"], ["n", "a"]]
        for revision in range(2, 7):
            everything = await log.at(revision, None)
            pods = [entry for entry in everything if entry.key.resource == "pods"]
            assert await log.at(revision, "pods") == pods
            assert await log.at(revision, "pods", "default") == pods
            assert await log.at(revision, "pods", "other") == []

    async def test_updates_are_counted(self, log: Log):
        """The count goes on through transactions and single writes, and begins with each create."""
        await lives(log)
        _, entries = await log.entries()
        counted = {entry.key.name: (entry.revision, entry.created, entry.updates) for entry in entries}
        assert counted == {"a": (6, 2, 2), "n": (6, 2, 1)}
        deletion = next(event for event in await every_event(log) if event.verb is Verb.DELETE)
        assert deletion.updates == 1
        assert (await log.append(create(pod("b")))).updates == 0

    @pytest.mark.parametrize(
        "expected", [[(pod("a"), 0)], [(pod("a"), 1)], [(pod("z"), 2)], [(pod("a"), 2), (NODE, 2)]]
    )
    async def test_a_stale_expectation_writes_nothing(self, log: Log, expected: list[tuple[Key, int]]):
        """Objects that are only looked at count as those that are changed."""
        await log.append(create(pod("a")))
        with pytest.raises(RevisionMismatchError):
            await log.transact(Transaction([create(pod("b")), create(pod("c"))], expected))
        assert [event.key.name for event in await every_event(log)] == ["a"]
        revision, _ = await log.transact(
            Transaction([create(pod("b")), create(pod("c"))], [(pod("a"), 2), (NODE, 0)])
        )
        assert revision == 3

    async def test_since_refuses_anything_newer(self, log: Log):
        """Any object written since is a refusal; a transaction without changes gets the newest revision."""
        await log.append(create(pod("a")))
        await log.append(create(pod("b")))
        with pytest.raises(WrittenSinceError):
            await log.transact(Transaction([create(pod("c"))], since=2))
        assert await log.transact(Transaction([], [(pod("b"), 3)], since=3)) == (3, [])
        assert (await log.transact(Transaction([create(pod("c"))], since=3)))[0] == 4

    async def test_an_object_is_not_changed_twice(self, log: Log):
        """Two changes of one object in a transaction are a mistake."""
        with pytest.raises(ValueError, match="twice"):
            await log.transact(Transaction([create(pod("a")), create(pod("a"))]))

    async def test_they_share_commits_with_single_writes(self, log: Log):
        """Whatever arrives together gets revisions in a row, and every transaction has one."""
        writes = [
            log.transact(Transaction([create(pod(f"{n}-x")), create(pod(f"{n}-y"))])) for n in range(20)
        ]
        singles = [log.append(create(pod(f"single-{n}"))) for n in range(20)]
        await asyncio.gather(*writes, *singles)
        events = await every_event(log)
        assert sorted({event.revision for event in events}) == list(range(2, 42))
        assert sorted(event.sub for event in events) == [0] * 40 + [1] * 20

    async def test_compaction_forgets_each_of_them_by_itself(self, log: Log):
        """Of one revision, states that were superseded go, and current ones stay."""
        await lives(log)
        await log.compact(5)
        assert places(await log.after(5, 10)) == [(6, 0, "update", "n"), (6, 1, "update", "a")]
        assert [event.previous_value for event in await log.after(5, 10)] == [value("n"), value("a2")]
        assert [(entry.key.name, entry.revision) for entry in await log.at(5, None)] == [("n", 2), ("a", 4)]
        await log.compact(6)
        assert await log.after(6, 10) == []
        assert [(entry.key.name, entry.revision) for entry in await log.at(6, None)] == [("n", 6), ("a", 6)]

    async def test_deletions_share_a_revision(self, log: Log):
        """A revoked lease deletes all its objects at one revision; they can be made again."""
        _, made = await log.transact(Transaction([create(pod(f"p{n}")) for n in range(3)]))
        revision, gone = await log.transact(Transaction([delete(event) for event in made]))
        assert (revision, places(gone)[2]) == (3, (3, 2, "delete", "p2"))
        assert await log.entries() == (3, [])
        again = [await log.append(create(event.key)) for event in made]
        assert [event.created for event in again] == [4, 5, 6]
        await log.transact(Transaction([delete(event) for event in again]))
        await log.transact(Transaction([create(event.key) for event in made]))
        assert (await log.at(8, "pods"))[0].created == 8

    async def test_further_events_cost_nothing_where_there_are_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """Transactions with one change each are as cheap as single writes: their table is never asked."""
        asked: list[str] = []
        all_of = SQLiteSession.all

        def recorded(self: SQLiteSession, name: str, /, **values: object) -> list[Any]:
            asked.append(name)
            return all_of(self, name, **values)

        monkeypatch.setattr(SQLiteSession, "all", recorded)
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        for name in ("a", "b", "c"):
            await log.transact(Transaction([create(pod(name))]))
        assert "sibling_states" not in asked
        _, (_, second) = await log.transact(Transaction([create(pod("d")), create(pod("e"))]))
        await log.transact(Transaction([delete(second)]))
        assert asked.count("sibling_states") == 1
        await log.close()


class TestLeases:
    async def test_leases_are_kept_until_they_are_revoked(self, log: Log):
        """A transaction ends a lease together with its objects; one that is refused does not."""
        await log.grant(Lease(9, 5))
        await log.grant(Lease(3, 60))
        assert await log.leases() == [Lease(3, 60), Lease(9, 5)]
        leased = create(pod("a"))._replace(lease=9)
        _, (event,) = await log.transact(Transaction([leased]))
        assert ((await log.entries())[1][0].lease, event.lease) == (9, 9)
        with pytest.raises(RevisionMismatchError):
            await log.transact(Transaction([delete(event, 1)], revokes=9))
        assert await log.leases() == [Lease(3, 60), Lease(9, 5)]
        _, (gone,) = await log.transact(Transaction([delete(event)], revokes=9))
        assert (gone.lease, await log.leases()) == (9, [Lease(3, 60)])
        assert await log.transact(Transaction([], revokes=3)) == (3, [])
        assert await log.leases() == []
        await log.grant(Lease(3, 7))
        assert await log.leases() == [Lease(3, 7)]

    async def test_renewals_are_counted(self, log: Log):
        """The count and the time of the last renewal are kept with a lease, and go on if its id is granted
        again; an id in use is not granted."""
        then, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
        assert await log.grant(Lease(9, 5, renewed=then)) == Lease(9, 5, 1, then)
        assert await log.grant(Lease(9, 60, renewed=then)) is None
        assert await log.renew([8, 9], later) == {9: 2}
        assert await log.leases() == [Lease(9, 5, 2, later)]
        await log.transact(Transaction([], revokes=9))
        assert await log.renew([9], later) == {}
        assert await log.grant(Lease(9, 7, renewed=then)) == Lease(9, 7, 3, then)

    async def test_a_lease_that_changed_is_a_refusal(self, log: Log):
        """A transaction rests on leases that are there, and may end one only if it was not renewed meanwhile;
        what is refused writes nothing."""
        await log.grant(Lease(9, 5, renewed=datetime(2026, 1, 1, tzinfo=UTC)))
        await log.renew([9], datetime(2026, 1, 2, tzinfo=UTC))
        made = create(pod("a"))._replace(lease=9)
        for refused in (
            Transaction([made], leases=[9, 8]),
            Transaction([made], revokes=8),
            Transaction([], revokes=9, renewals=1),
        ):
            with pytest.raises(LeaseChangedError):
                await log.transact(refused)
        assert await log.entries() == (1, [])
        await log.transact(Transaction([made], leases=[9]))
        await log.transact(Transaction([], revokes=9, renewals=2))
        with pytest.raises(LeaseChangedError):
            await log.transact(Transaction([], revokes=9))
        assert await log.leases() == []

    async def test_renewals_are_forgotten_with_their_leases(self, log: Log):
        """A compaction forgets those of leases that ended before."""
        then = datetime(2026, 1, 1, tzinfo=UTC)
        await log.grant(Lease(9, 5, renewed=then))
        await log.append(create(pod("a")))
        await log.transact(Transaction([], revokes=9))
        await log.append(create(pod("b")))
        await log.compact(3)
        assert await log.grant(Lease(9, 5, renewed=then)) == Lease(9, 5, 1, then)

    async def test_an_update_takes_the_lease_away(self, log: Log):
        """An API server that updates an object keeps no lease, as etcd's put without one."""
        _, (event,) = await log.transact(Transaction([create(pod("a"))._replace(lease=9)]))
        assert (await log.append(update(event))).lease == 0

    async def test_leases_outlive_the_process(self, url: str):
        """They are in the database."""
        log = await SQLLog.open(url, CLOCK)
        await log.grant(Lease(1 << 62, 60))
        await log.close()
        log = await SQLLog.open(url, CLOCK)
        assert await log.leases() == [Lease(1 << 62, 60)]
        await log.close()


class TestStore:
    async def test_a_watch_gets_a_revision_at_once(self, log: Log):
        """Memory, lists of the past and watches of an API server over the log have each transaction whole."""
        async with await CachedStore.open(log, CLOCK) as store:
            live = store.watch("pods", None, None, 1)
            batches = []
            await lives(log)
            live.request_progress()
            batches.append(await anext(aiter(live)))
            late = store.watch("pods", None, None, 2)
            batches.append(await anext(aiter(late)))
            assert [(event.revision, event.key.name) for event in batches[0]] == [
                (2, "a"), (2, "b"), (3, "b"), (4, "c"), (4, "b"), (4, "a"), (5, "c"), (6, "a"),
            ]  # fmt: skip
            assert batches[1] == batches[0][2:]
            assert [entry.revision for entry in store.list("pods").entries] == [6]
            for revision in range(2, 7):
                past = await store.list_at(revision, "pods")
                assert list(past.entries) == list(await log.at(revision, "pods"))

    async def test_another_server_reads_what_it_missed(self, url: str):
        """It catches up from the log, in pieces that end between two revisions."""
        first, second = await SQLLog.open(url, CLOCK), await SQLLog.open(url, CLOCK)
        async with await CachedStore.open(second, CLOCK) as store:
            watch = store.watch("pods", None, None, 1)
            await lives(first)
            assert await store.refresh() == 6
            assert len(await anext(aiter(watch))) == 8
        await first.close()

    def test_a_window_keeps_whole_revisions(self):
        """The oldest are dropped up to the last event of a revision."""
        window = Window(1, events_max=8)
        events = [
            Event(
                2 + number // 3, Verb.CREATE, pod(f"p{number}"), "u", b"", 0, None, create(pod()).author,
                create(pod()).time, 2, number % 3,
            )
            for number in range(12)
        ]  # fmt: skip
        window.extend(events)
        assert window.start == 3
        assert [event.revision for event in window.since(3)] == [4, 4, 4, 5, 5, 5]
        assert [event.revision for event in window.since(4)] == [5, 5, 5]
        assert window.since(5) == []


class TestReaders:
    async def test_replay_and_history(self, url: str):
        """The log comes to the projection, nothing is missed, and an object has its history."""
        log = await SQLLog.open(url, CLOCK)
        events = await lives(log)
        async with await LogReader.open(url) as reader:
            replay = await reader.replay()
            assert (replay.differences, replay.events, replay.further) == ([], 10, 5)
            assert replay.replayed_hash == replay.projection_hash
            assert [event async for event in reader.events()] == events
            assert [event async for event in reader.remaining()] == events
            assert places(await reader.history(pod("a"))) == [
                (2, 0, "create", "a"), (4, 2, "update", "a"), (6, 1, "update", "a")
            ]  # fmt: skip
            assert (await reader.history(pod("a")))[2].previous_value == value("a2")
            assert await reader.resources() == ["nodes", "pods"]
        await log.compact(5)
        async with await LogReader.open(url) as reader:
            assert (await reader.replay()).differences == []
        await log.close()
        log = await SQLLog.open(url, CLOCK)
        await log.entries()
        await log.close()

    @pytest.mark.parametrize("revision", range(2, 7))
    async def test_branches(self, tmp_path: Path, url: str, revision: int):
        """A branch has all of a revision, its objects and the leases of then; the log goes on in it."""
        log = await SQLLog.open(url, CLOCK)
        await log.grant(Lease(7, 60))
        await lives(log)
        await log.transact(Transaction([], revokes=7))
        await log.grant(Lease(8, 60))
        target = tmp_path / "branched" / "events.db"
        target.parent.mkdir()
        await SQLStorage().branch(url, f"sqlite+aiosqlite:///{target}", forked(revision))
        past = list(await log.at(revision, None))
        await log.close()
        branched = await SQLLog.open(url_in(target.parent), CLOCK)
        at, entries = await branched.entries()
        assert (at, digest(entries)) == (revision, digest(past))
        assert sorted(entries, key=lambda entry: entry.key) == sorted(past, key=lambda entry: entry.key)
        assert await branched.leases() == ([Lease(7, 60)] if revision < 6 else [Lease(8, 60)])
        current = next(entry for entry in entries if entry.key.name == "a")
        assert (await branched.append(update(current))).revision == revision + 1
        await branched.close()

    async def test_branches_in_memory(self):
        """The log in memory gives back the leases, too."""
        log = MemoryLog()
        await log.grant(Lease(7, 60))
        await lives(log)
        await log.transact(Transaction([], revokes=7))
        early = MemoryLog(log._records.branched(forked(4)))
        assert await early.leases() == [Lease(7, 60)]
        assert [entry.key.name for entry in (await early.entries())[1]] == ["a", "n", "c"]
        assert (await early.append(create(pod("z")))).revision == 5

    async def test_an_older_file_can_be_branched_row_by_row(self, tmp_path: Path):
        """A branch far back copies rows; what siblings left is among its objects."""
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        await lives(log)
        for number in range(30):
            await log.append(create(pod(f"later-{number}")))
        await log.close()
        for revision in (4, 30):
            target = tmp_path / f"branch-{revision}.db"
            assert branch(str(tmp_path / "events.db"), str(target), forked(revision)).revision == revision
            branched = await SQLLog.open(f"sqlite+aiosqlite:///{target}", CLOCK)
            assert (await branched.entries())[0] == revision
            await branched.close()


DAMAGES = {
    "a further event changed": ("UPDATE siblings SET value = x'00' WHERE revision = 2 AND sub = 2", 2),
    "a sub-revision changed": ("UPDATE siblings SET sub = 5 WHERE revision = 4 AND sub = 2", 4),
    "a lease changed": ("UPDATE siblings SET lease = 5 WHERE revision = 4 AND sub = 2", 4),
    "a further event is gone": ("DELETE FROM siblings WHERE revision = 2 AND sub = 1", 2),
    "the last of further events is gone": ("DELETE FROM siblings WHERE revision = 4 AND sub = 2", 4),
}


class TestDamage:
    @pytest.mark.parametrize("name", DAMAGES)
    async def test_damage_is_reported(self, tmp_path: Path, name: str):
        """A replay names the revision, whichever event of it was changed or is gone."""
        async with await opened(tmp_path) as store:
            await lives(store._log)
        statement, revision = DAMAGES[name]
        sql(tmp_path, statement)
        async with await LogReader.open(url_in(tmp_path)) as reader:
            differences = (await reader.replay()).differences
        assert differences[0].revision == revision

    async def test_what_the_objects_prove_is_put_right(self, tmp_path: Path):
        """A repair takes a further event's value from the table of objects."""
        async with await opened(tmp_path) as store:
            await lives(store._log)
        sql(tmp_path, "UPDATE siblings SET value = x'00' WHERE revision = 6 AND sub = 1")
        result = repair(str(tmp_path / "events.db"))
        assert ([difference.revision for difference in result.healed], result.lost) == ([6], [])
        async with await opened(tmp_path) as store:
            entry = store.get(pod("a"))
            assert entry is not None
            assert entry.value == value("a3")
        async with await LogReader.open(url_in(tmp_path)) as reader:
            assert (await reader.replay()).differences == []

    async def test_a_failing_event_takes_the_transaction_with_it(self, tmp_path: Path):
        """None of a transaction is written if the database refuses one row; the others of the batch are."""
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        too_big: Change = create(pod("bad"))._replace(lease=1 << 70)
        results = await asyncio.gather(
            log.transact(Transaction([create(pod("a")), too_big])),
            log.append(create(pod("b"))),
            return_exceptions=True,
        )
        assert isinstance(results[0], StorageError)
        assert [event.key.name for event in await every_event(log)] == ["b"]
        await log.close()
        with sqlite3.connect(tmp_path / "events.db") as raw:
            assert raw.execute("SELECT count(*) FROM siblings").fetchone() == (0,)
