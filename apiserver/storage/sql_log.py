"""Log in SQL: its database, the appends of the one writer, and readers of a cluster that may be running.

One task writes. It takes all changes that have queued up while the transaction before was committing, so that
the busier the server is the more writes share one `fsync`, and a lone write does not wait.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import dropwhile
from typing import Any, Self

import orjson

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage import integrity
from kubeskew.apiserver.storage.integrity import Difference, Replay, verify
from kubeskew.apiserver.storage.interfaces import DamageError, StorageError
from kubeskew.apiserver.storage.operations import (
    NO_LIMIT,
    Metadata,
    attribute,
    compact_some,
    compacted,
    entries_at,
    events_after,
    grant,
    history,
    leases,
    name_store,
    newest,
    record,
    renew,
)
from kubeskew.apiserver.storage.projection import (
    BatchOutcome,
    Outcome,
    State,
    after,
    check,
    decide,
    entry_sum,
    event_sum,
    expectations,
    leases_of,
    row_state_sum,
)
from kubeskew.apiserver.storage.records import (
    EMPTY_REVISION,
    Author,
    Change,
    ComponentEvent,
    Entry,
    Event,
    Key,
    Lease,
    Moment,
    Place,
    Transaction,
    merged,
)
from kubeskew.apiserver.storage.statements import (
    Database,
    Row,
    Session,
    component_event_of,
    entry_of,
    entry_row,
    event_row,
)
from kubeskew.apiserver.storage.urls import SQLITE, backend_of

BATCH_CHANGES_MAX = 256  # per transaction
BATCH_BYTES_MAX = 8 << 20  # of values per transaction, so that a few huge objects do not hold up the rest
BRIEF_CHANGES_MAX = 2  # in a transaction that the event loop may wait for; others leave it time for the next
BRIEF_BYTES_MAX = 1 << 20
GATHER_SECONDS = 0.003  # how long a busy server collects changes for a transaction

logger = logging.getLogger(__name__)

Listener = Callable[[Sequence[Event]], None]
Waiting = tuple[Change | Transaction, asyncio.Future[Any]]
CHUNK_EVENTS = 500
FOLLOW_SECONDS = 0.1
AUTHOR_SECONDS = 4.0  # that a follower waits for who wrote an event


async def open_database(url: str, *, read_only: bool = False) -> Database:
    """Opens the database of `url`, and gives it the newest schema unless it is only read.

    Raises StorageError, also if there is none to read.
    """
    if backend_of(url) == SQLITE:
        from kubeskew.apiserver.storage.sqlite.database import SQLiteDatabase

        return await SQLiteDatabase.open(url, read_only=read_only)
    from kubeskew.apiserver.storage.postgresql.database import PostgreSQLDatabase

    return await PostgreSQLDatabase.open(url, read_only=read_only)


@dataclass(slots=True)
class Head:
    """The end of the log as a server knows it."""

    floor: int  # revisions count on from here at least
    newest: int  # that the server's listener has received
    siblings: bool  # there are events that are not the first of their revision


def commit(session: Session, changes: Sequence[Change | Transaction], known: Head) -> BatchOutcome:
    """Decides `changes` inside the transaction of `session` and writes the outcomes.

    Revisions count on from the newest event, or from the floor if that is newer. Raises DamageError if events
    are gone that were `known`, so that no revision is given twice, or if an object is gone that the log has.

    """
    rows = session.all("newest")
    newest, digest = rows[0] if rows else (EMPTY_REVISION, 0)
    head = max(newest, known.floor)
    if head < known.newest:
        raise DamageError(
            f"the store is damaged: the log ends at revision {head}, though {known.newest} was committed"
        )
    if head > known.newest and not known.siblings:  # another server may have written some
        known.siblings = bool(session.all("any_sibling"))
    keys = _keys(changes)
    states = _read(session, keys, known.siblings)
    before = {key: state.current for key, state in states.items()}
    decided = decide(changes, states, head, _leases(session, changes))
    if decided.events:
        touched = dict.fromkeys(event.key for event, _ in decided.events)
        _insert(session, decided, _event_rows(decided, before, digest))
        existed = {key for key in keys if before[key] is not None}
        _project(session, [(key, states[key].current) for key in touched], existed)
    for lease, revision in decided.revoked:
        session.run("revoke", lease=lease, at=revision)
    return decided


def _keys(changes: Iterable[Change | Transaction]) -> list[Key]:
    keys: dict[Key, None] = {}
    for change in changes:
        if isinstance(change, Transaction):
            keys.update((key, None) for key, _ in expectations(change))
        else:
            keys[change.key] = None
    return [*keys]


def _leases(session: Session, changes: Iterable[Change | Transaction]) -> dict[int, int]:
    """The renewals of the leases that are there, of those that `changes` rest on."""
    wanted = dict.fromkeys(
        lease for change in changes if isinstance(change, Transaction) for lease in leases_of(change)
    )
    found = ((lease, session.all("lease_renewals", lease=lease)) for lease in wanted)
    return {lease: rows[0][0] for lease, rows in found if rows}


def _event_rows(decided: BatchOutcome, before: Mapping[Key, Entry | None], digest: int) -> list[Row]:
    """Each row has the digest of all objects after its revision, and its own checksum."""
    sums: dict[Key, int] = {}  # of the objects as the events so far have left them
    rows: list[Row] = []
    states: list[int] = []
    shared = 0  # not 0 if there are two events of a revision
    for event, last in decided.events:
        key = event.key
        old = sums.get(key)
        if old is None:
            entry = before[key]
            old = 0 if entry is None else entry_sum(entry)
        left = after(event)
        state = 0 if left is None else entry_sum(left)
        digest += state - old
        sums[key] = state
        row = event_row(event, last, digest)
        sub, updates, lease = event[-3:]
        if left is None:
            state = row_state_sum((*row, 0, updates, lease))
        rows.append((*row, event_sum(state, row, sub), updates, lease))
        states.append(state)
        shared |= sub
    if shared:
        _share_digests(rows, states, [event.sub for event, _ in decided.events])
    return rows


def _share_digests(rows: list[Row], states: Sequence[int], subs: Sequence[int]) -> None:
    """Gives all rows of a revision the digest of its last one."""
    for place in range(len(rows) - 2, -1, -1):
        if subs[place + 1]:
            row = (*rows[place][:15], rows[place + 1][15])
            rows[place] = (*row, event_sum(states[place], row, subs[place]), *rows[place][17:])


def _insert(session: Session, decided: BatchOutcome, rows: list[Row]) -> None:
    further = [(event.sub, *row) for (event, _), row in zip(decided.events, rows, strict=True) if event.sub]
    if further:
        session.insert("insert_sibling", further)
        rows = [row for (event, _), row in zip(decided.events, rows, strict=True) if not event.sub]
    session.insert("insert_event", rows)


def _read(session: Session, keys: Sequence[Key], siblings: bool) -> dict[Key, State]:
    asked = orjson.dumps([(key.resource, key.namespace, key.name) for key in keys]).decode()
    lasts: dict[int, int] = {}
    if siblings:
        lasts = {row[0]: row[7] for row in session.all("sibling_states", keys=asked) if row[7] is not None}
    states = {}
    for place, uid, revision, created, value, updates, lease, last in session.all("states", keys=asked):
        key = keys[place]
        current = None
        if revision is not None:
            current = Entry(key, uid, revision, created, value, updates, lease)
        else:
            last = max(last or 0, lasts.get(place, 0), key=abs)
            if last < 0:
                what = f"{key.resource} {key.path} is not in the table of objects"
                raise DamageError(f"the store is damaged: {what}, though the log has it at revision {-last}")
        states[key] = State(current, last)
    return states


def _project(session: Session, states: Iterable[tuple[Key, Entry | None]], before: set[Key]) -> None:
    put: list[Row] = []
    removed: list[Row] = []
    for key, entry in states:
        if entry is not None:
            put.append(entry_row(entry))
        elif key in before:
            removed.append((key.resource, key.namespace, key.name))
    if put:
        session.insert("put_object", put)
    if removed:
        session.many("remove_object", removed)


class LogReads:
    """Reads the log from its database: the part of `interfaces.Log` that needs no writer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def shared(self) -> bool:
        return self._database.shared

    async def shared_revisions(self) -> Sequence[int]:
        rows = await self._database.read(lambda session: session.all("shared_revisions"))
        return [revision for (revision,) in rows]

    async def leases(self) -> Sequence[Lease]:
        return await self._database.read(leases)

    async def size(self) -> int:
        return await self._database.size()

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
        return await self._database.read(lambda session: integrity.load(session, mark))

    async def at(self, revision: int, resource: str | None, namespace: str | None = None) -> Sequence[Entry]:
        return await self._database.read(lambda session: entries_at(session, revision, resource, namespace))

    async def timeline(self, since: int = 0) -> Sequence[ComponentEvent]:
        rows = await self._database.read(lambda session: session.all("timeline", since=since, seq=0))
        return [component_event_of(row) for row in rows]


