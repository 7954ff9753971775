"""The contract of every implementation of etcd's `Backing`."""

import asyncio
from collections.abc import Sequence

import pytest

from kubeskew.apiserver.storage.etcd.backing import (
    ALL_KEYS,
    Backing,
    Commit,
    ConflictError,
    LeaseRecord,
    Record,
    Transaction,
    Write,
)
from kubeskew.apiserver.storage.interfaces import CompactedError, FutureRevisionError

A, B, C = b"/registry/configmaps/default/a", b"/registry/configmaps/default/b", b"/registry/secrets/default/c"
LEASED = b"/registry/masterleases/10.0.0.1"


def put(key: bytes, value: bytes = b"{}", *, at: int = 0, created: int = 0, version: int = 1) -> Transaction:
    """A transaction that puts a key which is at revision `at` (0: is not there)."""
    return Transaction([Write(key, value, created, version)], [(key, at)])


def delete(key: bytes, at: int) -> Transaction:
    return Transaction([Write(key, None)], [(key, at)])


def no_leap(revision: int, records: Sequence[Record]) -> None:
    raise AssertionError(f"nobody has compacted, but there is a leap to {revision}")


async def keys_at(
    backing: Backing, revision: int, key: bytes = ALL_KEYS, end: bytes = ALL_KEYS
) -> list[bytes]:
    return [record.key for record in await backing.at(revision, key, end)]


class TestAppend:
    async def test_the_first_transaction_gets_revision_two(self, backing: Backing):
        """An empty backing is at 1, and each transaction that writes gets the next revision."""
        assert (backing.revision, backing.compacted) == (1, 0)
        assert await backing.append(put(A)) == 2
        assert await backing.append(put(B)) == 3
        assert await backing.sync() == backing.revision == 3

    async def test_a_record_has_all_that_was_written(self, backing: Backing):
        """A put's creation revision is its own unless it is given; version, lease and bytes are kept."""
        value = (
            b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"1"}}'
        )
        await backing.append(put(A, value))
        await backing.grant(LeaseRecord(7, 60))
        await backing.append(Transaction([Write(LEASED, b"\x00\xff", lease=7, version=1)], [(LEASED, 0)]))
        await backing.append(put(A, value, at=2, created=2, version=2))
        assert await backing.at(4) == [
            Record(A, value, 2, 4, 2, 0), Record(LEASED, b"\x00\xff", 3, 3, 1, 7)
        ]  # fmt: skip

    async def test_keys_of_one_transaction_share_a_revision(self, backing: Backing):
        """Puts and deletes of one transaction are at one revision, in the order of the writes."""
        await backing.append(put(B))
        writes = [Write(C, b"{}", version=1), Write(B, None), Write(A, b"{}", version=1)]
        assert await backing.append(Transaction(writes, [(A, 0), (B, 2), (C, 0)])) == 3
        commit = Commit(
            3, [Record(C, b"{}", 3, 3, 1, 0), Record(B, None, 0, 3, 0, 0), Record(A, b"{}", 3, 3, 1, 0)]
        )
        assert list(await backing.history(2, 10)) == [commit]
        assert await keys_at(backing, 3) == [A, C]

    @pytest.mark.parametrize(
        "stale", [put(A), put(A, at=2), delete(A, 2)], ids=["create", "update", "delete"]
    )
    async def test_a_stale_expectation_writes_nothing(self, backing: Backing, stale: Transaction):
        """A key at another revision than expected is a conflict; no other key is written either."""
        await backing.append(put(A))
        await backing.append(put(A, at=2, created=2, version=2))
        with pytest.raises(ConflictError):
            await backing.append(
                Transaction([Write(B, b"{}", version=1), *stale.writes], [(B, 0), *stale.expected])
            )
        assert (backing.revision, await keys_at(backing, 3)) == (3, [A])

    async def test_keys_that_are_only_read_count(self, backing: Backing):
        """An expectation of a key that is not written is checked as well."""
        await backing.append(put(A))
        with pytest.raises(ConflictError):
            await backing.append(Transaction([Write(B, b"{}", version=1)], [(B, 0), (A, 0)]))
        assert await backing.append(Transaction([Write(B, b"{}", version=1)], [(B, 0), (A, 2)])) == 3

    async def test_a_deleted_key_does_not_exist(self, backing: Backing):
        """After its deletion a key is expected at 0, and has a life of its own."""
        await backing.append(put(A))
        await backing.append(delete(A, 2))
        with pytest.raises(ConflictError):
            await backing.append(put(A, at=3))
        assert await backing.append(put(A)) == 4
        assert [record.created for record in await backing.at(4)] == [4]

    async def test_since_refuses_anything_newer(self, backing: Backing):
        """A transaction that rests on a range conflicts with any later write, of any key."""
        await backing.append(put(A))
        await backing.append(put(B))
        with pytest.raises(ConflictError):
            await backing.append(Transaction([Write(C, b"{}", version=1)], [(C, 0)], since=2))
        assert await backing.append(Transaction([Write(C, b"{}", version=1)], [(C, 0)], since=3)) == 4

    async def test_nothing_to_write_takes_no_revision(self, backing: Backing):
        """A transaction without writes is checked, and answers the newest revision."""
        await backing.append(put(A))
        assert await backing.append(Transaction([], [(A, 2)])) == 2
        with pytest.raises(ConflictError):
            await backing.append(Transaction([], [(A, 0)]))
        assert backing.revision == 2

    async def test_of_concurrent_writers_of_one_key_one_wins(self, backing: Backing):
        """Revisions have no gaps, whoever loses."""
        results = await asyncio.gather(*(backing.append(put(A)) for _ in range(20)), return_exceptions=True)
        assert [result for result in results if isinstance(result, int)] == [2]
        assert sum(isinstance(result, ConflictError) for result in results) == 19
        assert await backing.append(put(B)) == 3


