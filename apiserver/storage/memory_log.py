"""The log in plain Python: no file, no thread, no SQL.

For runs in virtual time, which cannot see foreign threads, and as the model that the SQL log is tested
against. Every append is a transaction of its own.
"""

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, takewhile
from typing import cast

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.interfaces import (
    CompactedError,
    FutureRevisionError,
    RevisionMismatchError,
    StorageError,
)
from kubeskew.apiserver.storage.projection import (
    State,
    check,
    decide,
    digest,
    expectations,
    fold,
    leases_of,
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
    Verb,
    merged,
)

TAIL_SECONDS = 0.02  # how often to look for other servers' writes


@dataclass(slots=True)
class LeaseSpan:
    """`granted` is the newest revision at that time; `revoked` is 0 until the lease ends."""

    lease: Lease
    granted: int
    revoked: int = 0


class MemoryRecords:
    """Outlives the servers of one log: events, the states they leave, and the time line."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.attributed: set[Place] = set()  # events whose author was learnt
        self.states: dict[Key, State] = {}
        self.timeline: list[ComponentEvent] = []
        self.newest = EMPTY_REVISION
        self.compacted = 0
        self.leases: list[LeaseSpan] = []  # in the order of their grants
        self.renewals: dict[int, tuple[int, datetime]] = {}  # how often, and the last time

    def append(self, change: Change) -> Event:
        """Raises RevisionMismatchError."""
        self.states.setdefault(change.key, State(None, 0))
        outcome = decide([change], self.states, self.newest).outcomes[0]
        if not isinstance(outcome, Event):
            raise cast("RevisionMismatchError", outcome)
        self.newest = outcome.revision
        self.events.append(outcome)
        return outcome

    def transact(self, transaction: Transaction) -> tuple[int, Sequence[Event]]:
        """Raises RevisionMismatchError, WrittenSinceError."""
        for key, _ in expectations(transaction):
            self.states.setdefault(key, State(None, 0))
        wanted = leases_of(transaction)
        leases = {each.id: each.renewals for each in self.live() if each.id in wanted} if wanted else {}
        decided = decide([transaction], self.states, self.newest, leases)
        outcome = decided.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        written = cast("tuple[int, Sequence[Event]]", outcome)
        self.newest, events = written
        self.events += events
        for lease, revision in decided.revoked:
            for span in self.leases:
                if span.lease.id == lease and not span.revoked:
                    span.revoked = revision
        return written

    def live(self) -> Sequence[Lease]:
        """Leases that were not revoked, by id."""
        known = self.renewals
        spans = [span.lease for span in self.leases if not span.revoked]
        return sorted(Lease(lease.id, lease.ttl, *known.get(lease.id, ())) for lease in spans)

    def renew(self, lease: int, time: datetime) -> None:
        self.renewals[lease] = (self.renewals[lease][0] if lease in self.renewals else 0) + 1, time

    def attribute(self, place: Place, author: Author) -> None:
        at = bisect_left(self.events, place, key=_place)
        if place not in self.attributed and at < len(self.events) and _place(self.events[at]) == place:
            self.events[at] = self.events[at]._replace(author=author)
            self.attributed.add(place)

    def record(self, event: ComponentEvent) -> None:
        self.timeline.append(replace(event, revision=self.newest))

    def objects(self) -> Sequence[Entry]:
        return [state.current for state in self.states.values() if state.current]

    def branched(self, note: ComponentEvent) -> "MemoryRecords":
        """Copies everything up to the note's revision and puts the note after it. Raises CompactedError,
        FutureRevisionError.
        """
        oldest = max(self.compacted, EMPTY_REVISION)
        if note.revision < oldest:
            raise CompactedError(note.revision, oldest)
        if note.revision > self.newest:
            raise FutureRevisionError(note.revision, self.newest)
        branch = MemoryRecords()
        branch.newest, branch.compacted = note.revision, self.compacted
        branch.events = [event for event in self.events if event.revision <= note.revision]
        branch.attributed = {place for place in self.attributed if place[0] <= note.revision}
        left = fold(branch.events)
        branch.states = {event.key: State(left.get(event.key), event.revision) for event in branch.events}
        branch.leases = [
            LeaseSpan(span.lease, span.granted, span.revoked if span.revoked <= note.revision else 0)
            for span in self.leases
            if span.granted <= note.revision
        ]
        branch.timeline = [moment for moment in self.timeline if moment.revision <= note.revision]
        branch.record(note)
        return branch

    def newer(self, revision: int) -> Sequence[Event]:
        return self.events[bisect_right(self.events, revision, key=lambda event: event.revision) :]


class MemoryLog:
    """Implements `interfaces.Log` over records in memory, which several servers may share."""

    healthy = True

    def __init__(self, records: MemoryRecords | None = None, *, shared: bool = False) -> None:
        """`shared`: other servers write the records too."""
        self.shared = shared
        self._records = records if records is not None else MemoryRecords()
        self._closed = False
        self._listeners: list[Callable[[Sequence[Event]], None]] = []

    def subscribe(self, listener: Callable[[Sequence[Event]], None]) -> None:
        self._listeners.append(listener)

    def _publish(self, events: Sequence[Event]) -> None:
        for listener in self._listeners:
            listener(events)

    async def append(self, change: Change) -> Event:
        check(change)
        if self._closed:
            raise StorageError("the store is closed")
        event = self._records.append(change)
        self._publish([event])
        return event

    async def transact(self, transaction: Transaction) -> tuple[int, Sequence[Event]]:
        check(transaction)
        if self._closed:
            raise StorageError("the store is closed")
        revision, events = self._records.transact(transaction)
        if events:
            self._publish(events)
        return revision, events

    async def attribute(self, authors: Sequence[tuple[Place, Author]]) -> None:
        if self._closed:
            raise StorageError("the store is closed")
        for place, author in authors:
            self._records.attribute(place, author)

    async def shared_revisions(self) -> Sequence[int]:
        return sorted({event.revision for event in self._records.events if event.sub})

    async def grant(self, lease: Lease) -> Lease | None:
        records = self._records
        if any(each.id == lease.id for each in records.live()):
            return None
        records.leases.append(LeaseSpan(lease, records.newest))
        if lease.renewed is not None:
            records.renew(lease.id, lease.renewed)
        return next(each for each in records.live() if each.id == lease.id)

    async def renew(self, leases: Sequence[int], time: datetime) -> Mapping[int, int]:
        for each in self._records.live():
            if each.id in leases:
                self._records.renew(each.id, time)
        return {each.id: each.renewals for each in self._records.live() if each.id in leases}

    async def leases(self) -> Sequence[Lease]:
        return self._records.live()

    async def size(self) -> int:
        """Counts the values."""
        return sum(len(event.value) for event in self._records.events)

    async def revision(self) -> int:
        return self._records.newest

    async def wait_for_others(self, clock: Clock) -> None:
        await clock.sleep(TAIL_SECONDS)

    async def after(
        self, revision: int, limit: int, *, until: int | None = None, resource: str | None = None
    ) -> Sequence[Event]:
        self._check(revision)
        found = (
            event
            for event in self._records.newer(revision)
            if (until is None or event.revision <= until) and resource in (None, event.key.resource)
        )
        events = [*islice(found, limit)]
        if events:
            events += takewhile(lambda event: event.revision == events[-1].revision, found)
        return events

    def _check(self, revision: int) -> None:
        if revision < self._records.compacted:
            raise CompactedError(revision, self._records.compacted)

    async def compacted(self) -> int:
        return self._records.compacted

    async def entries(self) -> tuple[int, Sequence[Entry]]:
        return self._records.newest, self._records.objects()

    async def at(self, revision: int, resource: str | None, namespace: str | None = None) -> Sequence[Entry]:
        self._check(revision)
        if revision > self._records.newest:
            raise FutureRevisionError(revision, self._records.newest)
        then = fold(event for event in self._records.events if event.revision <= revision)
        found = [
            entry
            for key, entry in then.items()
            if resource in (None, key.resource) and namespace in (None, key.namespace)
        ]
        return sorted(found, key=lambda entry: (entry.key.resource, entry.key.path))

    async def compact(self, revision: int) -> None:
        records = self._records
        if revision > records.newest:
            raise FutureRevisionError(revision, records.newest)
        if revision <= records.compacted:
            return
        ended = {(event.previous, event.key) for event in records.events if event.revision <= revision}
        records.events = [
            event
            for event in records.events
            if (event.revision, event.key) not in ended
            and not (
                event.verb is Verb.DELETE and event.revision <= revision and event.revision < records.newest
            )
        ]
        records.attributed &= set(map(_place, records.events))
        records.leases = [span for span in records.leases if not 0 < span.revoked <= revision]
        left = [span.lease.id for span in records.leases]
        records.renewals = {lease: known for lease, known in records.renewals.items() if lease in left}
        records.compacted = revision

    async def record(self, event: ComponentEvent) -> None:
        self._records.record(event)

    async def timeline(self, since: int = 0) -> Sequence[ComponentEvent]:
        return [event for event in self._records.timeline if event.revision >= since]

    async def close(self) -> None:
        self._closed = True


class MemoryReader:
    """Reads records in memory, as `sql_log.LogReader` reads a database."""

    def __init__(self, records: MemoryRecords) -> None:
        self._records = records

    async def revision(self) -> int:
        return self._records.newest

    async def horizon(self) -> int:
        return self._records.compacted

    async def timeline(self) -> Sequence[ComponentEvent]:
        return [*self._records.timeline]

    async def hashes(self) -> tuple[str, str]:
        return digest(fold(self._records.events).values()), digest(self._records.objects())

    async def entries(self) -> Sequence[Entry]:
        return self._records.objects()

    async def events(self, since: int = 0, resource: str | None = None) -> AsyncIterator[Moment]:
        records = self._records
        if 0 < since < records.compacted:
            raise CompactedError(since, records.compacted)
        found = [event for event in records.newer(since) if resource in (None, event.key.resource)]
        components = [event for event in records.timeline if event.revision >= since]
        for moment in merged(found, components):
            yield moment

    async def close(self) -> None:
        """Memory needs no closing."""


def _place(event: Event) -> Place:
    return event.revision, event.sub
