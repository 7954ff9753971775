"""`Backing` on the event log, which emulated API servers may write as well.

Objects of the API are rows as our servers write them; all other keys and values keep their bytes under a
resource of their own (`keys.OPAQUE`). A key whose value becomes an object, or ceases to be one, goes on under
the other name within one transaction, and is one record again when it is read.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import groupby
from typing import Self

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.etcd.backing import (
    ALL_KEYS,
    Commit,
    ConflictError,
    Leap,
    LeaseConflictError,
    LeaseRecord,
    Record,
    Transaction,
    Write,
)
from kubeskew.apiserver.storage.etcd.keys import (
    OPAQUE,
    Range,
    bytes_of,
    is_at_object,
    object_key,
    object_uid,
    opaque_key,
    served,
    stored,
)
from kubeskew.apiserver.storage.interfaces import (
    CompactedError,
    FutureRevisionError,
    LeaseChangedError,
    Log,
    RevisionMismatchError,
    StorageError,
    WrittenSinceError,
)
from kubeskew.apiserver.storage.records import Author, Change, Entry, Event, Key, Lease, Verb
from kubeskew.apiserver.storage.records import Transaction as LogTransaction

API_SERVER = Author("", "kube-apiserver", "", "", "")  # until its audit events say more
_CATCH_UP_EVENTS = 1000
_COMPACTION_SECONDS = 1.0  # after which a compaction by others is seen
_NOTHING = b""  # the log knows the last state of what is deleted

logger = logging.getLogger(__name__)
# Gets the first change of a transaction, and what writes all of it.
Intercept = Callable[[Change, Callable[[], Awaitable[int]]], Awaitable[int]]


class LogBacking:
    """Owns the log."""

    def __init__(
        self, log: Log, clock: Clock, author: Author = API_SERVER, intercept: Intercept | None = None
    ) -> None:
        self.revision = 0
        self.compacted = 0
        self._log = log
        self._clock = clock
        self._author = author
        self._intercept = intercept
        self._opaque: set[bytes] = set()  # keys where an object could be, and is none
        self._opened: tuple[int, Sequence[Entry]] | None = None  # the first state that is read
        self._listener: Callable[[Sequence[Commit]], None] | None = None
        self._leap: Leap | None = None
        self._catching_up = asyncio.Lock()
        self._tail: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, log: Log, clock: Clock, author: Author = API_SERVER, intercept: Intercept | None = None
    ) -> Self:
        """Starts at the log's newest revision. `intercept` is in the way of each write; what it raises is
        raised by `append`. Raises StorageError.
        """
        backing = cls(log, clock, author, intercept)
        log.subscribe(backing._committed)
        await backing._load()
        await backing._follow_compaction()
        if log.shared:
            backing._tail = asyncio.create_task(backing._follow(), name="log tail of etcd's API")
        return backing

    async def _load(self) -> None:
        revision, entries = await self._log.entries()
        if revision <= self.revision:
            return  # this process has committed meanwhile
        self.revision, self._opened = revision, (revision, entries)
        self._opaque = {
            bytes_of(entry.key)
            for entry in entries
            if entry.key.resource == OPAQUE and is_at_object(entry.key)
        }
        if self._leap is not None:
            self._leap(revision, [_record(entry) for entry in entries])

    def subscribe(self, listener: Callable[[Sequence[Commit]], None], leap: Leap) -> None:
        self._listener, self._leap = listener, leap

    # What was committed

    def _committed(self, events: Sequence[Event]) -> None:
        """Passes on what this process wrote, unless another one has written in between: then the log is read
        instead.
        """
        if events[0].revision <= self.revision + 1:
            self._apply(events)

    def _apply(self, events: Sequence[Event]) -> None:
        fresh = [event for event in events if event.revision > self.revision]
        if not fresh:
            return
        self._opened = None
        commits = [*_commits(fresh)]
        for event in fresh:
            if event.key.resource == OPAQUE and is_at_object(event.key):
                change = self._opaque.discard if event.verb is Verb.DELETE else self._opaque.add
                change(bytes_of(event.key))
        self.revision = fresh[-1].revision
        if self._listener is not None:
            self._listener(commits)

    async def _catch_up(self, target: int) -> None:
        """A process that slept through a compaction goes on from what exists then."""
        async with self._catching_up:
            while self.revision < target:
                try:
                    events = await self._log.after(self.revision, _CATCH_UP_EVENTS)
                except CompactedError:
                    await self._load()
                    await self._follow_compaction()
                    continue
                if not events and self.revision < target:
                    raise StorageError(f"the log ends before revision {target}")
                self._apply(events)

    async def sync(self) -> int:
        newest = await self._log.revision()
        if newest > self.revision:
            await self._catch_up(newest)
        return self.revision

    async def _follow_compaction(self) -> None:
        """The log's horizon has all its successors, so that the revision after it is the oldest of etcd's."""
        horizon = await self._log.compacted()
        if horizon:
            self.compacted = max(self.compacted, min(horizon + 1, self.revision))

    async def _follow(self) -> None:
        looked = self._clock.monotonic()
        while True:
            await self._log.wait_for_others(self._clock)
            try:
                await self.sync()
                if self._clock.monotonic() - looked >= _COMPACTION_SECONDS:
                    looked = self._clock.monotonic()
                    await self._follow_compaction()
            except StorageError as error:
                logger.warning("cannot follow the log: %s", error)
            except Exception:
                logger.exception("cannot follow the log")

    # Writing

    async def append(self, transaction: Transaction) -> int:
        expected = dict(transaction.expected)
        objects = {key: object_key(key) for key in expected}
        changes = [
            change
            for write in transaction.writes
            for change in self._changes(write, expected[write.key], objects[write.key])
        ]
        changed = {change.key for change in changes}
        others = [
            (place, revision)
            for key, revision in expected.items()
            for place in self._places(key, revision, objects[key])
            if place not in changed
        ]
        wanted = LogTransaction(
            *(changes, others, transaction.since),
            *(transaction.revokes, transaction.renewals, transaction.leases),
        )

        async def write() -> int:
            return (await self._log.transact(wanted))[0]

        try:
            revision = await (
                self._intercept(changes[0], write) if self._intercept is not None and changes else write()
            )
        except (RevisionMismatchError, WrittenSinceError) as error:
            raise ConflictError(str(error)) from error
        except LeaseChangedError as error:
            raise LeaseConflictError(str(error)) from error
        if self.revision < revision:
            await self._catch_up(revision)
        return revision

    def _place(self, key: bytes, found: Key | None) -> Key:
        """Names the key as the log has it at present, or would have it; `found` is its object."""
        return opaque_key(key) if found is None or key in self._opaque else found

    def _places(self, key: bytes, expected: int, found: Key | None) -> Iterable[Key]:
        """Names where the log must have the key at `expected`; what does not exist is nowhere: meanwhile
        another process may have put it under the name that this one does not look at.
        """
        return (self._place(key, found),) if expected or found is None else (found, opaque_key(key))

    def _changes(self, write: Write, expected: int, found: Key | None) -> Sequence[Change]:
        place, now = self._place(write.key, found), self._clock.now()
        if write.value is None:
            return [Change(Verb.DELETE, place, "", _NOTHING, expected, self._author, now)]
        uid = None if found is None else object_uid(write.value)
        if found is None or uid is None:
            target, uid, value = opaque_key(write.key), "", write.value
        else:
            target, value = found, stored(write.value)
        if not expected:
            return [Change(Verb.CREATE, target, uid, value, 0, self._author, now, write.lease)]
        if target == place:
            return [Change(Verb.UPDATE, target, uid, value, expected, self._author, now, write.lease)]
        return [
            Change(Verb.DELETE, place, "", _NOTHING, expected, self._author, now),
            Change(
                Verb.CREATE, target, uid, value, 0, self._author, now, write.lease, write.created,
                write.version - 1,
            ),
        ]  # fmt: skip

    # Reading

    async def at(self, revision: int, key: bytes = ALL_KEYS, end: bytes = ALL_KEYS) -> Sequence[Record]:
        if revision < self.compacted:
            raise CompactedError(revision, self.compacted)
        if revision > self.revision:
            raise FutureRevisionError(revision, self.revision)
        wanted = Range(key, end)
        entries = await self._entries(revision, wanted.resource)
        records = [_record(entry) for entry in entries]
        return sorted((record for record in records if wanted.covers(record.key)), key=_key)

    async def _entries(self, revision: int, resource: str | None) -> Iterable[Entry]:
        if self._opened is not None and self._opened[0] == revision:
            return self._opened[1]
        if resource is None:
            return await self._log.at(revision, None)
        return [*await self._log.at(revision, resource), *await self._log.at(revision, OPAQUE)]

    async def history(self, after: int, limit: int) -> Sequence[Commit]:
        await self._follow_compaction()
        if after < self.compacted - 1:
            raise CompactedError(after, self.compacted)
        after = max(after, await self._log.compacted())
        return [*_commits(await self._log.after(after, limit, until=self.revision))][:limit]

    # Compaction, leases

    async def compact(self, revision: int) -> None:
        """The log keeps all events at `revision` itself, too, with which etcd's watches may begin."""
        if revision <= self.compacted:
            raise CompactedError(revision, self.compacted)
        if revision > self.revision:
            raise FutureRevisionError(revision, self.revision)
        await self._log.compact(revision - 1)
        self.compacted = max(self.compacted, revision)

    async def grant(self, lease: LeaseRecord) -> LeaseRecord | None:
        kept = await self._log.grant(Lease(*lease))
        return None if kept is None else LeaseRecord(*kept)

    async def renew(self, leases: Sequence[int], time: datetime) -> Mapping[int, int]:
        return await self._log.renew(leases, time)

    async def leases(self) -> Sequence[LeaseRecord]:
        return [LeaseRecord(*lease) for lease in await self._log.leases()]

    async def size(self) -> int:
        return await self._log.size()

    async def close(self) -> None:
        if self._tail is not None:
            self._tail.cancel()
            with suppress(asyncio.CancelledError):
                await self._tail
        await self._log.close()


def _key(record: Record) -> bytes:
    return record.key


def _record(state: Entry | Event) -> Record:
    """`state` is no deletion."""
    key = state.key
    value = state.value if key.resource == OPAQUE else served(state.value)
    return Record(bytes_of(key), value, state.created, state.revision, state.updates + 1, state.lease)


def _commits(events: Iterable[Event]) -> Iterable[Commit]:
    """Puts the events of each revision together, in their order."""
    for revision, group in groupby(events, key=_revision):
        records: dict[bytes, Record] = {}
        for event in group:
            key = bytes_of(event.key)
            if event.verb is not Verb.DELETE:
                records.pop(key, None)  # the deletion under its other name
                records[key] = _record(event)
            else:
                records[key] = Record(key, None, 0, revision, 0, 0)
        yield Commit(revision, [*records.values()])


def _revision(event: Event) -> int:
    return event.revision
