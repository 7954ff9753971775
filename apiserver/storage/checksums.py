"""Computes checksums of the log and its projection, which tell damage from what was written.

Every event carries two. `digest` is the sum of the checksums of all objects that there are after it, so that
the newest event tells what the table of objects must hold; a commit brings it up to date by what it changes.
`checksum` is over the whole row. Both are CRC-32, which finds every damage of up to 32 bits in a row and all
but one in four thousand million of the others: they guard against accidents, not against forgers.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from kubeskew.apiserver.storage.records import Entry


def entry_sum(entry: Entry) -> int:
    """Returns the checksum of an object as the projection holds it."""
    return crc32(as_bytes(entry.value), _head(entry))


def _head(entry: Entry) -> int:
    (resource, namespace, name), uid, revision, created, _ = entry
    return crc32(f"{resource}\0{namespace}\0{name}\0{uid}\0{revision}\0{created}\0".encode())


def as_bytes(value: Any) -> bytes:
    """Returns a value as it was written; damage makes other types of it, which must not pass for the same."""
    return value if value.__class__ is bytes else repr(value).encode("utf-8", "backslashreplace")


def event_sum(state: int, row: Sequence[Any]) -> int:
    """Returns the checksum of a row of `events`, without its own column; `state` is that of the object it
    leaves.
    """
    _, _, _, _, _, verb, _, previous, _, user, component, version, server, request, time, digest = row
    rest = f"{verb}\0{previous}\0{user}\0{component}\0{version}\0{server}\0{request}\0{time}\0{digest}"
    return crc32(rest.encode("utf-8", "backslashreplace"), state)


def is_intact(row: Sequence[Any]) -> bool:
    """Decides whether a row of `events` is what was written."""
    state = row_state_sum(row)
    return bool(event_sum(state, row[:16]) == row[16])


def row_state_sum(row: Sequence[Any]) -> int:
    """Returns the checksum of the object that a row of `events` leaves, whatever the row has become."""
    head = f"{row[1]}\0{row[2]}\0{row[3]}\0{row[4]}\0{row[0]}\0{row[8]}\0"
    return crc32(as_bytes(row[6]), crc32(head.encode("utf-8", "backslashreplace")))
