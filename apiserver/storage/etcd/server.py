"""A server of etcd's API over a backing: reads, writes, leases and maintenance, without a network."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from google.protobuf.message import Message

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apiserver.storage.etcd import errors
from kubeskew.apiserver.storage.etcd.backing import (
    Backing,
    Commit,
    ConflictError,
    LeaseConflictError,
    LeaseRecord,
    Record,
)
from kubeskew.apiserver.storage.etcd.errors import EtcdError
from kubeskew.apiserver.storage.etcd.evaluation import Evaluation, Past, PastNeededError, Result
from kubeskew.apiserver.storage.etcd.keyspace import Keyspace, state_of
from kubeskew.apiserver.storage.etcd.leases import MAX_TTL, MIN_TTL, Lease, Leases
from kubeskew.apiserver.storage.etcd.messages.rpc_pb2 import (
    CompactionRequest,
    DeleteRangeRequest,
    LeaseGrantRequest,
    LeaseGrantResponse,
    LeaseKeepAliveRequest,
    LeaseKeepAliveResponse,
    LeaseLeasesRequest,
    LeaseLeasesResponse,
    LeaseRevokeRequest,
    LeaseRevokeResponse,
    LeaseStatus,
    LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
    PutRequest,
    RangeRequest,
    RequestOp,
    ResponseHeader,
    TxnRequest,
)
from kubeskew.apiserver.storage.etcd.request_checks import (
    MAX_REQUEST_BYTES,
    check_delete,
    check_put,
    check_range,
    check_txn,
    parsed,
)
from kubeskew.apiserver.storage.etcd.watch_streams import Watches
from kubeskew.apiserver.storage.etcd.wire import Headers, State
from kubeskew.apiserver.storage.interfaces import CompactedError, FutureRevisionError, StorageError

CLUSTER_ID = 0x6B756265736B6577
MEMBER_ID = 0x1
_RAFT_BYTES = 18  # about what etcd puts around a request before it compares its size
_WINDOW = 10_000  # commits that are read into memory at the start
_PIECE = 1000  # of them at once
_EXPIRY_SECONDS = 0.5  # between looks for leases whose time is over

Outcome = TypeVar("Outcome")

log = logging.getLogger(__name__)


class EtcdServer:
    """Answers are bytes. Calls are refused with an EtcdError."""

    def __init__(
        self,
        backing: Backing,
        keyspace: Keyspace,
        leases: Leases,
        clock: Clock,
        entropy: Entropy,
        progress: float,
    ) -> None:
        self.backing = backing
        self.keyspace = keyspace
        self.leases = leases
        self.headers = Headers(CLUSTER_ID, MEMBER_ID)
        self.watches = Watches(backing, lambda: self.keyspace, self.headers, clock, entropy, progress)
        self._clock = clock
        self._entropy = entropy
        self._busy: dict[bytes, asyncio.Future[None]] = {}  # keys that are being written
        self._alone: asyncio.Future[None] | None = None  # of a call that no other may write with
        self._granted = asyncio.Event()
        self._unknown = False  # a key has a lease that another server must have granted
        self._expiring: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, backing: Backing, clock: Clock, entropy: Entropy, *, progress_seconds: float = 600.0
    ) -> "EtcdServer":
        """Reads what exists and the newest history; from then on the backing reports what is committed."""
        await backing.renew([record.id for record in await backing.leases()], clock.now())
        leases, keyspace = await cls._loaded(backing, clock)
        server = cls(backing, keyspace, leases, clock, entropy, progress_seconds)
        backing.subscribe(server._committed, server._leapt)
        server._expiring = asyncio.create_task(server._expire())
        return server

    @staticmethod
    async def _loaded(backing: Backing, clock: Clock) -> tuple[Leases, Keyspace]:
        """Everything that has been committed, up to the call's return."""
        leaps = 0

        def leap(*_: object) -> None:
            nonlocal leaps
            leaps += 1

        while True:
            waiting: list[Commit] = []
            leaps = 0
            backing.subscribe(waiting.extend, leap)
            revision = await backing.sync()
            floor = max(backing.compacted, revision - _WINDOW, 1)
            try:
                keyspace = Keyspace(floor, backing.compacted, map(state_of, await backing.at(floor)))
                while keyspace.revision < revision:
                    for commit in await backing.history(keyspace.revision, _PIECE):
                        if commit.revision > keyspace.revision:
                            keyspace.apply(commit)
            except CompactedError:
                continue  # another process compacts meanwhile
            leases = Leases(clock, await backing.leases(), keyspace.live.values())
            if leaps:
                continue
            for commit in waiting:
                if commit.revision > keyspace.revision:
                    leases.apply(keyspace.apply(commit))
            return leases, keyspace

    async def close(self) -> None:
        if self._expiring is not None:
            self._expiring.cancel()
            with suppress(asyncio.CancelledError):
                await self._expiring
        await self.backing.close()

    def _committed(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            if commit.revision > self.keyspace.revision:
                changes = self.keyspace.apply(commit)
                self.leases.apply(changes)
                if self.leases.unknown(changes):
                    self._unknown = True
                    self._granted.set()
                self.watches.notify(commit.revision, changes)

    def _leapt(self, revision: int, records: Sequence[Record]) -> None:
        """The watches find out by themselves whether what they have not seen is still in the history."""
        following = self.keyspace.revision + 1
        self.keyspace = Keyspace(revision, self.backing.compacted, map(state_of, records))
        self.leases.attach_all(self.keyspace.live.values())
        self.watches.fall_behind(following, revision)

    def header(self, revision: int = 0) -> ResponseHeader:
        return ResponseHeader(
            cluster_id=CLUSTER_ID,
            member_id=MEMBER_ID,
            revision=revision or self.keyspace.revision,
            raft_term=1,
        )

    # KV

    async def range(self, data: bytes) -> bytes:
        request = parsed(RangeRequest, data)
        check_range(request)
        if not request.serializable:
            await self.backing.sync()
        found, revision = await self._evaluated(
            lambda evaluation: (evaluation.range(request), self.keyspace.revision)
        )
        return self.headers.header(revision) + found.body()

    async def put(self, data: bytes) -> bytes:
        request = parsed(PutRequest, data)
        check_put(request)
        _check_size(data)
        return await self._write((request.key,), lambda evaluation: evaluation.put(request))

    async def delete_range(self, data: bytes) -> bytes:
        request = parsed(DeleteRangeRequest, data)
        check_delete(request)
        _check_size(data)
        keys = None if request.range_end else (request.key,)
        return await self._write(keys, lambda evaluation: evaluation.delete(request))

    async def txn(self, data: bytes) -> bytes:
        request = parsed(TxnRequest, data)
        check_txn(request)
        if _is_large(data) and not _read_only(request):
            raise EtcdError(errors.REQUEST_TOO_LARGE)
        return await self._write(_keys(request), lambda evaluation: evaluation.txn(request))

    async def compact(self, data: bytes) -> bytes:
        request = parsed(CompactionRequest, data)
        await self.backing.sync()
        if request.revision <= self.keyspace.compacted:
            raise EtcdError(errors.COMPACTED)
        if request.revision > self.keyspace.revision:
            raise EtcdError(errors.FUTURE_REVISION)
        try:
            if request.revision > 0:
                await self.backing.compact(request.revision)
        except CompactedError as error:
            raise EtcdError(errors.COMPACTED) from error
        except FutureRevisionError as error:
            raise EtcdError(errors.FUTURE_REVISION) from error
        self.keyspace.compact(max(request.revision, 0))
        return self.headers.header(self.keyspace.revision)

    async def _evaluated(self, evaluate: Callable[[Evaluation], Outcome]) -> Outcome:
        """Evaluates, with the states of the past that turn out to be needed."""
        self._follow_compaction()
        past: dict[Past, Sequence[State]] = {}
        while True:
            try:
                return evaluate(Evaluation(self.keyspace, self.leases.by_id, past))
            except PastNeededError as error:
                past[error.past] = await self._past(error.past)

    def _follow_compaction(self) -> None:
        """Another process may have compacted the backing."""
        compacted = min(self.backing.compacted, self.keyspace.revision)
        if compacted > max(self.keyspace.compacted, 0):
            self.keyspace.compact(compacted)

    async def _past(self, past: Past) -> Sequence[State]:
        try:
            return [state_of(record) for record in await self.backing.at(*past)]
        except CompactedError as error:
            raise EtcdError(errors.COMPACTED) from error

    async def _write(
        self,
        keys: Sequence[bytes] | None,
        evaluate: Callable[[Evaluation], Result],
        revokes: int = 0,
        renewals: int | None = None,
    ) -> bytes:
        """Evaluates and commits when no other call writes one of `keys`, which are all that it is about; or,
        without them, when no other call writes at all.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._begin(keys, done)
        try:
            return await self._commit(evaluate, revokes, renewals)
        finally:
            if keys is None:
                self._alone = None
            else:
                for key in keys:
                    if self._busy.get(key) is done:
                        del self._busy[key]
            done.set_result(None)

    async def _begin(self, keys: Sequence[bytes] | None, done: "asyncio.Future[None]") -> None:
        while self._alone is not None:
            await asyncio.shield(self._alone)
        if keys is None:
            self._alone = done
            try:
                while self._busy:
                    await asyncio.shield(next(iter(self._busy.values())))
            except BaseException:
                self._alone = None
                done.set_result(None)
                raise
            return
        while (busy := next((self._busy[key] for key in keys if key in self._busy), self._alone)) is not None:
            await asyncio.shield(busy)
        for key in keys:
            self._busy[key] = done

    async def _commit(
        self, evaluate: Callable[[Evaluation], Result], revokes: int, renewals: int | None
    ) -> bytes:
        synced = False  # since the call was made; then an evaluation that writes nothing is good
        followed = False  # since then, what others did with leases
        while True:
            try:
                evaluation, result = await self._evaluated(lambda state: (state, evaluate(state)))
            except EtcdError as error:
                if followed or error.text != errors.LEASE_NOT_FOUND.text:
                    raise
                followed = True
                await self._follow_leases()
                continue
            transaction = evaluation.transaction(revokes, renewals)
            revision = self.keyspace.revision
            try:
                if transaction.writes or revokes:
                    revision = await self.backing.append(transaction)
                elif not synced:
                    synced = True
                    if revision != await self.backing.sync():
                        continue
            except ConflictError as error:
                await self.backing.sync()
                synced = True
                if isinstance(error, LeaseConflictError):
                    followed = True
                    await self._follow_leases()
                continue
            evaluation.committed(revision)
            return self.headers.header(revision) + result.body()

    # leases

    async def lease_grant(self, data: bytes) -> bytes:
        request = parsed(LeaseGrantRequest, data)
        number = request.ID
        while not number or (not request.ID and number in self.leases.by_id):
            number = int(self._entropy.random() * (1 << 53)) << 10 | 1
        if request.TTL > MAX_TTL:
            raise EtcdError(errors.LEASE_TTL_TOO_LARGE)
        record = LeaseRecord(number, max(request.TTL, MIN_TTL), 0, self._clock.now())
        kept = await self.backing.grant(record)
        if kept is None:
            raise EtcdError(errors.LEASE_EXISTS)
        self.leases.add(kept)
        self._granted.set()
        return _answer(LeaseGrantResponse(header=self.header(), ID=number, TTL=record.ttl))

    async def _follow_leases(self) -> None:
        """Takes over what other servers did with leases."""
        before = self.leases.counts()
        self.leases.follow(await self.backing.leases(), before)
        self._granted.set()

    async def lease_revoke(self, data: bytes) -> bytes:
        request = parsed(LeaseRevokeRequest, data)
        revision = await self._revoke(request.ID)
        return _answer(LeaseRevokeResponse(header=self.header(revision)))

    async def _revoke(self, number: int, renewals: int | None = None) -> int:
        """Deletes the lease's keys in one revision; returns the newest. A lease that has been renewed more
        often than `renewals` stays.
        """

        def evaluate(evaluation: Evaluation) -> Result:
            lease = self.leases.by_id.get(number)
            if lease is None or renewals not in (None, lease.renewals):
                raise EtcdError(errors.LEASE_NOT_FOUND)
            for key in self.leases.keys(number):
                evaluation.delete(DeleteRangeRequest(key=key))
            return Result(b"", True, bytes)

        await self._write(None, evaluate, number, renewals)
        self.leases.remove(number)
        return self.keyspace.revision

    async def lease_keep_alive(self, requests: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        async for data in requests:
            request = parsed(LeaseKeepAliveRequest, data)
            header = self.header()
            ttl = await self._keep_alive(request.ID)
            yield _answer(LeaseKeepAliveResponse(header=header, ID=request.ID, TTL=ttl))

    async def _keep_alive(self, number: int) -> int:
        """The time that the lease has again, 0 if there is none. One whose time is over is revoked before
        anyone is answered about it.
        """
        lease = self.leases.by_id.get(number)
        if lease is None or self._is_over(lease):
            await self._follow_leases()
            lease = self.leases.by_id.get(number)
            if lease is None:
                return 0
            if self._is_over(lease):
                with suppress(EtcdError):
                    await self._revoke(number, lease.renewals)
                    return 0
        renewals = (await self.backing.renew([number], self._clock.now())).get(number)
        lease = self.leases.by_id.get(number)
        if renewals is None or lease is None:
            self.leases.remove(number)
            return 0
        self.leases.renew(lease, renewals)
        return lease.ttl

    def _is_over(self, lease: Lease) -> bool:
        return lease.expiry <= self._clock.monotonic()

    async def lease_time_to_live(self, data: bytes) -> bytes:
        request = parsed(LeaseTimeToLiveRequest, data)
        await self._follow_leases()
        await self.backing.sync()
        answer = LeaseTimeToLiveResponse(header=self.header(), ID=request.ID)
        lease = self.leases.by_id.get(request.ID)
        if lease is None:
            answer.TTL = -1
        else:
            answer.TTL, answer.grantedTTL = self.leases.remaining(lease), lease.ttl
            if request.keys:
                answer.keys.extend(self.leases.keys(request.ID))
        return _answer(answer)

    async def lease_leases(self, data: bytes) -> bytes:
        parsed(LeaseLeasesRequest, data)
        await self._follow_leases()
        leases = [LeaseStatus(ID=lease.id) for lease in self.leases.by_expiry()]
        return _answer(LeaseLeasesResponse(header=self.header(), leases=leases))

    async def _expire(self) -> None:
        """Revokes leases when their time is over, each in a revision of its own, unless another server has
        renewed or revoked them.
        """
        while True:
            if self.leases.next_expiry() is None and not self._unknown:
                self._granted.clear()
                await self._granted.wait()
            await self._clock.sleep(_EXPIRY_SECONDS)
            over = self.leases.expired()
            if not over and not self._unknown:
                continue
            try:
                self._unknown = False
                await self._follow_leases()
            except StorageError as error:
                self._unknown = True
                log.warning("cannot read leases: %s", error)
            for lease in over:
                await self._end(lease)

    async def _end(self, lease: Lease) -> None:
        if self.leases.by_id.get(lease.id) is not lease or not self._is_over(lease):
            return
        try:
            await self._revoke(lease.id, lease.renewals)
        except EtcdError:
            pass  # somebody was faster
        except StorageError as error:
            log.warning("cannot revoke lease %x: %s", lease.id, error)
            self.leases.retry(lease)


def _check_size(data: bytes) -> None:
    if _is_large(data):
        raise EtcdError(errors.REQUEST_TOO_LARGE)


def _is_large(data: bytes) -> bool:
    return len(data) + _RAFT_BYTES > MAX_REQUEST_BYTES


def _answer(answer: Message) -> bytes:
    return answer.SerializeToString()


def _read_only(request: TxnRequest) -> bool:
    """True if no branch can write; a nested transaction counts as a writer."""
    return all(_is_range(operation) for branch in (request.success, request.failure) for operation in branch)


def _is_range(operation: RequestOp) -> bool:
    return operation.HasField("request_range")


def _keys(request: TxnRequest) -> Sequence[bytes] | None:
    """All keys that the transaction is about, or None if there are ranges or transactions in it."""
    if any(compare.range_end for compare in request.compare):
        return None
    keys = {compare.key: None for compare in request.compare}
    for branch in (request.success, request.failure):
        for operation in branch:
            kind = operation.WhichOneof("request")
            if kind == "request_txn":
                return None
            inner = getattr(operation, kind)
            if kind != "request_put" and inner.range_end:
                return None
            keys[inner.key] = None
    return list(keys)
