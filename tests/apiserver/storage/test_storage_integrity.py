"""Damage keeps a store from being opened, is reported by key and revision, and is repaired."""

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from damages import fill, opened, sql, value
from storage_cases import CLOCK, create, every_event, pod, update, url_in

from kubeskew.apiserver.storage.integrity import Replay
from kubeskew.apiserver.storage.interfaces import CompactedError, DamageError, StorageError
from kubeskew.apiserver.storage.records import DAMAGED, Key
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.sqlite.database import mark_of
from kubeskew.apiserver.storage.sqlite.maintenance import repair

NEWEST = 16  # of `fill`
COLUMNS = "resource, namespace, name, uid, revision, created, value"
PROJECTION_DAMAGES = {
    "a row is gone": ("DELETE FROM objects WHERE name = 'p3'", "pods default/p3", 5),
    "every row is gone": ("DELETE FROM objects", "pods default/p3", 5),
    "a letter changed": (
        "UPDATE objects SET value = CAST(replace(value, 'p3', 'q3') AS BLOB) WHERE name = 'p3'",
        "pods default/p3",
        5,
    ),
    "a value became a text": ("UPDATE objects SET value = CAST(value AS TEXT) WHERE name = 'p3'", "p3", 5),
    "a value is no JSON": ("UPDATE objects SET value = x'ff00' WHERE name = 'p3'", "pods default/p3", 5),
    "an older state came back": (
        "UPDATE objects SET revision = 2, value = x'31' WHERE name = 'p0'",
        "pods default/p0",
        12,
    ),
    "a deleted object came back": (
        f"INSERT INTO objects SELECT {COLUMNS}, 0, 0 FROM events WHERE revision = 3",
        "pods default/p1",
        3,
    ),
    "a name changed": ("UPDATE objects SET name = 'x3' WHERE name = 'p3'", "pods default/p3", 5),
    "a uid changed": ("UPDATE objects SET uid = 'x' WHERE name = 'p3'", "pods default/p3", 5),
    "a name is no text": (
        "UPDATE objects SET name = CAST(x'ff' AS TEXT) WHERE name = 'p3'",
        "Could not decode to UTF-8",
        0,
    ),
}
LOG_DAMAGES = {
    "an event is gone": ("DELETE FROM events WHERE revision = 5", "the log has no event 5", 5),
    "events are gone": ("DELETE FROM events WHERE revision IN (5, 6, 7)", "no events 5 to 7", 5),
    "the first event is gone": ("DELETE FROM events WHERE revision = 2", "the log has no event 2", 2),
    "the last events are gone": ("DELETE FROM events WHERE revision > 13", "events 14 to 16 lost", 14),
    "every event is gone": ("DELETE FROM events", "events 2 to 16 lost", 2),
}


async def replayed(directory: Path) -> Replay:
    async with await LogReader.open(url_in(directory)) as reader:
        return await reader.replay()


def contents(directory: Path) -> list[list[tuple[object, ...]]]:
    """Every row of log and projection."""
    with closing(sqlite3.connect(directory / "events.db")) as raw:
        return [sorted(raw.execute(f"SELECT * FROM {table}")) for table in ("events", "objects")]


@pytest.mark.parametrize("damage", PROJECTION_DAMAGES)
async def test_a_damaged_projection_is_reported_and_rebuilt(tmp_path: Path, damage: str) -> None:
    """The store does not open and says which object is wrong; rebuilt from the log it is what it was."""
    statement, reported, revision = PROJECTION_DAMAGES[damage]
    await fill(tmp_path)
    whole = contents(tmp_path)
    sql(tmp_path, statement)

    with pytest.raises(DamageError, match=f"{reported}.*repair --from-log") as refused:
        await opened(tmp_path)
    assert str(revision or "") in str(refused.value)
    assert (await replayed(tmp_path)).differences

    done = repair(str(tmp_path / "events.db"))

    assert (done.lost, done.healed) == ([], [])
    assert contents(tmp_path) == whole
    assert (await replayed(tmp_path)).differences == []
    async with await opened(tmp_path) as store:
        assert (await store.write(create(pod("next")))).revision == NEWEST + 1


