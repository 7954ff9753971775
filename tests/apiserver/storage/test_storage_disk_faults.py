"""A disk that fails: a clear error, no lie, and the log goes on once the disk does.

Faults are injected below SQLite, into the file layer of the library that Python's sqlite3 has loaded
(hack/powerloss/sqlite_files.py).
"""

import asyncio
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from damages import value
from storage_cases import CLOCK, create, delete, every_event, pod, update, url_in

sys.path.append(str(Path(__file__).parents[3] / "hack" / "powerloss"))

from sqlite_files import FSYNC, FULL, OK, READ, SHORT_READ, TRUNCATE, WRITE, UnavailableError, layer

from kubeskew.apiserver.storage.interfaces import DamageError, StorageError
from kubeskew.apiserver.storage.projection import digest, fold
from kubeskew.apiserver.storage.records import DAMAGED, Entry, Event, Key, Transaction
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.sqlite import database as sqlite
from kubeskew.apiserver.storage.sqlite.maintenance import repair
from kubeskew.apiserver.storage.store import CachedStore

READ_ONLY, OPEN = 8, 14  # SQLITE_READONLY, SQLITE_CANTOPEN
DATABASE, WAL = "events.db", "events.db-wal"


@dataclass
class Faults:
    """Answers calls of one kind on one file with a code, after so many have gone through, while it is on."""

    call: str
    file: str
    code: int
    after: int = 0
    on: bool = False
    hits: int = 0

    def before(self, call: str, path: str, offset: int, size: int) -> int:
        if not self.on or call != self.call or not path.endswith(self.file):
            return OK
        if self.after:
            self.after -= 1
            return OK
        self.hits += 1
        return self.code


@pytest.fixture(autouse=True)
def small_checkpoints(monkeypatch):
    """A checkpoint comes every ten pages."""
    pragmas = tuple(
        "PRAGMA wal_autocheckpoint=10" if "wal_autocheckpoint" in pragma else pragma
        for pragma in sqlite.PRAGMAS
    )
    monkeypatch.setattr(sqlite, "PRAGMAS", pragmas)
    monkeypatch.setattr(sqlite, "BRIEF_TRANSACTIONS", 3)


def disk(faults: Faults):
    try:
        return layer().serving(ear=faults)
    except UnavailableError as error:
        pytest.skip(str(error))


FAULTS = [
    ("write", WAL, FULL),
    ("write", WAL, WRITE),
    ("sync", WAL, FSYNC),
    ("write", DATABASE, FULL),  # in mid-checkpoint
    ("write", DATABASE, WRITE),
    ("sync", DATABASE, FSYNC),
    ("read", WAL, READ),
    ("read", DATABASE, READ),
    ("read", WAL, SHORT_READ),
    ("truncate", DATABASE, TRUNCATE),
]


async def write_some(store: CachedStore, name: str, count: int) -> tuple[list[Event], int]:
    """Returns what was acknowledged, and how many writes were refused with a StorageError."""
    acknowledged, refused = [], 0
    for number in range(count):
        changes = [
            create(pod(f"{name}-{number}-{place}"), value("x" * 3000)) for place in range(number % 4 + 1)
        ]
        for answer in await asyncio.gather(*map(store.write, changes), return_exceptions=True):
            if isinstance(answer, Event):
                acknowledged.append(answer)
            else:
                assert isinstance(answer, StorageError), repr(answer)
                refused += 1
    return acknowledged, refused


@pytest.mark.parametrize("after", [0, 7])
@pytest.mark.parametrize(("call", "file", "code"), FAULTS)
async def test_a_fault_of_the_disk_is_an_error_and_no_lie(tmp_path, call, file, code, after):
    """Acknowledged writes are in the log, others get an error; once the disk is well the log goes on."""
    faults = Faults(call, file, code, after)
    with disk(faults):
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        store = await CachedStore.open(log, CLOCK)
        first, refused = await write_some(store, "before", 8)
        assert not refused
        faults.on = True
        second, refused = await write_some(store, "meanwhile", 12)
        assert refused or file == DATABASE or call == "read"  # a checkpoint that fails loses nothing
        assert faults.hits or after
        faults.on = False
        third, refused = await write_some(store, "after", 8)
        assert (refused, log.healthy) == (0, True)
        acknowledged = [*first, *second, *third]
        await agree(store, await every_event(log), acknowledged)
        await store.close()
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    again = await CachedStore.open(log, CLOCK)
    await agree(again, await every_event(log), acknowledged)
    await again.close()
    async with await LogReader.open(url_in(tmp_path)) as reader:
        assert (await reader.replay()).differences == []