class TestReading:
    async def test_states_of_the_past(self, backing: Backing):
        """Each revision has what existed then, sorted by key, in any range."""
        await backing.append(put(B, b"1"))
        await backing.append(put(A, b"2"))
        await backing.append(put(B, b"3", at=2, created=2, version=2))
        await backing.append(delete(A, 3))
        await backing.append(put(C, b"5"))
        assert [await keys_at(backing, revision) for revision in range(1, 7)] == [
            [], [B], [A, B], [A, B], [B], [B, C]
        ]  # fmt: skip
        assert [record.value for record in await backing.at(3)] == [b"2", b"1"]
        assert await keys_at(backing, 4, B, C) == [B]
        assert await keys_at(backing, 4, A, B) == [A]
        assert await keys_at(backing, 6, B, ALL_KEYS) == [B, C]
        assert await keys_at(backing, 6, C, b"") == [C]
        assert await keys_at(backing, 6, A, b"") == []
        with pytest.raises(FutureRevisionError):
            await backing.at(7)

    async def test_history_is_read_in_pieces(self, backing: Backing):
        """Transactions come oldest first, at most as many as wanted."""
        for number in range(5):
            await backing.append(put(A, at=number + 1 if number else 0, created=2, version=number + 1))
        revisions = [commit.revision for commit in await backing.history(2, 3)]
        assert revisions == [3, 4, 5]
        assert [commit.revision for commit in await backing.history(5, 3)] == [6]
        assert list(await backing.history(6, 3)) == []

    async def test_the_listener_gets_all_commits_in_order(self, backing: Backing):
        """A commit has been given to the listener, with `revision` moved, before its append returns."""
        seen: list[Commit] = []

        def listener(commits: Sequence[Commit]) -> None:
            assert backing.revision >= commits[-1].revision
            seen.extend(commits)

        backing.subscribe(listener, no_leap)
        await asyncio.gather(
            *(backing.append(put(b"/registry/configmaps/default/%d" % n)) for n in range(30))
        )
        assert [commit.revision for commit in seen] == list(range(2, 32))
        assert await backing.append(put(A)) == seen[-1].revision == 32
        assert list(await backing.history(1, 100)) == seen