@pytest.mark.parametrize("damage", LOG_DAMAGES)
async def test_lost_events_are_reported_and_not_made_up(tmp_path: Path, damage: str) -> None:
    """The store does not open; after a repair it reports the loss, and gives no revision a second time."""
    statement, reported, revision = LOG_DAMAGES[damage]
    await fill(tmp_path)
    sql(tmp_path, statement)

    with pytest.raises(DamageError, match=reported):
        await opened(tmp_path)
    assert revision in {difference.revision for difference in (await replayed(tmp_path)).differences}

    done = repair(str(tmp_path / "events.db"))

    assert [(lost.what, lost.revision) for lost in done.lost] == [("events-lost", revision)]
    after = await replayed(tmp_path)
    assert after.differences == []
    assert after.metadata.lost[0][0] == revision
    async with await opened(tmp_path) as store:
        assert store.revision == NEWEST
        assert (await store.write(create(pod("next")))).revision == NEWEST + 1
        assert [event.revision async for batch in _until(store, NEWEST, 1) for event in batch] == [NEWEST + 1]
        with pytest.raises(CompactedError):  # who watched before has seen what is not there any more
            store.watch("pods", None, None, NEWEST - 1)
    assert (await replayed(tmp_path)).differences == []


async def _until(store, since, count):
    watch = store.watch("pods", None, None, since)
    async for batch in watch:
        yield batch
        count -= len(batch)
        if count <= 0:
            watch.close()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
async def test_a_cut_write_ahead_log_is_reported(tmp_path: Path, share: float) -> None:
    """SQLite takes what is left of its log for everything; the high-water mark knows better."""
    running = tmp_path / "running"
    running.mkdir()
    store = await opened(running)
    for number in range(20):
        await store.write(create(pod(f"p{number}"), value(f"p{number}")))
    for file in running.iterdir():  # as they are when the process is killed
        shutil.copy(file, tmp_path / file.name)
    await store.close()
    log = tmp_path / "events.db-wal"
    os.truncate(log, int(log.stat().st_size * share))
    (tmp_path / "events.db-shm").unlink()

    with pytest.raises(DamageError, match=r"though 21 was committed|is gone, though|21 lost"):
        await opened(tmp_path)
    if share:
        done = repair(str(tmp_path / "events.db"))
        assert done.revision == 21
        async with await opened(tmp_path) as store:
            assert (await store.write(create(pod("next")))).revision == 22


async def test_a_lost_database_is_not_made_again(tmp_path: Path) -> None:
    """Opening a store whose database is gone fails, and makes no empty one in its place."""
    await fill(tmp_path)
    (tmp_path / "events.db").unlink()

    with pytest.raises(DamageError, match=r"events.db is gone, though revision 16 was committed"):
        await opened(tmp_path)
    assert not (tmp_path / "events.db").exists()
    with pytest.raises(StorageError, match="nothing to repair from"):
        repair(str(tmp_path / "events.db"))


async def test_an_older_copy_is_not_taken_for_the_log(tmp_path: Path) -> None:
    """Revisions that clients have seen are not given again because somebody put an old file back."""
    async with await opened(tmp_path) as store:
        await store.write(create(pod("old")))
    shutil.copy(tmp_path / "events.db", tmp_path / "copy.db")
    async with await opened(tmp_path) as store:
        await store.write(create(pod("new")))
    (tmp_path / "copy.db").rename(tmp_path / "events.db")

    with pytest.raises(DamageError, match="the log ends at revision 2, though 3 was committed"):
        await opened(tmp_path)


async def test_a_mark_that_is_gone_or_unreadable_is_made_again(tmp_path: Path) -> None:
    """The mark is a second opinion: without it a store is as good as it says itself."""
    await fill(tmp_path)
    for spoil in (Path.unlink, lambda mark: mark.write_bytes(b"noise" * 300)):
        spoil(mark_of(str(tmp_path / "events.db")))
        async with await opened(tmp_path) as store:
            await store.write(create(pod(f"next-{store.revision}")))


