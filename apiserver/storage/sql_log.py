"""Keeps the log in SQL: appends grouped into transactions, and reads of one snapshot each.

One task writes. It takes whatever has queued up while the transaction before was committing, so that the
busier the server is the more writes share one `fsync`, and a lone write waits for nobody.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Self

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage import verifying
from kubeskew.apiserver.storage.committing import commit
from kubeskew.apiserver.storage.compare_and_swap import Outcome, check
from kubeskew.apiserver.storage.databases import open_database
from kubeskew.apiserver.storage.failures import DamageError, StorageError
from kubeskew.apiserver.storage.metadata import Metadata
from kubeskew.apiserver.storage.operations import (
    NO_LIMIT,
    compact_some,
    compacted,
    entries_at,
    events_after,
    name_store,
    newest,
    record,
)
from kubeskew.apiserver.storage.records import Change, ComponentEvent, Entry, Event
from kubeskew.apiserver.storage.sessions import Database
from kubeskew.apiserver.storage.statements import component_event_of

BATCH_CHANGES_MAX = 256  # per transaction
BATCH_BYTES_MAX = 8 << 20  # of values per transaction, so that a few huge objects do not hold up the rest
GATHER_SECONDS = 0.003  # how long a busy server collects changes for a transaction

logger = logging.getLogger(__name__)

Listener = Callable[[Sequence[Event]], None]
Waiting = tuple[Change, asyncio.Future[Event]]


class SQLLog:
    """Implements `interfaces.Log` over a database."""

    def __init__(self, database: Database, floor: int, newest: int) -> None:
        self._database = database
        self._floor = floor  # what revisions count on from at least
        self._published = newest  # the newest revision that the listener has been told
        self._listener: Listener | None = None
        self._queue: deque[Waiting] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()  # no transaction of ours is under way
        self._idle.set()
        self._closing = False
        self._refused = False  # the last transaction, by the database
        self._writer = asyncio.create_task(self._write(), name="event log writer")

    @classmethod
    async def open(cls, url: str, clock: Clock) -> Self:
        """Returns the log in the database of `url` (`sqlite+aiosqlite:///FILE`, `postgresql://HOST/NAME`),
        made if there is none.

        Raises StorageError; DamageError if there was one that is gone.
        """
        database = await open_database(url)
        try:
            metadata = await database.read(Metadata.read)
            if not metadata.store_id:
                born = f"{database.place}\0{clock.now()}"
                await database.write(lambda session: name_store(session, born))
            return cls(database, metadata.floor, await database.read(newest))
        except BaseException:
            await database.close()
            raise

    @property
    def shared(self) -> bool:
        return self._database.shared

    @property
    def healthy(self) -> bool:
        return not self._refused and not self._writer.done() and self._database.there

    def subscribe(self, listener: Listener) -> None:
        self._listener = listener

    async def append(self, change: Change) -> Event:
        check(change)
        if self._closing:
            raise StorageError("the store is closed")
        waiter: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._queue.append((change, waiter))
        self._wake.set()
        return await waiter

    async def _write(self) -> None:
        while not (self._closing and not self._queue):
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._gather()
                batch = self._take()
                self._idle.clear()
                await self._commit(batch)
                self._idle.set()

    async def _gather(self) -> None:
        """Lets the requests that are ready come along, as long as each turn of the loop brings more of them.

        A transaction costs what ten changes in it cost. A lone change waits for one turn of an idle loop.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + GATHER_SECONDS
        waiting = 0
        while waiting < len(self._queue) < BATCH_CHANGES_MAX and loop.time() < end:
            waiting = len(self._queue)
            await asyncio.sleep(0)

    def _take(self) -> list[Waiting]:
        """Returns the next batch; whoever has stopped waiting before his turn is left out."""
        batch: list[Waiting] = []
        size = 0
        while self._queue and len(batch) < BATCH_CHANGES_MAX and size < BATCH_BYTES_MAX:
            change, waiter = self._queue.popleft()
            if not waiter.done():
                batch.append((change, waiter))
                size += len(change.value)
        return batch

    async def _commit(self, batch: list[Waiting]) -> None:
        changes = [change for change, _ in batch]
        try:
            floor, known = self._floor, self._published
            outcomes = await self._database.write(lambda session: commit(session, changes, floor, known))
            events = [outcome for outcome in outcomes if isinstance(outcome, Event)]
            if events:
                self._database.note(events[-1].revision)
        except StorageError as error:
            await self._failed(batch, error)
            return
        except Exception as error:
            await self._failed(batch, StorageError(repr(error)))
            return
        self._refused = False
        self._publish(events)
        for (_, waiter), outcome in zip(batch, outcomes, strict=True):
            _settle(waiter, outcome)

    async def _failed(self, batch: list[Waiting], error: StorageError) -> None:
        """Tells the waiters; but if it was one change that SQL cannot take, spares the others."""
        if len(batch) > 1 and not error.refused:
            for change in batch:
                await self._commit([change])
            return
        self._refused = error.refused or isinstance(error, DamageError)
        for _, waiter in batch:
            _settle(waiter, error)

    def _publish(self, events: Sequence[Event]) -> None:
        if events:
            self._published = events[-1].revision
            if self._listener is not None:
                try:
                    self._listener(events)
                except Exception:  # the events are written, and whoever listens can read them again
                    logger.exception("the log's listener failed")

    async def revision(self) -> int:
        if not self.shared:
            return self._published
        seen = await self._database.newest()
        if seen is None:
            return await self._database.read(newest)
        if seen > self._published and not self._idle.is_set():
            await self._idle.wait()  # most likely our own commit, on its way to the listener
        return max(int(seen), self._floor)

    async def wait_for_others(self, clock: Clock) -> None:
        await self._database.wait_for_others(clock)

    async def after(
        self, revision: int, limit: int, *, until: int | None = None, resource: str | None = None
    ) -> Sequence[Event]:
        end = NO_LIMIT if until is None else until
        return await self._database.read(
            lambda session: events_after(session, revision, limit, end, resource)
        )

    async def compacted(self) -> int:
        return await self._database.read(compacted)

    async def entries(self) -> tuple[int, Sequence[Entry]]:
        mark = self._database.committed()  # before the snapshot is taken, which may be newer
        return await self._database.read(lambda session: verifying.load(session, mark))

    async def at(self, revision: int, resource: str, namespace: str | None = None) -> Sequence[Entry]:
        return await self._database.read(lambda session: entries_at(session, revision, resource, namespace))

    async def compact(self, revision: int) -> None:
        while await self._database.write(lambda session: compact_some(session, revision)) < revision:
            pass

    async def record(self, event: ComponentEvent) -> None:
        await self._database.write(lambda session: record(session, event))

    async def timeline(self, since: int = 0) -> Sequence[ComponentEvent]:
        rows = await self._database.read(lambda session: session.all("timeline", since=since, seq=0))
        return [component_event_of(row) for row in rows]

    async def close(self) -> None:
        self._closing = True
        self._wake.set()
        await self._writer
        await self._database.close()


def _settle(waiter: asyncio.Future[Event], outcome: Outcome | StorageError) -> None:
    if waiter.done():  # cancelled meanwhile
        return
    if isinstance(outcome, Event):
        waiter.set_result(outcome)
    else:
        waiter.set_exception(outcome)
