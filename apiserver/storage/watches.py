"""Watches as cursors over the log, found by their scope, with the window of recent events in which most
start.

A cursor that starts within the window of recent events is *live*: new events are handed to it as they are
applied. One that starts further back reads the log until it has caught up with the window. A live cursor
whose reader stays away too long is ended: events are never left out.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol

from kubeskew.apiserver.storage.interfaces import CompactedError, SlowWatcherError
from kubeskew.apiserver.storage.records import Entry, Event, Key, Verb

WINDOW_EVENTS_MAX = 10_000
WINDOW_BYTES_MAX = 32 << 20  # of values, those before the events included
PENDING_EVENTS_MAX = 10_000  # of one watch, applied and not yet taken
PENDING_BYTES_MAX = 64 << 20  # of their values, those before the events included
CATCH_UP_EVENTS = 1000  # per read of the log

Scope = tuple[str, str | None, str | None]  # resource, namespace, name; None: any


class Window:
    """Holds all events in (`start`, the newest]."""

    def __init__(
        self, start: int, events_max: int = WINDOW_EVENTS_MAX, bytes_max: int = WINDOW_BYTES_MAX
    ) -> None:
        self.start = start
        self._events: list[Event] = []
        self._bytes = 0
        self._events_max = events_max
        self._bytes_max = bytes_max

    def extend(self, events: Sequence[Event]) -> None:
        """Appends events; if that is too much, drops the oldest in big steps, as each step copies the
        rest.
        """
        self._events.extend(events)
        self._bytes += sum(map(size, events))
        if len(self._events) > self._events_max or self._bytes > self._bytes_max:
            self._shrink()

    def _shrink(self) -> None:
        dropped = 0
        events_kept, bytes_kept = self._events_max * 3 // 4, self._bytes_max * 3 // 4
        while self._bytes > bytes_kept or len(self._events) - dropped > events_kept:
            self._bytes -= size(self._events[dropped])
            dropped += 1
        if dropped:
            while dropped < len(self._events) and self._events[dropped].sub:  # of a revision that is dropped
                self._bytes -= size(self._events[dropped])
                dropped += 1
            self.start = self._events[dropped - 1].revision
            del self._events[:dropped]

    def since(self, revision: int) -> Sequence[Event]:
        """`revision` must not be older than `start`."""
        events = self._events
        first = revision - self.start  # revisions have no gaps, and most have one event
        if first < len(events) and (events[first].revision != revision + 1 or events[first].sub):
            first = bisect_right(events, revision, key=_revision)
        return events[first:]

    def undone(self, revision: int, resource: str, namespace: str | None) -> dict[Key, Entry | None]:
        """Objects that have changed since `revision` have their states of then (None: absent)."""
        states: dict[Key, Entry | None] = {}
        for event in self.since(revision):
            key = event.key
            wanted = key.resource == resource and (namespace is None or key.namespace == namespace)
            if wanted and key not in states:
                states[key] = before(event)
        return states


def _revision(event: Event) -> int:
    return event.revision


def before(event: Event) -> Entry | None:
    if event.verb is Verb.CREATE or event.previous_value is None:
        return None
    updates = event.updates if event.verb is Verb.DELETE else max(event.updates - 1, 0)
    return Entry(event.key, event.uid, event.previous, event.created, event.previous_value, updates)


def size(event: Event) -> int:
    """Counts the bytes of the values that `event` keeps alive."""
    return len(event.value) + len(event.previous_value or b"")


class Source(Protocol):
    """Cursors read the store through it."""

    @property
    def revision(self) -> int: ...

    @property
    def window(self) -> Window: ...

    async def older(self, revision: int, limit: int, until: int, resource: str) -> Sequence[Event]: ...


class Cursor:
    """Implements `interfaces.Watch`."""

    def __init__(self, source: Source, watches: "Watches", scope: Scope, since: int) -> None:
        self._source = source
        self._watches = watches
        self.scope = scope
        self._revision = since
        self._pending: list[Event] = []
        self._bytes = 0
        self._live = False
        self._closed = False
        self._error: Exception | None = None
        self._progress = False
        self._waiter: asyncio.Future[None] | None = None
        watches.enter(self)
        self._go_live()

    @property
    def revision(self) -> int:
        if self._live and not self._pending:
            return self._source.revision
        return self._revision

    def _go_live(self) -> None:
        """Takes the events in the window and joins the live cursors, if the window reaches back far
        enough.
        """
        window = self._source.window
        if self._revision < window.start:
            return
        self._live = True
        self._watches.go_live(self)
        for event in window.since(self._revision):
            if covers(self.scope, event.key):
                self.offer(event)

    def offer(self, event: Event) -> None:
        if not self._pending:
            self._revision = event.revision - 1
        self._pending.append(event)
        self._bytes += size(event)
        if len(self._pending) > PENDING_EVENTS_MAX or self._bytes > PENDING_BYTES_MAX:
            self.end(SlowWatcherError())
        else:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def request_progress(self) -> None:
        self._progress = True
        self._wake()

    def close(self) -> None:
        self.end(None)

    def end(self, error: Exception | None) -> None:
        """`error` is None if the reader closes the cursor."""
        if self._closed:
            return
        if self._live and self._error is None:
            self._revision = self.revision
        self._closed = True
        self._error = error
        self._live = False
        self._pending = []
        self._watches.leave(self)
        self._wake()

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        return self

    async def __anext__(self) -> Sequence[Event]:
        while not self._closed:
            if not self._live:
                batch = await self._catch_up()
                if batch:
                    return batch
            elif self._pending:
                return self._take()
            elif self._progress:
                self._progress = False
                return ()
            else:
                await self._wait()
        error, self._error = self._error, None
        raise error or StopAsyncIteration

    def _take(self) -> Sequence[Event]:
        batch, self._pending = self._pending, []
        self._bytes = 0
        self._progress = False
        return batch

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def _catch_up(self) -> Sequence[Event]:
        """Reads the next events from the log; there are none once the cursor is live."""
        until = self._source.revision
        try:
            events = await self._source.older(self._revision, CATCH_UP_EVENTS, until, self.scope[0])
        except CompactedError as error:
            self.end(error)
            return ()
        if self._closed:
            return ()
        self._revision = events[-1].revision if len(events) >= CATCH_UP_EVENTS else until
        self._go_live()
        return [event for event in events if covers(self.scope, event.key)]


class Watches:
    """Live cursors stand by scope, so that an event costs only those that want it."""

    def __init__(self) -> None:
        self._open: dict[Cursor, None] = {}
        self._live: dict[Scope, dict[Cursor, None]] = {}

    def __iter__(self) -> Iterator[Cursor]:
        return iter(list(self._open))

    def enter(self, cursor: Cursor) -> None:
        self._open[cursor] = None

    def go_live(self, cursor: Cursor) -> None:
        self._live.setdefault(cursor.scope, {})[cursor] = None

    def leave(self, cursor: Cursor) -> None:
        self._open.pop(cursor, None)
        cursors = self._live.get(cursor.scope, {})
        cursors.pop(cursor, None)
        if not cursors:
            self._live.pop(cursor.scope, None)

    def publish(self, event: Event) -> None:
        key = event.key
        for scope in scopes(key):
            cursors = self._live.get(scope)
            if cursors:
                for cursor in list(cursors):
                    cursor.offer(event)


def scopes(key: Key) -> tuple[Scope, ...]:
    resource, namespace, name = key.resource, key.namespace, key.name
    return (
        (resource, None, None),
        (resource, namespace, None),
        (resource, namespace, name),
        (resource, None, name),
    )


def covers(scope: Scope, key: Key) -> bool:
    resource, namespace, name = scope
    return key.resource == resource and namespace in (None, key.namespace) and name in (None, key.name)
