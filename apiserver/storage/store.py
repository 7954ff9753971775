"""Keeps the log's projection in memory, up to date, and watches over it.

Writes go to the log, whose listener brings them back in revision order; what other servers write is noticed
by `refresh`, which every consistent read calls, and by a tail, so that watches see it too.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Self

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.compare_and_swap import after as state_after
from kubeskew.apiserver.storage.event_window import Window
from kubeskew.apiserver.storage.failures import CompactedError, FutureRevisionError, StorageError
from kubeskew.apiserver.storage.interfaces import Log
from kubeskew.apiserver.storage.object_index import Matches, ResourceIndex, overlay, page
from kubeskew.apiserver.storage.records import Change, Entry, Event, Key, Page
from kubeskew.apiserver.storage.watching import Cursor, Watches

CATCH_UP_EVENTS = 1000  # per read of the log

Append = Callable[[Change], Awaitable[Event]]
Commit = Callable[[Change, Append], Awaitable[Event]]

logger = logging.getLogger(__name__)


class CachedStore:
    """Implements `interfaces.Store` over a `Log`, which it owns."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self.received: dict[str, int] = {}  # events, by resource
        self.commit: Commit | None = None  # appends to the log instead, where a server has faults
        self._log = log
        self._clock = clock
        self._revision = 0
        self._indexes: dict[str, ResourceIndex] = {}
        self._window = Window(0)
        self._watches = Watches()
        self._compacted = 0
        self._horizons: dict[str, int] = {}
        self._refilled: dict[str, int] = {}
        self._loads = 0  # how often memory was filled from the log
        self._refills: Counter[str] = Counter()
        self._filled_with: Counter[str] = Counter()  # objects, by resource
        self._changed: dict[str, int] = {}
        self._followers: dict[str, list[Callable[[Key], None]]] = {}
        self._loaded = 0  # the revision that memory was filled at
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._catching_up = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    @classmethod
    async def open(cls, log: Log, clock: Clock) -> Self:
        """Returns the store over `log`, at its newest revision. Raises StorageError."""
        store = cls(log, clock)
        log.subscribe(store._committed)
        await store._load()
        if log.shared:
            store._tasks.append(asyncio.create_task(store._tail(), name="log tail"))
        return store

    async def _load(self) -> None:
        """Takes the projection as it stands in the log, and nothing from before, in one step."""
        compacted = await self._log.compacted()
        revision, entries = await self._log.entries()
        self._compacted = compacted
        by_resource: dict[str, list[Entry]] = {}
        for entry in entries:
            by_resource.setdefault(entry.key.resource, []).append(entry)
        before, self._indexes = self._indexes, {resource: ResourceIndex() for resource in by_resource}
        for resource, found in by_resource.items():
            self._indexes[resource].load(found)
            self._filled_with[resource] += len(found)
        self._loads += 1
        for resource, followers in self._followers.items():
            for indexes in (before.get(resource), self._indexes.get(resource)):
                for entry in chain.from_iterable(indexes.following(None, None)) if indexes else ():
                    for tell in followers:
                        tell(entry.key)
        self._window = Window(revision)
        self._changed, self._loaded = {}, revision
        self._advance(revision)

    # What is there

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def window(self) -> Window:
        """Returns the recent events, for the cursors."""
        return self._window

    def get(self, key: Key) -> Entry | None:
        indexes = self._indexes.get(key.resource)
        return indexes.get(key.namespace, key.name) if indexes else None

    def list(
        self,
        resource: str,
        namespace: str | None = None,
        after: Key | None = None,
        limit: int = 0,
        matches: Matches | None = None,
    ) -> Page:
        indexes = self._indexes.get(resource)
        if indexes is None:
            return Page(self._revision, [])
        return page(indexes, self._revision, namespace, after, limit, matches)

    def changed(self, resource: str) -> int:
        return self._changed.get(resource, self._loaded)

    def follow(self, resource: str, listener: Callable[[Key], None]) -> None:
        self._followers.setdefault(resource, []).append(listener)

    async def list_at(
        self,
        revision: int,
        resource: str,
        namespace: str | None = None,
        after: Key | None = None,
        limit: int = 0,
        matches: Matches | None = None,
    ) -> Page:
        self._check(revision, resource)
        if revision == self._revision:
            return self.list(resource, namespace, after, limit, matches)
        if revision >= self._window.start:
            current = self._indexes.get(resource) or ResourceIndex()
            changed = self._window.undone(revision, resource, namespace)
            then = overlay(current, changed, namespace) if changed else current
        else:
            then = ResourceIndex()
            then.load(await self._log.at(revision, resource, namespace))
        return page(then, revision, namespace, after, limit, matches)

    def _check(self, revision: int, resource: str) -> None:
        horizon = self.horizon(resource)
        if revision < horizon:
            raise CompactedError(revision, horizon)
        if revision > self._revision:
            raise FutureRevisionError(revision, self._revision)

    # Writing, and learning what was written

    async def write(self, change: Change) -> Event:
        if self.commit is None:
            event = await self._log.append(change)
        else:
            event = await self.commit(change, self._log.append)
        if self._revision < event.revision:  # another server wrote in between: its events come first
            await self._catch_up(event.revision)
        return event

    async def refresh(self) -> int:
        newest = await self._log.revision()
        if newest > self._revision:
            await self._catch_up(newest)
        return self._revision

    async def wait_for(self, revision: int, timeout: float) -> None:
        if await self.refresh() >= revision:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, waiter))
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            raise FutureRevisionError(revision, self._revision) from None
        finally:
            self._waiters.remove((revision, waiter))

    def _committed(self, events: Sequence[Event]) -> None:
        """Applies the events that this server wrote. If another has written in between, the log is read
        instead.
        """
        if events[0].revision <= self._revision + 1:
            self._apply(events)

    async def _catch_up(self, target: int) -> None:
        async with self._catching_up:
            while self._revision < target:
                try:
                    events = await self._log.after(self._revision, CATCH_UP_EVENTS)
                except CompactedError as error:
                    await self._start_over(error)
                    continue
                if not events and self._revision < target:
                    raise StorageError(f"the log ends before revision {target}")
                self._apply(events)

    async def _start_over(self, error: CompactedError) -> None:
        """Loads anew after this server slept through a compaction: only what is can be told, not what
        happened.
        """
        await self._load()
        for cursor in self._watches:  # those too that began while the log was read
            cursor.end(error)

    def _apply(self, events: Sequence[Event]) -> None:
        """Brings memory up to date; events that are known already are skipped. Does not yield."""
        fresh = [event for event in events if event.revision > self._revision]
        if not fresh:
            return
        for event in fresh:
            self._put(event.key, state_after(event))
            resource = event.key.resource
            self._changed[resource] = event.revision
            self.received[resource] = self.received.get(resource, 0) + 1
            for tell in self._followers.get(event.key.resource, ()):
                tell(event.key)
        self._window.extend(fresh)
        self._revision = fresh[-1].revision
        for event in fresh:
            self._watches.publish(event)
        self._advance(self._revision)

    def _put(self, key: Key, entry: Entry | None) -> None:
        indexes = self._indexes.get(key.resource)
        if entry is None:
            if indexes is not None:
                indexes.remove(key)
            return
        if indexes is None:
            indexes = self._indexes[key.resource] = ResourceIndex()
        indexes.put(entry)

    def _advance(self, revision: int) -> None:
        self._revision = revision
        for wanted, waiter in self._waiters:
            if wanted <= revision and not waiter.done():
                waiter.set_result(None)

    async def _tail(self) -> None:
        """Notices what other servers write."""
        while True:
            await self._log.wait_for_others(self._clock)
            try:
                await self.refresh()
            except StorageError as error:
                logger.warning("cannot follow the log: %s", error)
            except Exception:
                logger.exception("cannot follow the log")

    # Watching

    def watch(self, resource: str, namespace: str | None, name: str | None, since: int) -> Cursor:
        self._check(since, resource)
        if self._closed:
            raise StorageError("the store is closed")
        return Cursor(self, self._watches, (resource, namespace, name), since)

    async def older(self, revision: int, limit: int, until: int, resource: str) -> Sequence[Event]:
        """Returns events in (`revision`, `until`] from the log, for cursors that start behind the window."""
        return await self._log.after(revision, limit, until=until, resource=resource)

    # Forgetting

    def horizon(self, resource: str) -> int:
        return max(self._compacted, self._horizons.get(resource, 0))

    def cached_since(self, resource: str) -> int:
        return max(self._loaded, self._refilled.get(resource, 0), self._horizons.get(resource, 0))

    def refill(self, resource: str) -> None:
        self._refilled[resource] = self._revision
        self._refills[resource] += 1
        self._filled_with[resource] += len(self.list(resource).entries)

    def fillings(self, resource: str) -> tuple[int, int]:
        return self._loads + self._refills[resource], self._filled_with[resource]

    def raise_horizon(self, resource: str, revision: int) -> None:
        self._horizons[resource] = max(revision, self._horizons.get(resource, 0))

    async def compact(self, revision: int) -> None:
        await self._log.compact(revision)
        self._compacted = max(self._compacted, revision)

    # The end

    async def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        for cursor in self._watches:
            cursor.close()
        await self._log.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