async def agree(store: CachedStore, events: list[Event], acknowledged: list[Event]) -> None:
    """The log has no gap and every acknowledged event, and the store has what the log comes to."""
    assert [event.revision for event in events] == list(range(2, len(events) + 2))
    known = {event.revision: event for event in events}
    assert [event for event in acknowledged if known.get(event.revision) != event] == []
    assert digest(store.list("pods").entries) == digest(fold(events).values())


async def test_a_disk_that_fails_says_so_until_it_is_well(tmp_path):
    """Reads are answered meanwhile, the log is unhealthy, and each error names the file and the reason."""
    faults = Faults("write", WAL, FULL)
    with disk(faults):
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        async with await CachedStore.open(log, CLOCK) as store:
            first = await store.write(create(pod("first")))
            faults.on = True
            with pytest.raises(StorageError, match=r"events\.db: database or disk is full"):
                await store.write(create(pod("second")))
            entry = store.get(first.key)
            assert entry is not None
            assert (entry.revision, log.healthy) == (first.revision, False)
            assert await log.at(first.revision, "pods") == [entry]
            faults.on = False
            assert (await store.write(create(pod("second")))).revision == first.revision + 1
            assert log.healthy


@pytest.mark.parametrize(
    ("call", "file", "code", "reason"),
    [
        ("open", DATABASE, OPEN, "unable to open database file"),
        ("open", WAL, OPEN, "unable to open database file"),
        ("write", DATABASE, READ_ONLY, "attempt to write a readonly database"),
        ("write", WAL, FULL, "database or disk is full"),
        ("sync", WAL, FSYNC, "disk I/O error"),
        ("read", DATABASE, READ, "disk I/O error"),
    ],
)
async def test_a_log_that_cannot_be_opened_says_why(tmp_path, call, file, code, reason):
    """Opening fails with the reason, leaves what is there, and succeeds once the disk is well."""
    faults = Faults(call, file, code, on=True)
    written = call in ("read", "open")
    with disk(faults):
        if written:
            faults.on = False
            log = await SQLLog.open(url_in(tmp_path), CLOCK)
            first = await log.append(create(pod("first")))
            await log.close()
            faults.on = True
        with pytest.raises(StorageError, match=reason):
            await SQLLog.open(url_in(tmp_path), CLOCK)
        faults.on = False
        log = await SQLLog.open(url_in(tmp_path), CLOCK)
        assert await every_event(log) == ([first] if written else [])
        await log.close()


# --


async def filled(directory: Path) -> None:
    """A log with every kind of page, all taken in from the write-ahead log."""
    log = await SQLLog.open(url_in(directory), CLOCK)
    for number in range(150):
        event = await log.append(
            create(pod(f"p{number:03}"), value("x" * (6000 if number % 7 == 0 else 300)))
        )
        if number % 3 == 0:
            event = await log.append(update(event, value("y" * 300)))
        if number % 5 == 0:
            await log.append(delete(event))
    for number in range(12):
        made = [create(pod(f"t{number}-{place}"), value("t" * 200)) for place in range(4)]
        await log.transact(Transaction(made))
    await log.compact(60)
    await log.close()


def pages_of(file: Path) -> dict[str, list[int]]:
    """Numbers of pages by table or index and kind. Skips where SQLite cannot say."""
    kinds: dict[str, list[int]] = {}
    with closing(sqlite3.connect(file)) as raw:
        try:
            rows = raw.execute("SELECT name || ' ' || pagetype, pageno FROM dbstat").fetchall()
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no table of its pages")
    for kind, page in rows:
        kinds.setdefault(kind, []).append(page)
    return kinds


Contents = tuple[int, dict[Key, Entry], list[Event]]


