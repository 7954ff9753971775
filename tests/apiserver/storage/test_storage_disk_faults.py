"""A disk that fails: a clear error, no lie, and the log goes on once the disk does.

Faults are injected below SQLite, into the file layer of the library that Python's sqlite3 has loaded
(hack/powerloss/sqlite_files.py).
"""

import asyncio
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from damages import value
from storage_cases import CLOCK, create, every_event, pod, update, url_in

sys.path.append(str(Path(__file__).parents[3] / "hack" / "powerloss"))

from sqlite_files import FSYNC, FULL, OK, READ, SHORT_READ, TRUNCATE, WRITE, UnavailableError, layer

from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.projection import digest, fold
from kubeskew.apiserver.storage.records import Event
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.sqlite import database as sqlite
from kubeskew.apiserver.storage.store import CachedStore

OPEN = 14  # SQLITE_CANTOPEN
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


@pytest.mark.parametrize("after", [0, 1, 7])
@pytest.mark.parametrize(("call", "file", "code"), FAULTS)
async def test_a_fault_of_the_disk_is_an_error_and_no_lie(tmp_path, call, file, code, after):
    """What is acknowledged is in the log; others get an error, and once the disk is well the log goes on."""
    faults = Faults(call, file, code, after)
    with disk(faults):
        store = await CachedStore.open(await SQLLog.open(url_in(tmp_path), CLOCK), CLOCK)
        first, refused = await write_some(store, "before", 8)
        assert not refused
        faults.on = True
        second, refused = await write_some(store, "meanwhile", 12)
        faults.on = False
        third, refused_later = await write_some(store, "after", 8)
        assert refused_later == 0
        assert store.log.healthy if hasattr(store, "log") else True
        events = await every_event(store._log)
        acknowledged = [*first, *second, *third]
        print(call, file, code, after, "hits", faults.hits, "refused", refused)
        await agree(store, events, acknowledged)
        await store.close()
    again = await CachedStore.open(await SQLLog.open(url_in(tmp_path), CLOCK), CLOCK)
    await agree(again, await every_event(again._log), acknowledged)
    await again.close()
    async with await LogReader.open(url_in(tmp_path)) as reader:
        assert (await reader.replay()).differences == []
    with closing(sqlite3.connect(tmp_path / DATABASE)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def agree(store: CachedStore, events: list[Event], acknowledged: list[Event]) -> None:
    assert [event.revision for event in events] == list(range(2, len(events) + 2))
    known = {event.revision: event for event in events}
    assert [event for event in acknowledged if known.get(event.revision) != event] == []
    assert digest(store.list("pods").entries) == digest(fold(events).values())
