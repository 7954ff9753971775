"""Builders for changes, and stores to open: for the tests of the event store."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.forwarding.forwarding_log import ForwardingLog
from kubeskew.apiserver.storage.forwarding.frames import Door
from kubeskew.apiserver.storage.forwarding.log_writer import LogWriter
from kubeskew.apiserver.storage.interfaces import Log
from kubeskew.apiserver.storage.memory_log import MemoryLog
from kubeskew.apiserver.storage.records import Author, Change, Entry, Event, Key, Verb
from kubeskew.apiserver.storage.sql_log import SQLLog

CLOCK = SystemClock()
START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
AUTHOR = Author("system:admin", "kubectl", "1.36", "1.35", "request-1")

Opener = Callable[[], Awaitable[Log]]


def pod(name: str = "a", namespace: str = "default") -> Key:
    return Key("pods", namespace, name)


def create(key: Key, value: bytes = b"1", uid: str = "u1") -> Change:
    return Change(Verb.CREATE, key, uid, value, 0, AUTHOR, START)


def update(of: Event | Entry, value: bytes = b"2", expected: int | None = None) -> Change:
    wanted = of.revision if expected is None else expected
    return Change(Verb.UPDATE, of.key, of.uid, value, wanted, AUTHOR, START + timedelta(seconds=1))


def delete(of: Event | Entry, expected: int | None = None) -> Change:
    wanted = of.revision if expected is None else expected
    return Change(Verb.DELETE, of.key, of.uid, of.value, wanted, AUTHOR, START)


async def every_event(log: Log, since: int = 0) -> list[Event]:
    return list(await log.after(since, 1_000_000))


def opener(kind: str, directory: Any) -> Opener:
    """Opens a log of `kind`: the same one every time if it is a file."""
    if kind == "model":
        return _model
    if kind == "forwarded":
        return lambda: Forwarded.open(url_in(directory))
    url = "sqlite+aiosqlite://" if kind == "memory" else url_in(directory)
    return lambda: SQLLog.open(url, CLOCK)


class Forwarded(ForwardingLog):
    """The log of a worker, with the writer that it needs in the same process."""

    @classmethod
    async def open(cls, url: str, door: Door | None = None) -> Self:
        door = Door()
        written = await SQLLog.open(url, CLOCK)
        writer = LogWriter(written, door)
        writer.start()
        opened = await super().open(url, door)
        opened.rest = door, writer, written
        return opened

    async def close(self) -> None:
        await super().close()
        rest, self.rest = self.rest, ()
        if rest:
            door, writer, written = rest
            await writer.close()
            door.close()
            await written.close()


async def _model() -> Log:
    return MemoryLog()


def url_in(directory: Any) -> str:
    return f"sqlite+aiosqlite:///{directory / 'events.db'}"
