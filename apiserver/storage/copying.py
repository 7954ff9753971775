"""Copies the log as it was at a revision from one database to another, of whichever kinds they are."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from kubeskew.apiserver.storage.checksums import entry_sum
from kubeskew.apiserver.storage.failures import CompactedError, DamageError, FutureRevisionError
from kubeskew.apiserver.storage.metadata import Metadata
from kubeskew.apiserver.storage.operations import newest, record
from kubeskew.apiserver.storage.records import EMPTY_REVISION, Branch, ComponentEvent, Entry, Key
from kubeskew.apiserver.storage.sessions import Row, Session
from kubeskew.apiserver.storage.statements import entry_row
from kubeskew.apiserver.storage.verifying import put

CHUNK_EVENTS = 500


def copy(source: Session, target: Session, note: ComponentEvent) -> Branch:
    """Writes the log of `source` up to the note's revision into `target`, which is empty, and the note behind
    it. Raises CompactedError, FutureRevisionError, DamageError.
    """
    head = newest_of(source, note.revision)
    metadata = Metadata.read(source)
    objects: dict[Key, Entry] = {}
    count = 0
    for rows in _events(source, note.revision):
        target.insert("insert_event", rows)
        count += len(rows)
        for row in rows:
            put(objects, row)
    target.insert("put_object", [entry_row(entry) for entry in objects.values()])
    timeline = source.all("timeline", since=0, seq=0)
    target.many("record", [row[1:] for row in timeline if row[1] <= note.revision])
    kept = checked(target, [*objects.values()], metadata, note.revision)
    for name, value in replace(kept, store_id=branched_id(metadata.store_id, note)).rows():
        target.run("put_meta", name=name, value=value)
    record(target, note)
    return Branch(note.revision, count, len(objects), head)


def _events(source: Session, until: int) -> Iterator[list[Row]]:
    """Yields the rows of events up to a revision, some at a time."""
    revision = 0
    while rows := source.all("all_events", revision=revision, limit=CHUNK_EVENTS):
        wanted = [row for row in rows if row[0] <= until]
        if wanted:
            yield wanted
        if len(wanted) < len(rows):
            return
        revision = rows[-1][0]


def newest_of(source: Session, revision: int) -> int:
    """Returns the newest revision of a log. Raises CompactedError or FutureRevisionError if it has no
    `revision`."""
    oldest, head = max(Metadata.read(source).horizon, EMPTY_REVISION), newest(source)
    if revision < oldest:
        raise CompactedError(revision, oldest)
    if revision > head:
        raise FutureRevisionError(revision, head)
    return head


def branched_id(before: str, note: ComponentEvent) -> str:
    """Returns the id of a store that was branched off from the one that had the id `before`."""
    return sha256(f"{before}\0{note.what}\0{note.revision}\0{note.time}".encode()).hexdigest()[:32]


def checked(session: Session, entries: Sequence[Entry], metadata: Metadata, revision: int) -> Metadata:
    """Returns the metadata of the branch. Raises DamageError unless the objects are those that its newest
    event tells of.

    At the revision of a compaction that event may be gone, together with its digest: deletions are forgotten
    there. Then the next revision counts on from the compaction's.
    """
    last, digest = (session.all("newest") or [(EMPTY_REVISION, 0)])[0]
    total = sum(map(entry_sum, entries))
    if last < revision:
        return replace(metadata, floor=revision, digest_offset=total - digest)
    if total != digest + metadata.digest_offset:
        raise DamageError("the log does not come to the objects that its newest event tells of")
    return metadata
