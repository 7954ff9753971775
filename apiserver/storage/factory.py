"""Access to the log at a URL, to write it or to read it from outside: in SQL, or in memory."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.interfaces import Log, StorageError
from kubeskew.apiserver.storage.memory_log import MemoryLog, MemoryReader, MemoryRecords
from kubeskew.apiserver.storage.records import EMPTY_REVISION, Branch, ComponentEvent, Entry, Moment
from kubeskew.apiserver.storage.urls import POSTGRESQL, backend_of, without_password

if TYPE_CHECKING:  # SQLAlchemy takes a third of the time in which a command is imported
    from kubeskew.apiserver.storage.integrity import Repair


class Reader(Protocol):
    """Reads a log that servers may be writing."""

    async def revision(self) -> int: ...

    async def entries(self) -> Sequence[Entry]: ...

    def events(self, since: int = 0, resource: str | None = None) -> AsyncIterator[Moment]:
        """Merges events newer than `since`, of `resource` or of all, and component events, in the order of
        time. Raises CompactedError.
        """
        ...

    async def horizon(self) -> int:
        """All successors of this revision are known."""
        ...

    async def timeline(self) -> Sequence[ComponentEvent]:
        """The oldest event comes first."""
        ...

    async def hashes(self) -> tuple[str, str]:
        """Both are SHA-256: of the objects that the log comes to, and of the table of objects."""
        ...

    async def close(self) -> None: ...


class Storage(Protocol):
    async def log(self, url: str, clock: Clock) -> Log:
        """Creates the log if there is none. Raises StorageError."""
        ...

    async def reader(self, url: str) -> Reader:
        """Read-only. Raises StorageError, also if there is no log."""
        ...

    async def branch(self, url: str, target: str, note: ComponentEvent) -> Branch:
        """Copies a log up to the note's revision to another URL, where there is none, and puts the note after
        it.

        The first log does not change. Raises CompactedError, FutureRevisionError, StorageError.
        """
        ...

    async def succeed(self, url: str, target: str, note: ComponentEvent) -> str:
        """Copies a log up to the note's revision, as `branch` does, to the place of its successor; returns
        the URL there: `target`, if the log at `url` is in a file.
        """
        ...

    async def claim(self, url: str, clock: Clock) -> None:
        """Creates the log at a URL. Raises StorageError, also if there is one that has been written."""
        ...

    async def repair(self, url: str, now: datetime) -> "tuple[str, Repair]":
        """Rebuilds the log at a URL, which no process has open, from its events; returns the URL of the new
        one.

        The damaged log is kept: next to the new one if it is a file, or at its URL. Raises StorageError.
        """
        ...

    async def remove(self, url: str) -> None:
        """Removes the log at a URL that is no file's. Raises StorageError."""
        ...


class SQLStorage:
    """Keeps each log in the database of its URL."""

    async def log(self, url: str, clock: Clock) -> Log:
        from kubeskew.apiserver.storage.sql_log import SQLLog

        return await SQLLog.open(url, clock)

    async def reader(self, url: str) -> Reader:
        from kubeskew.apiserver.storage.sql_log import LogReader

        return await LogReader.open(url)

    async def branch(self, url: str, target: str, note: ComponentEvent) -> Branch:
        from kubeskew.apiserver.storage.sqlite.database import path_of

        if backend_of(url) == POSTGRESQL:
            from kubeskew.apiserver.storage.postgresql.maintenance import branch_to_file

            return await branch_to_file(url, path_of(target), note)
        from kubeskew.apiserver.storage.sqlite.maintenance import branch

        return await asyncio.to_thread(branch, path_of(url), path_of(target), note)

    async def succeed(self, url: str, target: str, note: ComponentEvent) -> str:
        if backend_of(url) == POSTGRESQL:
            from kubeskew.apiserver.storage.postgresql.maintenance import branch_into_schema

            return (await branch_into_schema(url, note))[0]
        await self.branch(url, target, note)
        return target

    async def claim(self, url: str, clock: Clock) -> None:
        log = await self.log(url, clock)
        try:
            revision = await log.revision()
            if revision > EMPTY_REVISION or await log.timeline():
                raise StorageError(
                    f"{without_password(url)} has the log of another cluster, up to revision {revision}: "
                    "name an empty database or schema"
                )
        finally:
            await log.close()

    async def repair(self, url: str, now: datetime) -> "tuple[str, Repair]":
        if backend_of(url) == POSTGRESQL:
            from kubeskew.apiserver.storage.postgresql.maintenance import repair_into_schema

            return await repair_into_schema(url, now)
        from kubeskew.apiserver.storage.sqlite.database import path_of
        from kubeskew.apiserver.storage.sqlite.maintenance import repair

        return url, await asyncio.to_thread(repair, path_of(url))

    async def remove(self, url: str) -> None:
        from kubeskew.apiserver.storage.postgresql.maintenance import remove

        await remove(url)


class MemoryStorage:
    """Logs in memory outlive the servers that open them. `shared`: several servers write one log."""

    def __init__(self, *, shared: bool = False) -> None:
        self.shared = shared
        self._records: dict[str, MemoryRecords] = {}

    def records(self, url: str) -> MemoryRecords:
        """Creates the records of a URL that has none."""
        return self._records.setdefault(url, MemoryRecords())

    def only(self) -> MemoryRecords:
        """Raises ValueError unless there is exactly one log."""
        (records,) = self._records.values()
        return records

    def all(self) -> Sequence[MemoryRecords]:
        """The oldest records come first."""
        return [*self._records.values()]

    async def log(self, url: str, clock: Clock) -> Log:
        return MemoryLog(self.records(url), shared=self.shared)

    async def reader(self, url: str) -> Reader:
        return MemoryReader(self.records(url))

    async def branch(self, url: str, target: str, note: ComponentEvent) -> Branch:
        self._records[target] = records = self.records(url).branched(note)
        newest = self.records(url).newest
        return Branch(note.revision, len(records.events), len(records.objects()), newest)

    async def succeed(self, url: str, target: str, note: ComponentEvent) -> str:
        await self.branch(url, target, note)
        return target

    async def claim(self, url: str, clock: Clock) -> None:
        """Any URL has a log: nothing to do."""

    async def repair(self, url: str, now: datetime) -> "tuple[str, Repair]":
        raise StorageError("a log in memory is not damaged")

    async def remove(self, url: str) -> None:
        self._records.pop(url, None)
