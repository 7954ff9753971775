"""The log as a worker has it: read from the database by itself, written by one process for all workers.

Every commit comes from the writer, in order, so that a worker need not read what others wrote. It may come a
moment later than the database shows it; and none comes while the writer is started again, nor of what the
servers of other components write. What is missed is read from the database, as in any set of servers.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Self

from kubeskew.apiserver.storage.forwarding.frames import Door
from kubeskew.apiserver.storage.forwarding.link import Answer, WriterLink
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.operations import Metadata, newest
from kubeskew.apiserver.storage.projection import check
from kubeskew.apiserver.storage.records import (
    Author,
    Change,
    ComponentEvent,
    Event,
    Lease,
    Place,
    Transaction,
)
from kubeskew.apiserver.storage.sql_log import LogReads, open_database
from kubeskew.apiserver.storage.statements import Database
from kubeskew.apiserver.storage.watches import Window

ARRIVAL_SECONDS = 0.005  # to wait for a commit that the database shows already

Listener = Callable[[Sequence[Event]], None]


class ForwardingLog(LogReads):
    """Implements `interfaces.Log`."""

    def __init__(self, database: Database, floor: int, link: WriterLink) -> None:
        super().__init__(database)
        self._floor = floor
        self._link = link
        self._listeners: list[Listener] = []
        self._window = Window(0)  # what has come without a gap, up to `_newest`
        self._newest = 0
        self._awaited = 0  # the revision that was last waited for
        self._holders = 0  # of locks, so far
        self._arrivals: dict[asyncio.Future[None], int] = {}
        link.came, link.find, link.read = self._came, self._find, self._read

    @classmethod
    async def open(cls, url: str, door: Door) -> Self:
        """Raises StorageError, also if no writer comes."""
        link = WriterLink(door)
        try:
            await link.join()  # it has given the database its schema
            database = await open_database(url)
        except BaseException:
            await link.close()
            raise
        return cls(database, (await database.read(Metadata.read)).floor, link)

    @property
    def healthy(self) -> bool:
        return self._link.up and not self._link.refused and self._database.there

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    # What the writer has written

    def _came(self, events: Sequence[Event]) -> None:
        first = events[0].revision - 1
        if first != self._newest:
            self._window = Window(first)
        self._window.extend(events)
        self._newest = events[-1].revision
        for listener in self._listeners:
            listener(events)
        for waiter, revision in self._arrivals.items():
            if revision <= self._newest and not waiter.done():
                waiter.set_result(None)

    def _find(self, place: Place) -> Event | None:
        revision, sub = place
        if not self._window.start < revision <= self._newest:
            return None
        return next(event for event in self._window.since(revision - 1) if event.sub == sub)

    async def _read(self, place: Place) -> Event:
        revision, sub = place
        events = await super().after(revision - 1, 1, until=revision)
        return next(event for event in events if event.sub == sub)

    # Writing

    async def append(self, change: Change) -> Event:
        check(change)
        event: Event = await self._link.send("write", change)
        return event

    async def transact(self, transaction: Transaction) -> tuple[int, Sequence[Event]]:
        check(transaction)
        written: tuple[int, Sequence[Event]] = await self._link.send("write", transaction)
        return written

    async def attribute(self, authors: Sequence[tuple[Place, Author]]) -> None:
        await self._call("attribute", authors)

    async def grant(self, lease: Lease) -> Lease | None:
        granted: Lease | None = await self._call("grant", lease)
        return granted

    async def renew(self, leases: Sequence[int], time: datetime) -> Mapping[int, int]:
        renewed: Mapping[int, int] = await self._call("renew", leases, time)
        return renewed

    async def compact(self, revision: int) -> None:
        await self._call("compact", revision)

    async def record(self, event: ComponentEvent) -> None:
        await self._call("record", event)

    async def _call(self, method: str, *arguments: Any) -> Any:
        return await self._link.send("call", method, arguments)

    # The other workers

    def answer(self, answer: Answer) -> None:
        """Has what other workers ask answered."""
        self._link.answer = answer

    async def ask(self, question: str) -> Sequence[Any]:
        """The answers of the other workers that have one in time; none without a writer."""
        if not self._link.up:
            return ()
        try:
            answers: Sequence[Any] = await self._link.send("ask", question)
        except StorageError:
            return ()
        return answers

    @asynccontextmanager
    async def exclusive(self, name: str) -> AsyncIterator[None]:
        self._holders += 1
        holder = self._holders
        try:
            await self._link.send("lock", name, holder)
            yield
        finally:  # also one that is cancelled while it waits: else it would be given the lock, and keep it
            self._link.tell("unlock", name, holder)

    # Reading

    async def revision(self) -> int:
        seen = await self._database.newest()
        if seen is None:
            return await self._database.read(newest)
        if seen > max(self._newest, self._awaited) and self._newest and self._link.up:
            await self._arrival(seen)
            self._awaited = seen  # what another server wrote does not come from this one's writer
        return max(int(seen), self._floor)

    async def _arrival(self, revision: int) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals[waiter] = revision
        try:
            await asyncio.wait({waiter}, timeout=ARRIVAL_SECONDS)
        finally:
            del self._arrivals[waiter]

    async def after(
        self, revision: int, limit: int, *, until: int | None = None, resource: str | None = None
    ) -> Sequence[Event]:
        events = await super().after(revision, limit, until=until, resource=resource)
        if resource is None and until is None and events:
            asyncio.get_running_loop().call_soon(self._go_on, events[-1].revision)
        return events

    def _go_on(self, revision: int) -> None:
        """Gives again what has come meanwhile to those who have read up to `revision`: else they would miss
        that, too, and would have to read for ever.
        """
        if self._window.start <= revision < self._newest:
            events = self._window.since(revision)
            for listener in self._listeners:
                listener(events)

    async def close(self) -> None:
        await self._link.close()
        await self._database.close()
