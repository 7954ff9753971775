"""Brief transactions run on the caller's thread, unless the disk is slow or another process writes."""

import threading
from contextlib import suppress

import pytest

from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.sqlite import database as module
from kubeskew.apiserver.storage.sqlite.database import BRIEF_TRANSACTIONS, SQLiteDatabase
from kubeskew.apiserver.storage.statements import Session


@pytest.fixture
async def database(tmp_path):
    opened = await SQLiteDatabase.open(f"sqlite:///{tmp_path / 'events.db'}")
    yield opened
    await opened.close()


def put(name: str):
    """Work that notes where it runs."""

    def work(session: Session) -> int:
        session.run("put_meta", name=name, value="x")
        return threading.get_ident()

    return work


async def names(database: SQLiteDatabase) -> list[str]:
    rows = await database.read(lambda session: session.all("meta"))
    return sorted(name for name, _ in rows if name.startswith("w"))


async def test_they_run_on_the_callers_thread(database):
    """A brief transaction is made without a hop, and other connections see it."""
    assert await database.write_briefly(put("w1")) == threading.get_ident()
    assert await names(database) == ["w1"]


async def test_one_of_many_hops(database):
    """The connection that takes in the write-ahead log commits again and again."""
    threads = [await database.write_briefly(put(f"w{number}")) for number in range(BRIEF_TRANSACTIONS + 2)]
    here = [thread == threading.get_ident() for thread in threads]
    assert here == [True] * BRIEF_TRANSACTIONS + [False, True]


async def test_a_slow_disk_makes_them_hop(database, monkeypatch):
    """While commits take long, they hold up the database's thread alone, for a while."""
    monkeypatch.setattr(module, "stopwatch", lambda: lambda: 1.0)
    monkeypatch.setattr(module, "HOPPING_TRANSACTIONS", 2)
    threads = [await database.write_briefly(put(f"w{number}")) for number in range(4)]
    assert [thread == threading.get_ident() for thread in threads] == [True, False, False, True]


async def test_they_wait_for_other_writers_in_the_databases_thread(database):
    """A brief transaction that another connection holds up is made once that one has committed, and the
    caller's thread goes on meanwhile."""
    other = database._open_raw(0.0)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.01, lambda: other.execute("COMMIT"))
    timer.start()
    assert await database.write_briefly(put("w1")) != threading.get_ident()
    timer.join()
    other.close()
    assert await names(database) == ["w1"]


async def test_what_fails_leaves_nothing(database):
    """Neither an error of the work nor one of the database leaves a transaction open."""

    def failing(session: Session) -> None:
        session.run("put_meta", name="w1", value="x")
        raise KeyError("no such thing")

    with pytest.raises(KeyError):
        await database.write_briefly(failing)
    with pytest.raises(StorageError):
        await database.write_briefly(lambda session: session.run("put_meta", name="w2", value=object()))
    await database.write_briefly(put("w3"))
    assert await names(database) == ["w3"]


async def test_nothing_is_written_into_a_file_that_is_gone(database, tmp_path):
    """A brief transaction is refused, as any other, once the file was removed."""
    (tmp_path / "events.db").unlink()
    with pytest.raises(StorageError, match="was removed or replaced"):
        await database.write_briefly(put("w1"))
    with suppress(StorageError):
        await database.close()
