"""Replays the log: folds events into the objects they leave, and hashes those to compare them. Pure."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from kubeskew.apiserver.storage.checksums import as_bytes
from kubeskew.apiserver.storage.compare_and_swap import after
from kubeskew.apiserver.storage.records import Entry, Event, Key


def fold(events: Iterable[Event], start: Mapping[Key, Entry] | None = None) -> dict[Key, Entry]:
    """Returns the objects after `events`, which are in order and begin behind the state `start` (empty if
    None).

    In a compacted log an object may begin with an update, and a deletion may find nothing.
    """
    objects = dict(start or {})
    for event in events:
        left = after(event)
        if left is None:
            objects.pop(event.key, None)
        else:
            objects[event.key] = left
    return objects


def encoded(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yields the projection as bytes, object by object in key order: every column, with its
    length before it.
    """
    for entry in sorted(entries, key=lambda entry: tuple(map(str, entry.key))):  # damage makes other types
        key = entry.key
        texts = (key.resource, key.namespace, key.name, entry.uid, str(entry.revision), str(entry.created))
        for part in (*(str(text).encode() for text in texts), as_bytes(entry.value)):
            yield len(part).to_bytes(4, "big") + part


def digest(entries: Iterable[Entry]) -> str:
    """Returns the SHA-256 of the projection, in hex: equal if and only if every byte of every object is."""
    found = hashlib.sha256()
    for part in encoded(entries):
        found.update(part)
    return found.hexdigest()
