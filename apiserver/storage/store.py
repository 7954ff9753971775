"""Store: the log's projection in memory, kept up to date, with an index in the order of lists.

The event loop alone changes them; a thread may read meanwhile (strategies of large objects do). It then sees
each object as it was or is, and may or may not see one that comes or goes. So a reader takes each step by
single, uninterrupted operations.

Writes go to the log, whose listener brings them back in revision order; what other servers write is noticed
by `refresh`, which every consistent read calls, and by a tail, so that watches see it too.
"""

import asyncio
import logging
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Self

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.interfaces import CompactedError, FutureRevisionError, Log, StorageError
from kubeskew.apiserver.storage.projection import after as state_after
from kubeskew.apiserver.storage.records import Change, Entry, Event, Key, Page
from kubeskew.apiserver.storage.watches import Cursor, Watches, Window

Matches = Callable[[Entry], bool]

STEP = 1000  # objects taken at once
_LAST_UID = "\U0010ffff"  # after any real one
CATCH_UP_EVENTS = 1000  # per read of the log

Append = Callable[[Change], Awaitable[Event]]
Commit = Callable[[Change, Append], Awaitable[Event]]

logger = logging.getLogger(__name__)


class NamespaceIndex:
    """Holds the objects of one namespace and resource, by name and in order.

        Writes find their place among the names, which is three times as fast; readers look at `ordered`
    alone.


    """

    __slots__ = ("_names", "entries", "ordered")

    def __init__(self, entries: Mapping[str, Entry] | None = None) -> None:
        self.entries: dict[str, Entry] = dict(entries or {})
        self._names = sorted(self.entries)
        self.ordered = [self.entries[name] for name in self._names]

    def put(self, entry: Entry) -> None:
        name = entry.key.name
        at = bisect_left(self._names, name)
        if name in self.entries:
            self.ordered[at] = entry
        else:
            self._names.insert(at, name)
            self.ordered.insert(at, entry)
        self.entries[name] = entry

    def remove(self, name: str) -> None:
        if self.entries.pop(name, None) is not None:
            at = bisect_left(self._names, name)
            del self._names[at]
            del self.ordered[at]

    def copy(self) -> "NamespaceIndex":
        copy = NamespaceIndex()
        copy.entries, copy._names, copy.ordered = self.entries.copy(), self._names.copy(), self.ordered.copy()
        return copy

    def behind(self, key: Key) -> int:
        return bisect_left(self.ordered, (key, _LAST_UID))


class ResourceIndex:
    """Holds the objects of one resource. Namespaces are in the order of `namespace/`, as etcd's keys are."""

    __slots__ = ("_indexes", "_order")

    def __init__(self) -> None:
        self._indexes: dict[str, NamespaceIndex] = {}
        self._order: list[str] = []  # of `namespace/`, "" for what has none

    def get(self, namespace: str, name: str) -> Entry | None:
        index = self._indexes.get(namespace)
        return index.entries.get(name) if index else None

    def put(self, entry: Entry) -> None:
        namespace = entry.key.namespace
        index = self._indexes.get(namespace)
        if index is None:
            index = self._indexes[namespace] = NamespaceIndex()
            insort(self._order, _prefix(namespace))
        index.put(entry)

    def remove(self, key: Key) -> None:
        index = self._indexes.get(key.namespace)
        if index is None:
            return
        index.remove(key.name)
        if not index.ordered:
            del self._indexes[key.namespace]
            del self._order[bisect_left(self._order, _prefix(key.namespace))]

    def load(self, entries: Iterable[Entry]) -> None:
        """Fills an empty index at once: it is sorted once, at the end."""
        found: dict[str, dict[str, Entry]] = {}
        for entry in entries:
            found.setdefault(entry.key.namespace, {})[entry.key.name] = entry
        self._indexes = {namespace: NamespaceIndex(named) for namespace, named in found.items()}
        self._order = sorted(map(_prefix, self._indexes))

    def copied(self, namespace: str | None) -> "ResourceIndex":
        """Copies one namespace, or all if it is None; the objects themselves are shared."""
        copy = ResourceIndex()
        wanted = list(self._indexes) if namespace is None else [namespace] * (namespace in self._indexes)
        for name in wanted:
            copy._indexes[name] = self._indexes[name].copy()
        copy._order = sorted(map(_prefix, wanted))
        return copy

    def following(self, namespace: str | None, after: Key | None) -> Iterator[Sequence[Entry]]:
        """Yields the objects of `namespace`, of all if None, after `after`: in order, at most STEP at a
        time.
        """
        if namespace is not None:
            yield from self._in(namespace, after)
            return
        start = 0
        if after is not None:
            yield from self._in(after.namespace, after)
            start = bisect_right(self._order, _prefix(after.namespace))
        for prefix in self._order[start:]:
            yield from self._in(prefix[:-1], None)

    def _in(self, namespace: str, after: Key | None) -> Iterator[Sequence[Entry]]:
        index = self._indexes.get(namespace)
        while index is not None:
            start = 0 if after is None else index.behind(after)
            part = index.ordered[start : start + STEP]
            yield part
            if len(part) < STEP:
                return
            after = part[-1].key

    def behind(self, namespace: str | None, last: Key) -> int:
        index = self._indexes.get(last.namespace)
        here = len(index.ordered) - index.behind(last) if index else 0
        if namespace is not None:
            return here
        start = bisect_right(self._order, _prefix(last.namespace))
        others = filter(None, (self._indexes.get(prefix[:-1]) for prefix in self._order[start:]))
        return here + sum(len(other.ordered) for other in others)