class TestCompaction:
    async def test_older_states_cannot_be_read(self, backing: Backing):
        """The compacted revision itself and all after it stay readable, its deletions included."""
        await backing.append(put(A, b"1"))
        await backing.append(put(A, b"2", at=2, created=2, version=2))
        await backing.append(put(B))
        await backing.append(delete(B, 4))
        await backing.append(put(A, b"3", at=3, created=2, version=3))
        await backing.compact(4)
        assert backing.compacted == 4
        for revision in (1, 3):
            with pytest.raises(CompactedError):
                await backing.at(revision)
        assert [record.value for record in await backing.at(4)] == [b"2", b"{}"]
        assert await keys_at(backing, 5) == [A]
        with pytest.raises(CompactedError):
            await backing.history(2, 10)
        assert [commit.revision for commit in await backing.history(4, 10)] == [5, 6]
        assert [commit.revision for commit in await backing.history(3, 10)] == [4, 5, 6]

    @pytest.mark.parametrize(
        ("revision", "error"), [(2, CompactedError), (1, CompactedError), (9, FutureRevisionError)]
    )
    async def test_bounds(self, backing: Backing, revision: int, error: type[Exception]):
        """Compaction goes forward only, and not past the newest revision."""
        await backing.append(put(A))
        await backing.append(put(B))
        await backing.compact(2)
        with pytest.raises(error):
            await backing.compact(revision)
        assert backing.compacted == 2

    async def test_it_goes_on_from_a_deletion(self, backing: Backing):
        """A key that was deleted at the compacted revision is gone for the next compaction."""
        await backing.append(put(A))
        await backing.append(delete(A, 2))
        await backing.append(put(B))
        await backing.compact(3)
        assert [commit.revision for commit in await backing.history(2, 10)] == [3, 4]
        await backing.compact(4)
        assert await keys_at(backing, 4) == [B]

    async def test_keys_outlive_it(self, backing: Backing):
        """A key that exists at the compacted revision has its creation revision and version after it."""
        await backing.append(put(A, b"1"))
        await backing.append(put(A, b"2", at=2, created=2, version=2))
        await backing.compact(3)
        assert await backing.at(3) == [Record(A, b"2", 2, 3, 2, 0)]
        assert await backing.append(put(A, b"3", at=3, created=2, version=3)) == 4


class TestLeases:
    async def test_leases_are_kept_until_they_are_revoked(self, backing: Backing):
        """Revocation and the deletion of the lease's keys are one transaction."""
        await backing.grant(LeaseRecord(9, 5))
        await backing.grant(LeaseRecord(3, 60))
        assert list(await backing.leases()) == [LeaseRecord(3, 60), LeaseRecord(9, 5)]
        await backing.append(Transaction([Write(LEASED, b"x", lease=9, version=1)], [(LEASED, 0)]))
        assert await backing.append(Transaction([Write(LEASED, None)], [(LEASED, 2)], revokes=9)) == 3
        assert list(await backing.leases()) == [LeaseRecord(3, 60)]

    async def test_a_lease_without_keys_takes_no_revision(self, backing: Backing):
        """Its revocation is kept all the same."""
        await backing.grant(LeaseRecord(9, 5))
        assert await backing.append(Transaction([], [], revokes=9)) == 1
        assert list(await backing.leases()) == []

    async def test_a_conflict_revokes_nothing(self, backing: Backing):
        """The lease stays if the deletion of its keys is refused."""
        await backing.grant(LeaseRecord(9, 5))
        with pytest.raises(ConflictError):
            await backing.append(Transaction([Write(LEASED, None)], [(LEASED, 2)], revokes=9))
        assert list(await backing.leases()) == [LeaseRecord(9, 5)]