class SQLLog(LogReads):
    """Implements `interfaces.Log` over a database."""

    def __init__(self, database: Database, head: Head) -> None:
        super().__init__(database)
        self._head = head
        self._listeners: list[Listener] = []
        self._queue: deque[Waiting] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()  # no transaction of ours is under way
        self._idle.set()
        self._closing = False
        self._refused = False  # the last transaction, by the database
        self._writer = asyncio.create_task(self._write(), name="event log writer")

    @classmethod
    async def open(cls, url: str, clock: Clock) -> Self:
        """Opens the log in the database of `url` (`sqlite+aiosqlite:///FILE`, `postgresql://HOST/NAME`), and
        creates it if there is none.

        Raises StorageError; DamageError if there was one that is gone.

        """
        database = await open_database(url)
        try:
            metadata = await database.read(Metadata.read)
            if not metadata.store_id:
                born = f"{database.place}\0{clock.now()}"
                await database.write(lambda session: name_store(session, born))
            siblings, revision = await database.read(
                lambda session: (bool(session.all("any_sibling")), newest(session))
            )
            return cls(database, Head(metadata.floor, revision, siblings))
        except BaseException:
            await database.close()
            raise

    @property
    def healthy(self) -> bool:
        return not self._refused and not self._writer.done() and self._database.there

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def append(self, change: Change) -> Event:
        event: Event = await self.enqueue(change)
        return event

    async def transact(self, transaction: Transaction) -> tuple[int, Sequence[Event]]:
        written: tuple[int, Sequence[Event]] = await self.enqueue(transaction)
        return written

    def enqueue(self, change: Change | Transaction) -> asyncio.Future[Any]:
        """The result is that of `append` or `transact`, as is the error."""
        check(change)
        if self._closing:
            raise StorageError("the store is closed")
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((change, waiter))
        self._wake.set()
        return waiter

    async def attribute(self, authors: Sequence[tuple[Place, Author]]) -> None:
        if authors:
            await self._database.write(lambda session: attribute(session, authors))

    async def grant(self, lease: Lease) -> Lease | None:
        return await self._database.write(lambda session: grant(session, lease))

    async def renew(self, leases: Sequence[int], time: datetime) -> Mapping[int, int]:
        return await self._database.write(lambda session: renew(session, leases, time))

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
        """Waits for more changes, as long as each turn of the loop brings some.

        A transaction costs what ten changes in it cost. A lone change waits for one turn of an idle loop.

        """
        loop = asyncio.get_running_loop()
        end = loop.time() + GATHER_SECONDS
        waiting = 0
        while waiting < len(self._queue) < BATCH_CHANGES_MAX and loop.time() < end:
            waiting = len(self._queue)
            await asyncio.sleep(0)

    def _take(self) -> list[Waiting]:
        """Callers that have stopped waiting before their turn are left out."""
        batch: list[Waiting] = []
        size = 0
        while self._queue and len(batch) < BATCH_CHANGES_MAX and size < BATCH_BYTES_MAX:
            change, waiter = self._queue.popleft()
            if not waiter.done():
                batch.append((change, waiter))
                size += _size(change)
        return batch

    async def _commit(self, batch: list[Waiting]) -> None:
        changes = [change for change, _ in batch]
        try:
            head = self._head
            write = self._database.write if _is_long(changes) else self._database.write_briefly
            decided = await write(lambda session: commit(session, changes, head))
            events = [event for event, _ in decided.events]
            head.siblings |= any(event.sub for event in events)
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
        for (_, waiter), outcome in zip(batch, decided.outcomes, strict=True):
            _settle(waiter, outcome)

    async def _failed(self, batch: list[Waiting], error: StorageError) -> None:
        """Passes the error to the callers. If only one of several changes cannot be written, each is tried by
        itself.
        """
        if len(batch) > 1 and not error.refused:
            for change in batch:
                await self._commit([change])
            return
        self._refused = error.refused or isinstance(error, DamageError)
        for _, waiter in batch:
            _settle(waiter, error)

    def _publish(self, events: Sequence[Event]) -> None:
        if events:
            self._head.newest = events[-1].revision
            for listener in self._listeners:
                try:
                    listener(events)
                except Exception:  # the events are written, and the listener can read them again
                    logger.exception("a listener of the log failed")

    async def revision(self) -> int:
        if not self.shared:
            return self._head.newest
        seen = await self._database.newest()
        if seen is None:
            return await self._database.read(newest)
        if seen > self._head.newest and not self._idle.is_set():
            await self._idle.wait()  # most likely our own commit, on its way to the listener
        return max(int(seen), self._head.floor)

    async def compact(self, revision: int) -> None:
        while await self._database.write(lambda session: compact_some(session, revision)) < revision:
            pass

    async def record(self, event: ComponentEvent) -> None:
        await self._database.write(lambda session: record(session, event))

    async def close(self) -> None:
        self._closing = True
        self._wake.set()
        try:
            await self._writer
        finally:
            await self._database.close()