def _prefix(namespace: str) -> str:
    return f"{namespace}/"


def page(
    indexes: ResourceIndex,
    revision: int,
    namespace: str | None,
    after: Key | None,
    limit: int,
    matches: Matches | None,
) -> Page:
    """Begins after `after`: at most `limit` objects (0: all) that `matches`."""
    found: Iterable[Entry] = chain.from_iterable(indexes.following(namespace, after))
    if matches is not None:
        found = filter(matches, found)
    if not limit:
        return Page(revision, list(found))
    entries = list(islice(found, limit))
    if len(entries) < limit:
        return Page(revision, entries)
    last = entries[-1].key
    remaining = indexes.behind(namespace, last)
    return Page(revision, entries, last if remaining else None, remaining)


def overlay(
    indexes: ResourceIndex, changed: Mapping[Key, Entry | None], namespace: str | None
) -> ResourceIndex:
    """Copies `namespace` (all if None) with some objects as they are in `changed`; None means absent."""
    copy = indexes.copied(namespace)
    for key, entry in changed.items():
        if entry is None:
            copy.remove(key)
        else:
            copy.put(entry)
    return copy


class CachedStore:
    """Implements `interfaces.Store` over a `Log`, which it owns."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self.received: dict[str, int] = {}  # events, by resource
        self.shared_revisions: set[int] = set()
        self.commit: Commit | None = None  # appends to the log instead, where a server has faults
        self._log = log
        self._clock = clock
        self._revision = 0
        self._indexes: dict[str, ResourceIndex] = {}
        self._window = Window(0)
        self._watches = Watches()
        self._compacted = 0
        self._begun: dict[str, int] = {}
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
        """Starts at the log's newest revision. Raises StorageError."""
        store = cls(log, clock)
        log.subscribe(store._committed)
        await store._load()
        if log.shared:
            store._tasks.append(asyncio.create_task(store._tail(), name="log tail"))
        return store

    async def _load(self) -> None:
        """Takes the current projection of the log, without older events, in one step."""
        compacted = await self._log.compacted()
        revision, entries = await self._log.entries()
        self.shared_revisions.update(await self._log.shared_revisions())
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
                    for listener in followers:
                        listener(entry.key)
        self._window = Window(revision)
        self._changed, self._loaded = {}, revision
        self._advance(revision)

    # Reading

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def window(self) -> Window:
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
        self._check(revision)
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

    def _check(self, revision: int) -> None:
        if revision < self._compacted:
            raise CompactedError(revision, self._compacted)
        if revision > self._revision:
            raise FutureRevisionError(revision, self._revision)

    # Writing, and reading what others wrote

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
        """Applies the events that this server wrote. If another server has written in between, the log is
        read instead.
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
        """Loads again after this server slept through a compaction, and ends all watches: the events in
        between are gone.
        """
        await self._load()
        for cursor in self._watches:  # also those that began while the log was read
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
            if event.sub:
                self.shared_revisions.add(event.revision)
            self.received[resource] = self.received.get(resource, 0) + 1
            for listener in self._followers.get(event.key.resource, ()):
                listener(event.key)
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
        self._check(since)
        if self._closed:
            raise StorageError("the store is closed")
        return Cursor(self, self._watches, (resource, namespace, name), since)

    async def older(self, revision: int, limit: int, until: int, resource: str) -> Sequence[Event]:
        """Reads events in (`revision`, `until`] from the log, for cursors that start before the window."""
        return await self._log.after(revision, limit, until=until, resource=resource)

    # Forgetting

    def horizon(self) -> int:
        return self._compacted

    def cached_since(self, resource: str) -> int:
        return max(self._loaded, self._refilled.get(resource, 0), self._begun.get(resource, 0))

    def refill(self, resource: str) -> None:
        self._refilled[resource] = self._revision
        self._refills[resource] += 1
        self._filled_with[resource] += len(self.list(resource).entries)

    def fillings(self, resource: str) -> tuple[int, int]:
        return self._loads + self._refills[resource], self._filled_with[resource]

    def begin_cache(self, resource: str, revision: int) -> None:
        self._begun[resource] = max(revision, self._begun.get(resource, 0))

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
