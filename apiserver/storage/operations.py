"""Steps of the log within one transaction, over the session of any database, and the store's metadata."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Self

import orjson

from kubeskew.apiserver.storage.interfaces import CompactedError, DamageError, FutureRevisionError
from kubeskew.apiserver.storage.records import (
    EMPTY_REVISION,
    Author,
    ComponentEvent,
    Entry,
    Event,
    Key,
    Lease,
    Place,
    Verb,
)
from kubeskew.apiserver.storage.statements import (
    Session,
    entry_of_event,
    event_of,
    microseconds,
    moment_of,
)

Range = tuple[int, int]  # the first and the last
COMPACTION_STEP = 1000  # revisions per transaction, so that writers get in between
NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class Metadata:
    """A store that was neither compacted nor repaired has only its id."""

    compacted: int = 0  # the revision of the last compaction
    retained: int = 0  # events that it has left at or before that revision, `missing` ones included
    floor: int = 0  # revision that the next one counts on from, though the log may end earlier
    lost: Sequence[Range] = ()  # revisions that are gone
    missing: int = 0  # events that are gone, those among the retained included
    damaged: frozenset[int] = frozenset()  # revisions of events that are not what was written
    unreadable: frozenset[int] = frozenset()  # those of them that left objects, which are lost
    digest_offset: int = 0  # digest of the projection minus that of the newest event
    store_id: str = ""  # another one in every branch

    @classmethod
    def read(cls, session: Session) -> Self:
        values = dict(session.all("meta"))
        return cls(
            compacted=int(values.get("compacted", 0)),
            retained=int(values.get("retained", 0)),
            floor=int(values.get("floor", 0)),
            lost=tuple((first, last) for first, last in orjson.loads(values.get("lost", "[]"))),
            missing=int(values.get("missing", 0)),
            damaged=frozenset(orjson.loads(values.get("damaged", "[]"))),
            unreadable=frozenset(orjson.loads(values.get("unreadable", "[]"))),
            digest_offset=int(values.get("digest_offset", 0)),
            store_id=values.get("store_id", ""),
        )

    @property
    def base(self) -> int:
        """After this revision the log has all events."""
        return self.compacted or EMPTY_REVISION

    @property
    def horizon(self) -> int:
        """All successors of this revision are known: it is that of the last compaction or loss."""
        return max(self.compacted, self.floor)

    def expected(self, head: int) -> int:
        return head - self.base + self.retained - self.missing

    def rows(self) -> list[tuple[str, str]]:
        """Values that are as in a new store have no row."""
        values = {
            "compacted": self.compacted,
            "retained": self.retained,
            "floor": self.floor,
            "lost": orjson.dumps(self.lost).decode() if self.lost else "",
            "missing": self.missing,
            "damaged": orjson.dumps(sorted(self.damaged)).decode() if self.damaged else "",
            "unreadable": orjson.dumps(sorted(self.unreadable)).decode() if self.unreadable else "",
            "digest_offset": self.digest_offset,
            "store_id": self.store_id,
        }
        return [(name, str(value)) for name, value in values.items() if value]


def name_store(session: Session, born: str) -> None:
    """Gives a store without an id one, made of the place and time of its creation."""
    if not Metadata.read(session).store_id:  # another server may have done so meanwhile
        session.run("put_meta", name="store_id", value=sha256(born.encode()).hexdigest()[:32])


def newest(session: Session) -> int:
    """After a repair it is at least `floor`."""
    return max(session.all("revision")[0][0] or EMPTY_REVISION, Metadata.read(session).floor)


def compacted(session: Session) -> int:
    """A repair may have had to give up later revisions than those of the last compaction."""
    return Metadata.read(session).horizon


def events_after(
    session: Session, revision: int, limit: int, until: int, resource: str | None, *, whole: bool = False
) -> Sequence[Event]:
    """Reads events in (`revision`, `until`]: those of one revision together, also beyond `limit`. Raises
    CompactedError, unless the `whole` rest is wanted.
    """
    horizon = compacted(session)
    if revision < horizon and not whole:
        raise CompactedError(revision, horizon)
    suffix = "" if resource is None else "_of"
    rows = session.all(f"after{suffix}", revision=revision, until=until, limit=limit, resource=resource)
    check_order(rows, revision)
    end = rows[-1][0] if len(rows) == limit else until
    further = _siblings_after(session, f"siblings_after{suffix}", revision, limit, end, resource)
    found = [event_of(row) for row in rows]
    if further:
        if len(further) >= limit:
            found = [event for event in found if event.revision <= further[-1].revision]
        found = list(heapq.merge(found, further, key=_place))
    return [_completed(session, event) for event in found]


def check_order(rows: Iterable[Sequence[Any]], revision: int) -> None:
    """Raises DamageError unless each row is newer than the one before, the first than `revision`: a damaged
    page may lead in circles.
    """
    for row in rows:
        if row[0] <= revision:
            raise DamageError(f"the store is damaged: after revision {revision} the log has {row[0]}")
        revision = row[0]


def _siblings_after(
    session: Session, name: str, revision: int, limit: int, until: int, resource: str | None
) -> list[Event]:
    """At least `limit` mean that there may be more."""
    rows = session.all(name, revision=revision, until=until, limit=limit, resource=resource)
    if len(rows) == limit:  # the last revision is read as a whole
        last = rows[-1][1]
        rows = [row for row in rows if row[1] < last]
        rows += session.all(name, revision=last - 1, until=last, limit=NO_LIMIT, resource=resource)
    return [event_of(row[1:], row[0]) for row in rows]


def _completed(session: Session, event: Event) -> Event:
    """Adds the value before, if that came with a further event of its revision."""
    if event.previous_value is not None or not event.previous:
        return event
    resource, namespace, name = event.key
    rows = session.all(
        "sibling_value", resource=resource, namespace=namespace, name=name, revision=event.previous
    )
    return event._replace(previous_value=rows[0][0]) if rows else event


def _place(event: Event) -> tuple[int, int]:
    return event.revision, event.sub


def history(session: Session, key: Key) -> Sequence[Event]:
    """The oldest event that is left comes first."""
    resource, namespace, name = key
    rows = session.all("history", resource=resource, namespace=namespace, name=name)
    further = session.all("sibling_history", resource=resource, namespace=namespace, name=name)
    events = heapq.merge(map(event_of, rows), (event_of(row[1:], row[0]) for row in further), key=_place)
    return [_completed(session, event) for event in events]


def entries_at(
    session: Session, revision: int, resource: str | None, namespace: str | None
) -> Sequence[Entry]:
    """Sorts by resource and key. Raises CompactedError, FutureRevisionError."""
    horizon, current = compacted(session), newest(session)
    if revision < horizon:
        raise CompactedError(revision, horizon)
    if revision > current:
        raise FutureRevisionError(revision, current)
    suffix = "_all" if resource is None else "" if namespace is None else "_in"
    values = {"resource": resource, "revision": revision, "namespace": namespace}
    found: Iterable[Entry] = map(entry_of_event, session.all(f"at{suffix}", **values))
    if session.all("any_sibling"):
        found = _with_siblings(found, session, suffix, values)
    return sorted(found, key=lambda entry: (entry.key.resource, entry.key.path))


def _with_siblings(
    entries: Iterable[Entry], session: Session, suffix: str, values: Mapping[str, object]
) -> Iterator[Entry]:
    """Puts what siblings left in the place of what is older, or adds it."""
    newer = {(row[2], row[3], row[4]): row for row in session.all(f"siblings_at{suffix}", **values)}
    if newer:
        for *key, revision in session.all(f"latest{suffix}", **values):
            if tuple(key) in newer and newer[tuple(key)][1] < revision:
                del newer[tuple(key)]
    for entry in entries:
        if entry.key not in newer:
            yield entry
    for row in newer.values():
        if row[6] != Verb.DELETE.value:
            yield entry_of_event(row[1:], row[0])


def compact_some(session: Session, revision: int) -> int:
    """Compacts one step further towards `revision`; returns the revision reached. Raises
    FutureRevisionError.
    """
    current, metadata = newest(session), Metadata.read(session)
    if revision > current:
        raise FutureRevisionError(revision, current)
    since = metadata.compacted
    until = min(since + COMPACTION_STEP, revision)
    if until > since:
        further = session.all("superseded_siblings", since=since, until=until)  # as events say that go now
        if session.all("any_author"):
            gone = session.all("superseded", since=since, until=until)
            session.many("remove_author", [*((revision, 0) for (revision,) in gone), *map(tuple, further)])
        deleted = session.run("remove_superseded", since=since, until=until)
        session.many("remove_sibling", [tuple(row) for row in further])
        session.run("forget_leases", until=until)
        session.run("forget_renewals")
        session.run(
            "put_meta", name="retained", value=str(metadata.retained + until - metadata.base - deleted)
        )
        session.run("put_meta", name="compacted", value=str(until))
    return max(since, until)


def record(session: Session, event: ComponentEvent) -> None:
    session.run(
        "record",
        revision=newest(session),
        component=event.component,
        what=event.what,
        version=event.version,
        gates=event.gates,
        time=microseconds(event.time),
        detail=event.detail,
    )


def attribute(session: Session, authors: Sequence[tuple[Place, Author]]) -> None:
    """The first author of an event counts; places without one are left out."""
    asked = orjson.dumps([(revision, sub, "") for (revision, sub), _ in authors]).decode()
    present = sorted(place for (place,) in session.all("present", keys=asked))
    session.insert("put_author", [(*authors[place][0], *authors[place][1]) for place in present])


def grant(session: Session, lease: Lease) -> Lease | None:
    """None if there is one of its id."""
    if session.all("lease_renewals", lease=lease.id):
        return None
    session.run("put_lease", id=lease.id, granted=newest(session), ttl=lease.ttl, revoked=0)
    if lease.renewed is None:
        return lease
    return lease._replace(renewals=renew(session, [lease.id], lease.renewed)[lease.id])


def renew(session: Session, leases: Sequence[int], time: datetime) -> Mapping[int, int]:
    """Counts a renewal of each lease that is there, and returns the counts."""
    found: dict[int, int] = {}
    for lease in leases:
        if session.all("lease_renewals", lease=lease):
            session.run("renew", lease=lease, count=1, time=microseconds(time))
            found[lease] = session.all("lease_renewals", lease=lease)[0][0]
    return found


def leases(session: Session) -> Sequence[Lease]:
    """Lists what was granted and not revoked, by id."""
    return [
        Lease(lease, ttl, count or 0, None if time is None else moment_of(time))
        for lease, ttl, count, time in session.all("live_leases")
    ]
