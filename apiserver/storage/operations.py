"""Does what the log does in one transaction, over the session of whichever database."""

from collections.abc import Sequence
from hashlib import sha256

from kubeskew.apiserver.storage.failures import CompactedError, FutureRevisionError
from kubeskew.apiserver.storage.metadata import Metadata
from kubeskew.apiserver.storage.records import EMPTY_REVISION, ComponentEvent, Entry, Event
from kubeskew.apiserver.storage.sessions import Session
from kubeskew.apiserver.storage.statements import entry_of_event, event_of, microseconds

COMPACTION_STEP = 1000  # revisions per transaction, so that writers get in between
NO_LIMIT = 2**62


def name_store(session: Session, born: str) -> None:
    """Gives a store that has none its id, made of where and when it came to be."""
    if not Metadata.read(session).store_id:  # another server may have done so meanwhile
        session.run("put_meta", name="store_id", value=sha256(born.encode()).hexdigest()[:32])


def newest(session: Session) -> int:
    """Returns the newest revision."""
    return max(session.all("revision")[0][0] or EMPTY_REVISION, Metadata.read(session).floor)


def compacted(session: Session) -> int:
    """Returns the revision of the last compaction, or the last that a repair had to give up, if that is
    newer.
    """
    return Metadata.read(session).horizon


def events_after(
    session: Session, revision: int, limit: int, until: int, resource: str | None, *, whole: bool = False
) -> Sequence[Event]:
    """Returns events in (`revision`, `until`]. Raises CompactedError, unless the `whole` rest is wanted."""
    horizon = compacted(session)
    if revision < horizon and not whole:
        raise CompactedError(revision, horizon)
    name = "after" if resource is None else "after_of"
    rows = session.all(name, revision=revision, until=until, limit=limit, resource=resource)
    return [event_of(row) for row in rows]


def entries_at(session: Session, revision: int, resource: str, namespace: str | None) -> Sequence[Entry]:
    """Returns the objects as of `revision`, in key order. Raises CompactedError, FutureRevisionError."""
    horizon, current = compacted(session), newest(session)
    if revision < horizon:
        raise CompactedError(revision, horizon)
    if revision > current:
        raise FutureRevisionError(revision, current)
    name = "at" if namespace is None else "at_in"
    rows = session.all(name, resource=resource, revision=revision, namespace=namespace)
    return sorted(map(entry_of_event, rows), key=lambda entry: entry.key.path)


def compact_some(session: Session, revision: int) -> int:
    """Compacts a step further towards `revision`; returns how far it is. Raises FutureRevisionError."""
    current, metadata = newest(session), Metadata.read(session)
    if revision > current:
        raise FutureRevisionError(revision, current)
    since = metadata.compacted
    until = min(since + COMPACTION_STEP, revision)
    if until > since:
        deleted = session.run("superseded", since=since, until=until)
        session.run(
            "put_meta", name="retained", value=str(metadata.retained + until - metadata.base - deleted)
        )
        session.run("put_meta", name="compacted", value=str(until))
    return max(since, until)


def record(session: Session, event: ComponentEvent) -> None:
    """Puts `event` behind the newest revision on the time line."""
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
