"""Keeps the log of a cluster in memory as it grows, and finds any object at any revision."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, suppress

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.interfaces import CompactedError, StorageError
from kubeskew.apiserver.storage.sql_log import LogReader
from kubeskew.conformance.evidence.log import Logged, Write
from kubeskew.conformance.evidence.rows import logged

Key = tuple[str, str, str]  # resource, namespace, name

_CHECK_SECONDS = 2.0  # between checks for another store, as after a rewind
_AGAIN_SECONDS = 0.5


class Recording:
    """`problem` says why the log cannot be read now.

    `url` returns the place of the log, which a rewind may change.
    """

    def __init__(self, url: Callable[[], str], clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._store = ""
        self.problem = ""
        self._grown = asyncio.Event()
        self._forget()

    def _forget(self) -> None:
        self.entries: list[Logged] = []
        self._writes: dict[Key, list[Write]] = {}
        self._revisions: list[int] = []  # of the entries
        self._grown.set()

    async def follow(self) -> None:
        """Reads the log as it grows; does not end. A replaced store, or one at another URL, is read from its
        beginning.
        """
        while True:
            try:
                await self._follow_store()
            except (StorageError, CompactedError) as error:
                self.problem = f"cannot read the log: {error}"
            await self._clock.sleep(_AGAIN_SECONDS)

    async def _follow_store(self) -> None:
        """Ends when the store is replaced."""
        async with await LogReader.open(self._url()) as reader:
            self._store, self.problem = await reader.store_id(), ""
            self._forget()
            reading = asyncio.ensure_future(self._read(reader))
            try:
                while not reading.done():
                    await self._clock.sleep(_CHECK_SECONDS)
                    if await self._store_id() != self._store:
                        return
                await reading
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError, StorageError, CompactedError):
                    await reading

    async def _store_id(self) -> str:
        async with await LogReader.open(self._url()) as reader:
            return await reader.store_id()

    async def _read(self, reader: LogReader) -> None:
        async with aclosing(logged(reader.follow(self._clock))) as entries:
            async for entry in entries:
                self.add(entry)

    def add(self, entry: Logged) -> None:
        self.entries.append(entry)
        self._revisions.append(entry.revision)
        if isinstance(entry, Write):
            self._writes.setdefault((entry.resource, entry.namespace, entry.name), []).append(entry)
        self._grown.set()

    async def grown(self, count: int, seconds: float) -> int:
        """Waits until the number of entries differs from `count`, at most `seconds`; the number
        is returned.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self.entries) == count:
                    self._grown.clear()
                    await self._grown.wait()
        return len(self.entries)

    @property
    def newest(self) -> int:
        return self._revisions[-1] if self._revisions else 0

    @property
    def oldest(self) -> int:
        return self._revisions[0] if self._revisions else 0

    def at_time(self, time: str) -> int:
        """Newest revision that is not younger than the time."""
        index = bisect_right(self.entries, time, key=lambda entry: entry.time)
        return self._revisions[max(index - 1, 0)] if self._revisions else 0

    def time_of(self, revision: int) -> str:
        """Entries newer than the revision do not count."""
        index = bisect_right(self._revisions, revision)
        return self.entries[max(index - 1, 0)].time if self.entries else ""

    def entries_at(self, revision: int) -> Sequence[Logged]:
        """Component events belong to the revision of the write before them."""
        return self.entries[bisect_left(self._revisions, revision) : bisect_right(self._revisions, revision)]

    def history(self, key: Key) -> Sequence[Write]:
        """Oldest first."""
        return self._writes.get(key, ())

    def last_write(self, key: Key, revision: int) -> Write | None:
        """Deletions are writes, too; None before the first one."""
        writes = self.history(key)
        index = bisect_right(writes, revision, key=lambda write: write.revision)
        return writes[index - 1] if index else None

    def objects(self, revision: int) -> Iterator[Write]:
        """Objects that exist at the revision have their last write here, by resource and name."""
        for key in sorted(self._writes):
            write = self.last_write(key, revision)
            if write is not None and write.verb != "delete":
                yield write
