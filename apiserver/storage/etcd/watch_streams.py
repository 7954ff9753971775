"""Streams of watches (server/storage/mvcc/watchable_store.go, server/etcdserver/api/v3rpc/watch.go, 3.6).

A watch is in step, and then is given each commit when it comes, or it is behind and reads history until it
has caught up: because it began in the past, or because its stream's reader has not taken what it was given.
So no stream keeps more than a bound, and there is never a gap.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apiserver.storage.etcd.backing import ALL_KEYS, Backing, Record
from kubeskew.apiserver.storage.etcd.keyspace import Keyspace, state_of
from kubeskew.apiserver.storage.etcd.messages.rpc_pb2 import WatchCreateRequest, WatchRequest
from kubeskew.apiserver.storage.etcd.request_checks import parsed
from kubeskew.apiserver.storage.etcd.watches import Watcher, WatchIndex
from kubeskew.apiserver.storage.etcd.wire import Change, Headers, State, field, message
from kubeskew.apiserver.storage.interfaces import CompactedError

QUEUE_BYTES = 4 << 20  # of events that a stream keeps for a reader who is slow
FRAGMENT_BYTES = 2 << 20  # of one answer, where the client wants it in pieces
_BATCH = 1000  # commits that are read at once for a watch that is behind
_PAST_BATCH = 100  # of them that the backing has to read
_ANY = -1  # the watch id in answers that are for all watches of a stream, or for none

_COMPACTED = "etcdserver: mvcc: required revision has been compacted"
_EMPTY_RANGE = "mvcc: watcher range is empty"
_DUPLICATE_ID = "mvcc: duplicate watch ID provided on the WatchStream"


class Watches:
    """All streams of a server."""

    def __init__(
        self,
        backing: Backing,
        keyspace: Callable[[], Keyspace],
        headers: Headers,
        clock: Clock,
        entropy: Entropy,
        progress_seconds: float,
    ) -> None:
        self.backing = backing
        self.keyspace = keyspace
        self.headers = headers
        self.clock = clock
        self.entropy = entropy
        self.progress_seconds = progress_seconds
        self.index = WatchIndex()
        self.streams = 0
        self.watchers = 0

    def notify(self, revision: int, changes: Sequence[Change]) -> None:
        for change in changes:
            for watcher in list(self.index.of(change.state.key)):
                if watcher.next <= revision and watcher.wants(change):
                    watcher.stream.push(watcher, revision, change)

    def fall_behind(self, following: int, newest: int) -> None:
        """Commits from `following` to `newest` have not been given to anyone."""
        for watcher in list(self.index.all()):
            if watcher.next <= newest:
                watcher.stream.fall_behind(watcher, max(watcher.next, following))

    def stream(self) -> "WatchStream":
        return WatchStream(self)


class _Events:
    """Events for one watch that have not been sent."""

    __slots__ = ("events", "revision", "watcher")

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.revision = 0
        self.events: list[bytes] = []


class WatchStream:
    """Answers wait in order; events of a watch join those that wait already, but not past another answer."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._watchers: dict[int, Watcher] = {}
        self._behind: dict[Watcher, None] = {}
        self._queue: list[_Events | bytes] = []
        self._open: dict[int, _Events] = {}
        self._queued = 0
        self._next_id = 0
        self._wake = asyncio.Event()
        self._reporting: asyncio.Task[None] | None = None

    async def serve(self, requests: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        """Answers until the client ends the stream."""
        self._watches.streams += 1
        reading = asyncio.create_task(self._read(requests))
        reading.add_done_callback(lambda _: self._wake.set())
        try:
            while True:
                if reading.done() and (error := reading.exception()) is not None:
                    raise error
                if self._queue:
                    for answer in self._taken():
                        yield answer
                elif self._behind:
                    await self._catch_up()
                    await asyncio.sleep(0)
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self._watches.streams -= 1
            reading.cancel()
            if self._reporting is not None:
                self._reporting.cancel()
            for number in list(self._watchers):
                self._remove(number)

    # requests

    async def _read(self, requests: AsyncIterable[bytes]) -> None:
        async for data in requests:
            request = parsed(WatchRequest, data)
            kind = request.WhichOneof("request_union")
            if kind == "create_request":
                await self._watches.backing.sync()
                self._create(request.create_request)
            elif kind == "cancel_request":
                self._cancel(request.cancel_request.watch_id)
            elif kind == "progress_request":
                await self._watches.backing.sync()
                self._progress()

    def _create(self, request: WatchCreateRequest) -> None:
        keyspace = self._watches.keyspace()
        refusal = self._refusal(request)
        if refusal is not None:
            self._answer(keyspace.revision, _ANY, created=True, cancel_reason=refusal)
            return
        number = request.watch_id
        if not number:
            while self._next_id in self._watchers:
                self._next_id += 1
            number = self._next_id
            self._next_id += 1
        watcher = self._watchers[number] = Watcher(self, number, request)
        self._watches.watchers += 1
        self._answer(keyspace.revision, number, created=True)
        watcher.next = watcher.start or keyspace.revision + 1
        if watcher.next > keyspace.revision:
            self._keep_in_step(watcher)
        else:
            self._behind[watcher] = None
        if watcher.notifies:
            self._reporting = self._reporting or asyncio.create_task(self._report())

    def _refusal(self, request: WatchCreateRequest) -> str | None:
        if request.start_revision < 0:
            return _COMPACTED
        key, end = request.key or ALL_KEYS, request.range_end
        if end and end != ALL_KEYS and end <= key:
            return _EMPTY_RANGE
        if request.watch_id and request.watch_id in self._watchers:
            return _DUPLICATE_ID
        return None

    def _cancel(self, number: int) -> None:
        if number in self._watchers:
            self._remove(number)
            self._answer(self._watches.keyspace().revision, number, canceled=True)

    def _remove(self, number: int) -> None:
        watcher = self._watchers.pop(number)
        self._watches.watchers -= 1
        if watcher.in_step:
            self._watches.index.remove(watcher)
        self._behind.pop(watcher, None)

    def _progress(self, watcher: Watcher | None = None) -> None:
        """Nothing is answered unless all that it is about are in step."""
        revision = self._watches.keyspace().revision
        concerned = self._watchers.values() if watcher is None else (watcher,)
        if concerned and all(item.in_step and item.start <= revision for item in concerned):
            self._answer(revision, _ANY if watcher is None else watcher.id)

    async def _report(self) -> None:
        """Sends notifications to watches that want them and had no event for a while."""
        watches = self._watches
        while True:
            jitter = watches.progress_seconds / 10 * watches.entropy.random()
            await watches.clock.sleep(watches.progress_seconds + jitter)
            for watcher in self._watchers.values():
                if watcher.progress:
                    self._progress(watcher)
                watcher.progress = watcher.notifies

    # answers

    def _answer(
        self,
        revision: int,
        number: int,
        *,
        created: bool = False,
        canceled: bool = False,
        compacted: int = 0,
        cancel_reason: str = "",
    ) -> None:
        canceled = canceled or bool(cancel_reason)
        answer = [
            self._watches.headers.header(revision),
            field(b"\x10", number),
            b"\x18\x01" if created else b"",
            b"\x20\x01" if canceled else b"",
            field(b"\x28", compacted),
            message(b"\x32", cancel_reason.encode()) if cancel_reason else b"",
        ]
        self._queue.append(b"".join(answer))
        self._open.clear()
        self._wake.set()

    def push(self, watcher: Watcher, revision: int, change: Change) -> None:
        """Gives a watch that is in step an event, unless too much waits already. Events of one revision are
        not parted: a watch that is behind goes on with a whole one.
        """
        waiting = self._open.get(watcher.id)
        if self._queued > QUEUE_BYTES and (waiting is None or waiting.revision != revision):
            self.fall_behind(watcher, revision)
        else:
            self._add(watcher, revision, change.event_with_previous if watcher.previous else change.event)

    def fall_behind(self, watcher: Watcher, revision: int) -> None:
        """Has a watch that is in step read history from the revision on."""
        self._watches.index.remove(watcher)
        watcher.in_step = False
        watcher.next = revision
        self._behind[watcher] = None
        self._wake.set()

    def _add(self, watcher: Watcher, revision: int, event: bytes) -> None:
        waiting = self._open.get(watcher.id)
        if waiting is None:
            waiting = self._open[watcher.id] = _Events(watcher)
            self._queue.append(waiting)
        waiting.revision = revision
        waiting.events.append(event)
        self._queued += len(event)
        self._wake.set()

    def _taken(self) -> Sequence[bytes]:
        queue, self._queue = self._queue, []
        self._open.clear()
        self._queued = 0
        answers: list[bytes] = []
        for item in queue:
            if isinstance(item, bytes):
                answers.append(item)
            else:
                item.watcher.progress = False
                answers += self._encoded(item)
        return answers

    def _encoded(self, events: _Events) -> Sequence[bytes]:
        head = self._watches.headers.header(events.revision) + field(b"\x10", events.watcher.id)
        if not events.watcher.fragment or sum(map(len, events.events)) < FRAGMENT_BYTES:
            return [head + b"".join(events.events)]
        pieces = _fragments(events.events, FRAGMENT_BYTES - len(head) - 2)
        return [
            head + (b"\x38\x01" if number < len(pieces) else b"") + piece
            for number, piece in enumerate(pieces, 1)
        ]

    # watches that are behind

    def _keep_in_step(self, watcher: Watcher) -> None:
        watcher.in_step = True
        self._watches.index.add(watcher)

    async def _catch_up(self) -> None:
        """Reads on for each watch that is behind, until as much waits as a stream may keep."""
        for watcher in list(self._behind):
            if self._queued > QUEUE_BYTES:
                return
            if watcher in self._behind:
                await self._advance(watcher)

    async def _advance(self, watcher: Watcher) -> None:
        keyspace = self._watches.keyspace()
        compacted = max(keyspace.compacted, self._watches.backing.compacted)
        if watcher.next < compacted:
            # As in etcd, its id stays taken, and nothing is reported for all watches, until it is cancelled.
            del self._behind[watcher]
            self._answer(0, watcher.id, canceled=True, compacted=compacted)
        elif watcher.next > keyspace.floor:
            self._advance_in_memory(watcher, keyspace)
        else:
            await self._advance_in_history(watcher, keyspace)

    def _advance_in_memory(self, watcher: Watcher, keyspace: Keyspace) -> None:
        shown = keyspace.revision
        for revision, changes in keyspace.changes_since(watcher.next, watcher.next + _BATCH):
            for change in changes:
                if watcher.wants(change) and watcher.covers(change.state.key):
                    event = change.event_with_previous if watcher.previous else change.event
                    self._add(watcher, shown, event)
            watcher.next = revision + 1
            if self._queued > QUEUE_BYTES:
                break
        if watcher.next > shown:
            del self._behind[watcher]
            self._keep_in_step(watcher)

    async def _advance_in_history(self, watcher: Watcher, keyspace: Keyspace) -> None:
        """The backing has what is not in memory any more."""
        stop = keyspace.floor + 1
        try:
            commits = await self._watches.backing.history(watcher.next - 1, _PAST_BATCH)
            for commit in commits:
                if self._queued > QUEUE_BYTES:
                    break
                if commit.revision >= stop:
                    watcher.next = max(watcher.next, stop)
                    break
                for record in commit.records:
                    if watcher.covers(record.key):
                        await self._add_past(watcher, record, keyspace.revision)
                watcher.next = commit.revision + 1
            else:
                if len(commits) < _PAST_BATCH:
                    watcher.next = max(watcher.next, stop)
        except CompactedError:
            return  # the next attempt ends the watch

    async def _add_past(self, watcher: Watcher, record: Record, shown: int) -> None:
        previous = await self._before(record) if watcher.previous else None
        change = Change(state_of(record), previous)
        if watcher.wants(change) and watcher in self._behind:
            self._add(watcher, shown, change.event_with_previous)

    async def _before(self, record: Record) -> State | None:
        if record.created == record.revision or record.revision <= self._watches.keyspace().compacted:
            return None
        found = await self._watches.backing.at(record.revision - 1, record.key, b"")
        return state_of(found[0]) if found else None


def _fragments(events: Sequence[bytes], limit: int) -> list[bytes]:
    """Joins as many events as fit; one that is larger by itself is a fragment."""
    pieces: list[list[bytes]] = []
    size = 0
    for event in events:
        if not pieces or size + len(event) > limit:
            pieces.append([])
            size = 0
        pieces[-1].append(event)
        size += len(event)
    return [b"".join(piece) for piece in pieces]