def _is_long(changes: Sequence[Change | Transaction]) -> bool:
    return len(changes) > BRIEF_CHANGES_MAX or sum(map(_size, changes)) > BRIEF_BYTES_MAX


def _size(change: Change | Transaction) -> int:
    if isinstance(change, Transaction):
        return sum(len(part.value) for part in change.changes)
    return len(change.value)


def _settle(waiter: asyncio.Future[Any], outcome: Outcome | StorageError) -> None:
    if waiter.done():  # cancelled meanwhile
        return
    if isinstance(outcome, Exception):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(outcome)


class LogReader:
    """Reads the log at a database URL, for `kubeskew events`, `history`, `diff` and `replay`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, url: str) -> Self:
        """Read-only. Raises StorageError, also if there is no database."""
        return cls(await open_database(url, read_only=True))

    async def revision(self) -> int:
        return await self._database.read(newest)

    async def horizon(self) -> int:
        """It is 0 before the first compaction; a repair may have had to give up later revisions."""
        return await self._database.read(compacted)

    async def store_id(self) -> str:
        """Identifies the store: another one in each branch."""
        return (await self._database.read(Metadata.read)).store_id

    async def timeline(self) -> Sequence[ComponentEvent]:
        rows = await self._database.read(lambda session: session.all("timeline", since=0, seq=0))
        return [component_event_of(row) for row in rows]

    async def hashes(self) -> tuple[str, str]:
        replayed = await self.replay()
        return replayed.replayed_hash, replayed.projection_hash

    async def entries(self) -> Sequence[Entry]:
        return await self._database.read(lambda session: [entry_of(row) for row in session.all("entries")])

    async def at(self, revision: int, resource: str, namespace: str | None = None) -> Sequence[Entry]:
        """Raises CompactedError, FutureRevisionError."""
        return await self._database.read(lambda session: entries_at(session, revision, resource, namespace))

    async def resources(self) -> Sequence[str]:
        """Resources count that have events, even without objects."""
        return await self._database.read(lambda session: [name for (name,) in session.all("resources")])

    async def replay(self) -> Replay:
        """Replays the whole log and compares it with the projection, on one snapshot; then the database
        checks itself.
        """
        mark = self._database.committed()  # before the snapshot, which may be newer
        replayed = await self._database.read(lambda session: verify(session, mark))
        for text in await self._database.damages():
            replayed.differences.append(Difference("database-damaged", replayed.revision, None, text))
        return replayed

    async def history(self, key: Key) -> Sequence[Event]:
        """Compaction may have dropped the oldest events; the oldest one left comes first."""
        return await self._database.read(lambda session: history(session, key))

    async def remaining(self) -> AsyncIterator[Event]:
        """Goes through the events that compaction has left, from the beginning: `replay` folds them."""
        revision = 0
        while events := await self._chunk(revision, NO_LIMIT, None, whole=True):
            for event in events:
                yield event
            revision = events[-1].revision

    async def _chunk(
        self, revision: int, until: int, resource: str | None, *, whole: bool = False
    ) -> Sequence[Event]:
        return await self._database.read(
            lambda session: events_after(session, revision, CHUNK_EVENTS, until, resource, whole=whole)
        )

    async def events(self, since: int = 0, resource: str | None = None) -> AsyncIterator[Moment]:
        """Merges events newer than `since`, of `resource` or of all, and component events, in the order of
        time.

        Ends at the newest revision. Raises CompactedError if `since` is older than the horizon and not 0,
        which stands for the oldest that is left.

        """
        async for moment in self._moments(since, resource, 0):
            yield moment

    async def follow(
        self,
        clock: Clock,
        since: int = 0,
        resource: str | None = None,
        is_current: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[Moment]:
        """Goes on after `events` with everything that happens next; does not end.

        What a real API server wrote comes once its author is known, or is not to be expected any more.

        Raises StorageError when the file is not the one any more that was opened, or the log is not
        `is_current`, which the caller must know for a database without a file: the cluster was rewound.


        """
        seen = _Seen(since)
        while True:
            if not self._database.there or not is_current():
                raise StorageError(f"{self._database.place} was removed or replaced, as by a rewind")
            oldest = clock.now() - timedelta(seconds=AUTHOR_SECONDS)
            async for moment in self._moments(seen.revision, resource, seen.seq, seen, oldest):
                yield moment
            await clock.sleep(FOLLOW_SECONDS)

    async def _moments(
        self,
        since: int,
        resource: str | None,
        seq: int,
        seen: "_Seen | None" = None,
        anonymous_before: datetime | None = None,
    ) -> AsyncIterator[Moment]:
        """Stops at an event without an author, unless it was written before `anonymous_before`."""
        until, rows = await self._database.read(
            lambda session: (newest(session), session.all("timeline", since=since, seq=seq))
        )
        revision, stop = since, NO_LIMIT
        waiting = [component_event_of(row) for row in rows]
        while stop == NO_LIMIT and (events := await self._chunk(revision, until, resource, whole=since == 0)):
            if anonymous_before is not None:
                stop = next((e.revision for e in events if _is_anonymous(e, anonymous_before)), NO_LIMIT)
                events = [event for event in events if event.revision < stop]
            revision = events[-1].revision if events else revision
            ready = [moment for moment in waiting if moment.revision < revision]
            waiting = waiting[len(ready) :]
            for moment in merged(events, ready):
                yield moment
        left = [*dropwhile(lambda moment: moment.revision < stop, waiting)]
        for moment in waiting[: len(waiting) - len(left)]:
            yield moment
        if seen is not None:
            seen.revision = max(until, since) if stop == NO_LIMIT else revision
            rows = rows[: len(rows) - len(left)]
            seen.seq = rows[-1][0] if rows else seen.seq

    async def close(self) -> None:
        await self._database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _is_anonymous(event: Event, before: datetime) -> bool:
    return not event.author.user and event.time >= before


class _Seen:
    """Marks the position of a follower: in the log, and on the time line."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.seq = 0