async def contents(directory: Path) -> Contents:
    log = await SQLLog.open(url_in(directory), CLOCK)
    try:
        revision, entries = await log.entries()
        events = await log.after(await log.compacted(), 1_000_000)
        return revision, {entry.key: entry for entry in entries}, [*events]
    finally:
        await log.close()


async def differences(directory: Path) -> Sequence[str]:
    """Returns the texts that `kubeskew replay` prints."""
    try:
        async with await LogReader.open(url_in(directory)) as reader:
            return [difference.text for difference in (await reader.replay()).differences]
    except StorageError as error:
        return [str(error)]


LOG_PAGES = [
    *("events internal", "events leaf", "events overflow", "objects leaf", "objects overflow"),
    *("siblings leaf", "siblings internal", "objects internal"),
    *(
        "sqlite_autoindex_objects_1 leaf",
        "sqlite_autoindex_events_1 leaf",
        "sqlite_autoindex_siblings_1 leaf",
    ),
]


@pytest.mark.parametrize("kind", LOG_PAGES)
async def test_a_flipped_bit_is_found_and_no_value_is_made_up(tmp_path, kind):
    """A server refuses to start or shows nothing else than was written, `replay` reports the damage, and a
    repair says what it has lost."""
    base = tmp_path / "base"
    base.mkdir()
    await filled(base)
    good, pages = await contents(base), pages_of(base / DATABASE)
    drawn = Random(kind)
    data = (base / DATABASE).read_bytes()
    written = {(event.key, event.value) for event in good[2]} | {
        (key, entry.value) for key, entry in good[1].items()
    }
    for number in range(4):
        damaged = tmp_path / str(number)
        damaged.mkdir()
        start = (drawn.choice(pages[kind]) - 1) * 4096
        place = drawn.choice([byte for byte in range(start, start + 4096) if data[byte]])
        flipped = bytearray(data)
        flipped[place] ^= 1 << drawn.randrange(8)
        (damaged / DATABASE).write_bytes(flipped)
        where = f"bit in byte {place}"

        reported = await differences(damaged)
        try:
            found = await contents(damaged)
        except DamageError:
            assert reported, where
        else:
            assert reported or found == good, where
            assert found[:2] == good[:2], where
        if reported:
            result = repair(str(damaged / DATABASE))
            _, entries, _ = await contents(damaged)
            assert entries == good[1] or result.lost, where
            for entry in entries.values():
                assert entry.value == DAMAGED or (entry.key, entry.value) in written, where


@pytest.mark.parametrize("place", [5, 40, 60, 4000])
async def test_a_flipped_bit_in_the_write_ahead_log_is_no_silent_loss(tmp_path, monkeypatch, place):
    """SQLite takes a broken frame for the log's end; the mark beside the database misses what is gone."""
    monkeypatch.undo()  # no checkpoint
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    for number in range(5):
        await log.append(create(pod(f"p{number}")))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in (DATABASE, WAL, f"{DATABASE}-mark"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())
    await log.close()
    data = bytearray((copy / WAL).read_bytes())
    data[-4120 + place] ^= 4  # in the last frame
    (copy / WAL).write_bytes(data)
    log = await SQLLog.open(url_in(copy), CLOCK)
    with pytest.raises(DamageError, match="the log ends at revision 5, though 6 was committed: event 6 lost"):
        await log.entries()
    await log.close()


async def test_a_page_that_leads_in_circles_ends_a_start(tmp_path):
    """Rows that come again are damage, not a log without an end."""
    await filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as raw:
        root = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()[0]
    data = bytearray((tmp_path / DATABASE).read_bytes())
    page = (root - 1) * 4096
    cells = int.from_bytes(data[page + 3 : page + 5])
    assert data[page] == 5  # an inner page of a table
    first = int.from_bytes(data[page + 12 : page + 14])
    for number in range(1, cells):  # every child is the first one
        cell = int.from_bytes(data[page + 12 + 2 * number : page + 14 + 2 * number])
        data[page + cell : page + cell + 4] = data[page + first : page + first + 4]
    (tmp_path / DATABASE).write_bytes(data)

    with pytest.raises(DamageError):
        await contents(tmp_path)
    assert await differences(tmp_path)
