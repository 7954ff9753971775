"""The interface between etcd's API and what keeps its keys: `Backing`, its records and its errors.

Everything that etcd knows and a log need not is above it: compares, ranges, nested transactions, watches,
limits. The layer above evaluates a transaction on the state that it has been given, and appends what comes of
it together with what it rests on; if that has changed in the meantime, nothing is written and the layer
evaluates again.

Errors of the database are StorageErrors; revisions out of bounds are CompactedError and FutureRevisionError,
as those of `Log` (`apiserver/storage/interfaces.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

ALL_KEYS = b"\0"  # as the end of a range: there is none; as its begin: the smallest key


class Record(NamedTuple):
    """A key as the transaction at `revision` left it.

    A key that was deleted has no `value`, and `created`, `version` and `lease` are 0. `created` is the
    revision of the put that made it, `version` counts its puts since then, `lease` is 0 if it has none.
    """

    key: bytes
    value: bytes | None
    created: int
    revision: int
    version: int
    lease: int


class Write(NamedTuple):
    """One key of a transaction: a put, or without `value` a deletion.

    `created` is 0 for the revision of this very transaction. The other fields are those of its record.
    """

    key: bytes
    value: bytes | None
    created: int = 0
    version: int = 0
    lease: int = 0


class Transaction(NamedTuple):
    """Writes get one revision, and are committed together if everything they rest on still holds.

    No key is written twice. `expected` has the revision at which each key that was looked at must be, 0 if it
    must not exist; every written key is there. `since`, if it is not None, is the newest revision that
    anything at all may have: for what rests on ranges. `revokes` is a lease that ends with the transaction,
    or 0; its keys are among the writes, and if `renewals` is not None it must not have been renewed more
    often. `leases` must be there.
    """

    writes: Sequence[Write]
    expected: Sequence[tuple[bytes, int]]
    since: int | None = None
    revokes: int = 0
    renewals: int | None = None
    leases: Sequence[int] = ()


class Commit(NamedTuple):
    """Records are in the order of the writes."""

    revision: int
    records: Sequence[Record]


class LeaseRecord(NamedTuple):
    """`ttl` is in seconds, as granted. The layer above keeps the time, with the time of the last grant or
    renewal, if that is known, and how many there were.
    """

    id: int
    ttl: int
    renewals: int = 0
    renewed: datetime | None = None


Leap = Callable[[int, Sequence[Record]], None]  # to a revision, with all that exists then


class ConflictError(Exception):
    """Something that the transaction rests on has changed. Nothing was written."""


class LeaseConflictError(ConflictError):
    """A lease that the transaction rests on has ended or was renewed. Nothing was written."""


class Backing(Protocol):
    """Keeps keys, their history and leases. All methods may be called concurrently, from one event loop.

    The revision of an empty backing is 1, and each transaction that writes gets the next.
    """

    @property
    def revision(self) -> int:
        """The listener has been given everything up to it."""
        ...

    @property
    def compacted(self) -> int:
        """The oldest revision that can be read; 0 before the first compaction."""
        ...

    def subscribe(self, listener: Callable[[Sequence[Commit]], None], leap: Leap) -> None:
        """Calls `listener` with all that anyone commits from now on, in order, without gaps.

        There is one listener; it runs on the event loop and must neither block nor raise. It has been given a
        transaction before `append` returns, and `revision` is moved before it is called. Where another
        process has compacted what comes next, `leap` is called instead: the listener goes on from there.

        """
        ...

    async def sync(self) -> int:
        """Waits until the listener has been given everything that anyone committed before the call; returns
        `revision`. It costs nothing where no other process can write.
        """
        ...

    async def append(self, transaction: Transaction) -> int:
        """Commits it durably and returns its revision, without writes the newest. Raises ConflictError,
        LeaseConflictError.
        """
        ...

    async def at(self, revision: int, key: bytes = ALL_KEYS, end: bytes = ALL_KEYS) -> Sequence[Record]:
        """Reads what exists as of `revision`, sorted by key: from `key` on and before `end`, all that
        follows if `end` is ALL_KEYS, the one `key` if it is empty.

        Raises CompactedError, FutureRevisionError.

        """
        ...

    async def history(self, after: int, limit: int) -> Sequence[Commit]:
        """Reads at most `limit` transactions newer than `after`, oldest first.

        Fewer than `limit` means that there are no more. Raises CompactedError if `after` is older than the
        revision before `compacted`: the transaction at `compacted` itself is still there.

        """
        ...

    async def compact(self, revision: int) -> None:
        """Makes `revision` the oldest that can be read, durably.

        Raises CompactedError if it is not newer than `compacted`, FutureRevisionError if it is newer than
        `revision`.

        """
        ...

    async def grant(self, lease: LeaseRecord) -> LeaseRecord | None:
        """Keeps the lease durably, until a transaction revokes it; None if its id is in use."""
        ...

    async def renew(self, leases: Sequence[int], time: datetime) -> Mapping[int, int]:
        """Counts a renewal of each lease that is there, and returns the counts."""
        ...

    async def leases(self) -> Sequence[LeaseRecord]:
        """Lists what was granted and not revoked, by id."""
        ...

    async def size(self) -> int:
        """Bytes on disk, or in memory about so many."""
        ...

    async def close(self) -> None:
        """Finishes what was accepted."""
        ...