async def test_a_damaged_event_is_put_right_from_its_object(tmp_path: Path) -> None:
    """The table of objects has the bytes that the checksum of the event is of: nothing is lost."""
    await fill(tmp_path)
    whole = contents(tmp_path)
    sql(tmp_path, "UPDATE events SET value = x'00' WHERE revision = 5")
    differences = (await replayed(tmp_path)).differences
    assert [(difference.what, difference.revision) for difference in differences] == [
        ("event-damaged", 5),
        ("object-differs", 5),
    ]

    done = repair(str(tmp_path / "events.db"))

    assert [(one.revision, one.key) for one in done.healed] == [(5, pod("p3"))]
    assert done.lost == []
    assert contents(tmp_path) == whole


async def test_a_damaged_author_spares_the_object(tmp_path: Path) -> None:
    """The digest proves the object; only who wrote it, and when, is not known any more."""
    await fill(tmp_path)
    sql(tmp_path, "UPDATE events SET user = 'nobody' WHERE revision = 5")

    done = repair(str(tmp_path / "events.db"))

    assert [(one.what, one.revision) for one in done.lost] == [("event-damaged", 5)]
    async with await opened(tmp_path) as store:
        assert store.get(pod("p3")).value == value("p3")


async def test_an_object_that_is_damaged_twice_cannot_be_read(tmp_path: Path) -> None:
    """Nothing stands for what neither log nor table has any more, though it looks like an object."""
    await fill(tmp_path)
    changed = "SET value = CAST(replace(value, 'p3', 'q3') AS BLOB) WHERE name = 'p3'"
    sql(tmp_path, f"UPDATE objects {changed}")
    sql(tmp_path, f"UPDATE events {changed}")

    done = repair(str(tmp_path / "events.db"))

    assert [(one.what, one.revision, one.key) for one in done.lost] == [("event-damaged", 5, pod("p3"))]
    async with await opened(tmp_path) as store:
        entry = store.get(pod("p3"))
        assert entry is not None
        assert entry.value == DAMAGED
        await store.write(update(entry, value("p3 again")))
    assert (await replayed(tmp_path)).differences == []
    async with await opened(tmp_path) as store:
        entry = store.get(pod("p3"))
        assert entry is not None
        assert entry.value == value("p3 again")


async def test_a_damaged_event_reaches_nobody_as_what_it_is_not(tmp_path: Path) -> None:
    """Every reader of the log gets the mark of damage instead of the event's object."""
    await fill(tmp_path)
    sql(tmp_path, "UPDATE events SET value = CAST(replace(value, 'p0', 'q0') AS BLOB) WHERE revision = 2")

    async with await opened(tmp_path) as store:
        events = {event.revision: event.value for event in await every_event(store._log)}
        assert [revision for revision, found in events.items() if found == DAMAGED] == [2]
        then = await store.list_at(4, "pods")
        assert [entry.value == DAMAGED for entry in then.entries] == [True, False, False]


async def test_a_repair_keeps_the_damaged_database(tmp_path: Path) -> None:
    """Each repair leaves the file it found, under a name of its own."""
    await fill(tmp_path)
    for number in (1, 2):
        sql(tmp_path, "DELETE FROM objects")
        done = repair(str(tmp_path / "events.db"))
        assert done.kept == str(tmp_path / f"events.db.damaged-{number}")
        with closing(sqlite3.connect(done.kept)) as raw:
            assert raw.execute("SELECT count(*) FROM objects").fetchone() == (0,)


async def test_broken_pages_are_rebuilt_from_the_log(tmp_path: Path) -> None:
    """A table of objects that SQLite itself cannot read is made again."""
    async with await opened(tmp_path) as store:
        for number in range(60):
            await store.write(create(pod(f"p{number:02}"), value("x" * 3000)))
    with closing(sqlite3.connect(tmp_path / "events.db")) as raw:
        size = raw.execute("PRAGMA page_size").fetchone()[0]
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'objects'"
        root = raw.execute(query).fetchone()[0]
    data = bytearray((tmp_path / "events.db").read_bytes())
    data[(root - 1) * size : root * size] = b"\xa5" * size
    (tmp_path / "events.db").write_bytes(data)
    with pytest.raises(DamageError, match=r"malformed.*repair --from-log"):
        await opened(tmp_path)

    done = repair(str(tmp_path / "events.db"))

    assert (done.objects, done.lost) == (60, [])
    await (await opened(tmp_path)).close()


