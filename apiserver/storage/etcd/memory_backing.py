"""`Backing` in memory: for tests and simulations, and as the model that other backings are tested against."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

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
from kubeskew.apiserver.storage.interfaces import CompactedError, FutureRevisionError
from kubeskew.apiserver.storage.records import EMPTY_REVISION


def _revision(record: Record) -> int:
    return record.revision


def _record(write: Write, revision: int) -> Record:
    if write.value is None:
        return Record(write.key, None, 0, revision, 0, 0)
    return Record(write.key, write.value, write.created or revision, revision, write.version, write.lease)


class MemoryBacking:
    def __init__(self) -> None:
        self.revision = EMPTY_REVISION
        self.compacted = 0
        self._keys: list[bytes] = []  # sorted: all that have history
        self._records: dict[bytes, list[Record]] = {}  # oldest first
        self._commits: list[Commit] = []  # from `_first` on, without gaps
        self._first = EMPTY_REVISION + 1
        self._leases: dict[int, LeaseRecord] = {}
        self._size = 0
        self._listener: Callable[[Sequence[Commit]], None] | None = None

    def subscribe(self, listener: Callable[[Sequence[Commit]], None], leap: Leap) -> None:
        self._listener = listener

    async def sync(self) -> int:
        return self.revision

    async def append(self, transaction: Transaction) -> int:
        if transaction.since is not None and transaction.since < self.revision:
            raise ConflictError(f"revision {self.revision} is newer than {transaction.since}")
        for key, expected in transaction.expected:
            if self._newest(key) != expected:
                raise ConflictError(f"{key!r} is at {self._newest(key)}, not at {expected}")
        wanted = [*transaction.leases, *([transaction.revokes] if transaction.revokes else [])]
        if lost := next((lease for lease in wanted if lease not in self._leases), 0):
            raise LeaseConflictError(f"lease {lost:x} has ended")
        if transaction.revokes:
            if transaction.renewals not in (None, self._leases[transaction.revokes].renewals):
                raise LeaseConflictError(f"lease {transaction.revokes:x} was renewed")
            del self._leases[transaction.revokes]
        if not transaction.writes:
            return self.revision
        revision = self.revision + 1
        records = [_record(write, revision) for write in transaction.writes]
        commit = Commit(revision, records)
        for record in records:
            self._keep(record)
        self._commits.append(commit)
        self.revision = revision
        if self._listener is not None:
            self._listener([commit])
        return revision

    def _newest(self, key: bytes) -> int:
        records = self._records.get(key)
        return records[-1].revision if records and records[-1].value is not None else 0

    def _keep(self, record: Record) -> None:
        records = self._records.get(record.key)
        if records is None:
            insort(self._keys, record.key)
            records = self._records[record.key] = []
        records.append(record)
        self._size += len(record.key) + len(record.value or b"")

    async def at(self, revision: int, key: bytes = ALL_KEYS, end: bytes = ALL_KEYS) -> Sequence[Record]:
        if revision < self.compacted:
            raise CompactedError(revision, self.compacted)
        if revision > self.revision:
            raise FutureRevisionError(revision, self.revision)
        records = (self._as_of(name, revision) for name in self._between(key, end))
        return [record for record in records if record is not None]

    def _between(self, key: bytes, end: bytes) -> Iterable[bytes]:
        if not end:
            return (key,)
        first = bisect_left(self._keys, key)
        return self._keys[first:] if end == ALL_KEYS else self._keys[first : bisect_left(self._keys, end)]

    def _as_of(self, key: bytes, revision: int) -> Record | None:
        records = self._records.get(key, [])
        position = bisect_right(records, revision, key=_revision)
        record = records[position - 1] if position else None
        return record if record is not None and record.value is not None else None

    async def history(self, after: int, limit: int) -> Sequence[Commit]:
        if after < self.compacted - 1:
            raise CompactedError(after, self.compacted)
        first = max(0, after + 1 - self._first)
        return self._commits[first : first + limit]

    async def compact(self, revision: int) -> None:
        if revision <= self.compacted:
            raise CompactedError(revision, self.compacted)
        if revision > self.revision:
            raise FutureRevisionError(revision, self.revision)
        self.compacted = revision
        count = max(0, revision - self._first)  # but for the one at `revision`
        superseded = self._commits[: count + 1]
        for key in sorted({record.key for commit in superseded for record in commit.records}):
            self._forget(key, revision)
        self._first += count
        del self._commits[:count]

    def _forget(self, key: bytes, revision: int) -> None:
        """Drops states of `key` that nobody can read any more."""
        records = self._records.get(key, [])
        position = bisect_right(records, revision, key=_revision)
        if position and records[position - 1].value is not None:
            position -= 1
        self._size -= sum(len(key) + len(record.value or b"") for record in records[:position])
        del records[:position]
        if not records and self._records.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    async def grant(self, lease: LeaseRecord) -> LeaseRecord | None:
        if lease.id in self._leases:
            return None
        self._leases[lease.id] = lease
        return lease

    async def renew(self, leases: Sequence[int], time: datetime) -> Mapping[int, int]:
        for number in leases:
            if (lease := self._leases.get(number)) is not None:
                self._leases[number] = lease._replace(renewals=lease.renewals + 1, renewed=time)
        return {number: self._leases[number].renewals for number in leases if number in self._leases}

    async def leases(self) -> Sequence[LeaseRecord]:
        return [lease for _, lease in sorted(self._leases.items())]

    async def size(self) -> int:
        return self._size

    async def close(self) -> None:
        """Nothing is kept."""