async def test_a_compacted_store_is_checked_too(tmp_path: Path) -> None:
    """Compaction changes neither what is checked nor what a repair gives back, step by step."""
    await fill(tmp_path, 30)
    async with await opened(tmp_path) as store:
        await store.compact(20)
        await store.compact(store.revision)
        await store.write(create(pod("next")))
    assert (await replayed(tmp_path)).differences == []
    whole = contents(tmp_path)
    sql(tmp_path, "DELETE FROM objects WHERE name = 'p3'")
    with pytest.raises(DamageError, match="default/p3"):
        await opened(tmp_path)
    assert repair(str(tmp_path / "events.db")).lost == []
    assert contents(tmp_path) == whole
    sql(tmp_path, "DELETE FROM events WHERE name = 'p4'")
    with pytest.raises(DamageError, match=r"has .* events and should have"):
        await opened(tmp_path)


async def test_events_that_vanish_under_a_server_stop_its_writes(tmp_path: Path) -> None:
    """No revision is given twice, and the server is not ready any more."""
    async with await opened(tmp_path) as store:
        for number in range(5):
            await store.write(create(pod(f"p{number}")))
        sql(tmp_path, "DELETE FROM events WHERE revision > 3")
        with pytest.raises(DamageError, match="the log ends at revision 3, though 6 was committed"):
            await store.write(create(pod("next")))
        assert not store._log.healthy


async def test_an_object_that_vanishes_under_a_server_is_not_made_again(tmp_path: Path) -> None:
    """A create of a name that the log has is refused, and spares whoever writes along with it."""
    async with await opened(tmp_path) as store:
        await store.write(create(pod("a")))
        sql(tmp_path, "DELETE FROM objects")
        results = await asyncio.gather(
            store.write(create(pod("a"))), store.write(create(pod("b"))), return_exceptions=True
        )
        assert isinstance(results[0], DamageError)
        assert "pods default/a is not in the table" in str(results[0])
        assert not isinstance(results[1], BaseException)


@pytest.mark.parametrize("file", ["events.db", "events.db-wal"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_nothing_is_acknowledged_into_a_file_that_is_gone(tmp_path: Path, file: str, how: str) -> None:
    """Writes fail and readiness ends at once; what is there can still be read."""
    async with await opened(tmp_path) as store:
        await store.write(create(pod("a")))
        assert store._log.healthy
        (tmp_path / file).rename(tmp_path / "elsewhere")
        if how == "replaced":
            shutil.copy(tmp_path / "elsewhere", tmp_path / file)

        assert not store._log.healthy
        with pytest.raises(StorageError, match=f"{file} was removed or replaced while the server ran"):
            await store.write(create(pod("b")))
        assert store.get(pod("a")) is not None
        (tmp_path / "elsewhere").replace(tmp_path / file)
        assert not store._log.healthy  # others may have written meanwhile


async def test_a_healthy_store_is_left_as_it_is(tmp_path: Path) -> None:
    """A healthy store is asked to be healthy, and a needless repair changes nothing in it."""
    await fill(tmp_path)
    whole, before = contents(tmp_path), await replayed(tmp_path)
    assert before.differences == []
    assert before.replayed_hash == before.projection_hash
    repair(str(tmp_path / "events.db"))
    assert contents(tmp_path) == whole


async def test_the_newest_digest_alone_may_be_wrong(tmp_path: Path) -> None:
    """Objects that are as in the log, with a sum that is not, are called that; a repair counts them again."""
    await fill(tmp_path)
    sql(tmp_path, f"UPDATE events SET digest = digest + 1 WHERE revision = {NEWEST}")
    with pytest.raises(DamageError, match="its event at revision 16 is not what was written"):
        await opened(tmp_path)
    repair(str(tmp_path / "events.db"))
    async with await opened(tmp_path) as store:
        assert store.get(Key("configmaps", "default", "c")).value == value("c")


async def test_two_servers_share_one_mark(tmp_path: Path) -> None:
    """Two servers on one log note their commits in one mark, and neither takes back the other's."""
    first, second = await opened(tmp_path), await opened(tmp_path)
    for number in range(100):
        await (first, second)[number % 2].write(create(pod(f"p{number}")))
    await first.close()
    await second.close()
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    assert log._database.committed() == await log.revision() == 101
    await log.close()
