"""Evaluates puts, deletions and transactions on the keyspace, into a transaction of the backing and an
answer.

Answers are made once the revision is known; the transaction holds everything that they rest on
(server/etcdserver/txn/txn.go and server/storage/mvcc/kvstore_txn.go, 3.6).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kubeskew.apiserver.storage.etcd import errors
from kubeskew.apiserver.storage.etcd.backing import ALL_KEYS, Transaction, Write
from kubeskew.apiserver.storage.etcd.errors import EtcdError
from kubeskew.apiserver.storage.etcd.keyspace import Keyspace
from kubeskew.apiserver.storage.etcd.messages.rpc_pb2 import (
    Compare,
    DeleteRangeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
)
from kubeskew.apiserver.storage.etcd.wire import KVS, PREV_KVS, Headers, State, field, message

Comparable = TypeVar("Comparable", bytes, int)
Interval = tuple[bytes, bytes]
Past = tuple[int, bytes, bytes]  # a read of a revision that is not in memory any more

_NOTHING = State(b"", b"", 0, 0, 0, 0)
_SORT_KEYS: Sequence[Callable[[State], bytes | int]] = (
    lambda state: state.key,
    lambda state: state.version,
    lambda state: state.created,
    lambda state: state.revision,
    lambda state: state.value or b"",
)


class PastNeededError(Exception):
    """The evaluation is to be repeated with a state of the past that the backing has."""

    def __init__(self, past: Past) -> None:
        super().__init__(past)
        self.past = past


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a range. `count` is etcd's: of what is there before filters and limit."""

    states: Sequence[State]
    count: int
    more: bool
    keys_only: bool

    def body(self) -> bytes:
        """RangeResponse after its header."""
        pieces: list[bytes] = []
        if self.keys_only:
            for state in self.states:
                pieces += (KVS, state.encoded_without_value())
        else:
            for state in self.states:
                pieces.append(KVS)
                pieces += state.pieces
        if self.more:
            pieces.append(b"\x18\x01")
        pieces.append(field(b"\x20", self.count))
        return b"".join(pieces)


def find(request: RangeRequest, read: Callable[[int], tuple[Sequence[State], int]]) -> Found:
    """Applies the options of a range to `read`, which takes a limit (0: none) and counts all keys."""
    filtered = bool(
        request.min_mod_revision
        or request.max_mod_revision
        or request.min_create_revision
        or request.max_create_revision
    )
    limit = request.limit if request.limit > 0 else 0
    if request.count_only:
        return Found((), read(-1)[1], False, False)
    wanted = 0 if filtered or request.sort_order or not limit else limit + 1
    states, count = read(wanted)
    if wanted:  # so that only these are sorted, as in etcd
        states = states[:wanted]
    if filtered:
        states = [state for state in states if _passes(request, state)]
    if request.sort_order == RangeRequest.DESCEND or request.sort_target != RangeRequest.KEY:
        key = _SORT_KEYS[request.sort_target]
        states = sorted(states, key=key, reverse=request.sort_order == RangeRequest.DESCEND)
    more = bool(limit) and len(states) > limit
    return Found(states[:limit] if more else states, count, more, request.keys_only)


def _passes(request: RangeRequest, state: State) -> bool:
    return not (
        (request.max_mod_revision and state.revision > request.max_mod_revision)
        or (request.min_mod_revision and state.revision < request.min_mod_revision)
        or (request.max_create_revision and state.created > request.max_create_revision)
        or (request.min_create_revision and state.created < request.min_create_revision)
    )


class Result:
    """An answer's part: bytes after the header, once the revision is known, and that header."""

    __slots__ = ("body", "changed", "tag")

    def __init__(self, tag: bytes, changed: bool, body: Callable[[], bytes]) -> None:
        self.tag = tag  # in ResponseOp
        self.changed = changed  # whether its transaction had changed anything by then
        self.body = body


class Evaluation:
    """One request on the newest state. `leases` has those that exist, `past` what the backing read."""

    def __init__(
        self, keyspace: Keyspace, leases: Collection[int], past: Mapping[Past, Sequence[State]]
    ) -> None:
        self._keyspace = keyspace
        self._leases = leases
        self._past = past
        self._next = keyspace.revision + 1
        self._written: dict[bytes, State] = {}  # in order; deleted keys have no value
        self._expected: dict[bytes, int] = {}
        self._on_ranges = False
        self._changed = False

    def transaction(self, revokes: int = 0, renewals: int | None = None) -> Transaction:
        """With a lease that it revokes nothing may have been written since: its keys must be all of them."""
        writes = [
            Write(
                state.key, state.value, 0 if state.created == self._next else state.created, state.version,
                state.lease,
            )
            for state in self._written.values()
            if state.value is not None or self._expected[state.key]
        ]  # fmt: skip
        since = self._keyspace.revision if self._on_ranges or revokes else None
        leases = dict.fromkeys(write.lease for write in writes if write.lease in self._leases)
        return Transaction(writes, [*self._expected.items()], since, revokes, renewals, [*leases])

    def committed(self, revision: int) -> None:
        """States are encoded as of the revision that they got."""
        for state in self._written.values():
            state.moved(revision)

    # reading

    def _state(self, key: bytes) -> State | None:
        """The newest state of one key, as this transaction has left it."""
        state = self._written.get(key)
        if state is None:
            state = self._keyspace.live.get(key)
            self._expected.setdefault(key, state.revision if state else 0)
            return state
        return state if state.value is not None else None

    def _states(self, key: bytes, end: bytes) -> Sequence[State]:
        if not end:
            state = self._state(key)
            return [] if state is None else [state]
        self._on_ranges = True
        states = self._keyspace.current(key, end)
        if not self._written:
            return states
        merged = {state.key: state for state in states}
        merged |= {
            name: state
            for name, state in self._written.items()
            if key <= name and (end == ALL_KEYS or name < end)
        }
        return [merged[name] for name in sorted(merged) if merged[name].value is not None]

    def _read(self, request: RangeRequest) -> Callable[[int], tuple[Sequence[State], int]]:
        keyspace = self._keyspace
        key, end, revision = request.key, request.range_end, request.revision
        if revision <= 0 or (revision == keyspace.revision and not self._written):

            def newest(limit: int) -> tuple[Sequence[State], int]:
                if end and not self._written and limit:
                    self._on_ranges = True
                    page = keyspace.current_page(key, end, limit) if limit > 0 else []
                    return page, keyspace.count(key, end)
                states = self._states(key, end)
                return states, len(states)

            return newest
        if revision < keyspace.floor:
            past = (revision, key, end)
            if past not in self._past:
                raise PastNeededError(past)
            states = list(self._past[past])
        else:
            states = keyspace.at(revision, key, end)
        return lambda _: (states, len(states))

    def range(self, request: RangeRequest) -> Found:
        """A range by itself, or of a transaction."""
        revision = request.revision
        if revision > self._keyspace.revision:
            raise EtcdError(errors.FUTURE_REVISION)
        if 0 < revision < self._keyspace.compacted:
            raise EtcdError(errors.COMPACTED)
        if self._written and _on_revisions(request):
            self._on_ranges = True
        return find(request, self._read(request))

    # writing

    def put(self, request: PutRequest) -> Result:
        key = request.key
        if request.lease and request.lease not in self._leases:
            raise EtcdError(errors.LEASE_NOT_FOUND)
        previous = self._state(key)
        if previous is None and (request.ignore_value or request.ignore_lease):
            raise EtcdError(errors.KEY_NOT_FOUND)
        value, lease = request.value, request.lease
        if previous is not None:
            if request.ignore_value:
                value = previous.value or b""
            if request.ignore_lease:
                lease = previous.lease
        created, version = (previous.created, previous.version + 1) if previous else (self._next, 1)
        self._write(State(key, value, created, self._next, version, lease))
        if request.prev_kv and previous is not None:
            shown = previous
            return Result(b"\x12", True, lambda: KVS + shown.encoded())
        return Result(b"\x12", True, bytes)

    def delete(self, request: DeleteRangeRequest) -> Result:
        states = self._states(request.key, request.range_end)
        for state in states:
            self._write(State(state.key, None, 0, self._next, 0, 0))

        def body() -> bytes:
            shown = [PREV_KVS + state.encoded() for state in states] if request.prev_kv else []
            return field(b"\x10", len(states)) + b"".join(shown)

        return Result(b"\x1a", self._changed, body)

    def _write(self, state: State) -> None:
        self._state(state.key)
        self._changed = True
        self._written.pop(state.key, None)
        self._written[state.key] = state

    # transactions

    def txn(self, request: TxnRequest) -> Result:
        """The checks of a whole transaction come before its first write, and all compares see the state
        before it.
        """
        path = self._compare(request)
        self._check(request, iter(path))
        return self._execute(request, iter(path))

    def _compare(self, request: TxnRequest) -> list[bool]:
        """The outcomes of all transactions that will be executed, in the order of their execution."""
        succeeded = all(self._holds(compare) for compare in request.compare)
        path = [succeeded]
        for operation in request.success if succeeded else request.failure:
            if operation.HasField("request_txn"):
                path += self._compare(operation.request_txn)
        return path

    def _holds(self, compare: Compare) -> bool:
        states = self._states(compare.key, compare.range_end)
        if not states:
            return compare.target != Compare.VALUE and _holds(compare, _NOTHING)
        return all(_holds(compare, state) for state in states)

    def _check(self, request: TxnRequest, path: Iterable[bool]) -> None:
        outcomes = iter(path)
        for operation in request.success if next(outcomes) else request.failure:
            kind = operation.WhichOneof("request")
            if kind == "request_txn":
                self._check(operation.request_txn, outcomes)
            elif kind == "request_range":
                self._check_revision(operation.request_range.revision)
            elif kind == "request_put":
                self._check_put(operation.request_put)

    def _check_revision(self, revision: int) -> None:
        if revision > self._keyspace.revision:
            raise EtcdError(errors.FUTURE_REVISION)
        if revision and revision < self._keyspace.compacted:
            raise EtcdError(errors.COMPACTED)

    def _check_put(self, request: PutRequest) -> None:
        if (request.ignore_value or request.ignore_lease) and self._state(request.key) is None:
            raise EtcdError(errors.KEY_NOT_FOUND)
        if request.lease and request.lease not in self._leases:
            raise EtcdError(errors.LEASE_NOT_FOUND)

    def _execute(self, request: TxnRequest, path: Iterable[bool]) -> Result:
        outcomes = iter(path)
        succeeded = next(outcomes)
        operations = request.success if succeeded else request.failure
        results = [self._operation(operation, outcomes) for operation in operations]  # each sees those before
        return Result(
            b"\x22",
            self._changed,
            lambda: b"\x10\x01" * succeeded + b"".join(map(self._answered, results)),
        )

    def _operation(self, operation: RequestOp, outcomes: Iterable[bool]) -> Result:
        kind = operation.WhichOneof("request")
        if kind == "request_put":
            return self.put(operation.request_put)
        if kind == "request_range":
            found = self.range(operation.request_range)
            return Result(b"\x0a", self._changed, found.body)
        if kind == "request_delete_range":
            return self.delete(operation.request_delete_range)
        return self._execute(operation.request_txn, outcomes)

    def _answered(self, result: Result) -> bytes:
        """ResponseOp under its tag in TxnResponse. A nested transaction's header is empty."""
        revision = 0 if result.tag == b"\x22" else self._begin + result.changed
        answer = message(result.tag, Headers.inner(revision) + result.body())
        return message(b"\x1a", answer)

    @property
    def _begin(self) -> int:
        """The revision before the transaction."""
        for state in self._written.values():
            return state.revision - 1
        return self._keyspace.revision


def _on_revisions(request: RangeRequest) -> bool:
    """True if the answer depends on the revision that this very transaction gets."""
    return bool(
        request.min_mod_revision
        or request.max_mod_revision
        or request.min_create_revision
        or request.max_create_revision
    )


def _holds(compare: Compare, state: State) -> bool:
    order = _order(compare, state)
    if compare.result == Compare.EQUAL:
        return order == 0
    if compare.result == Compare.NOT_EQUAL:
        return order != 0
    if compare.result == Compare.GREATER:
        return order > 0
    return order < 0 if compare.result == Compare.LESS else True


def _order(compare: Compare, state: State) -> int:
    """Below 0 if what the state has comes before what the comparison names, 0 if it is the same."""
    target = compare.target
    if target == Compare.VALUE:
        return _sign(state.value or b"", compare.value)
    if target == Compare.CREATE:
        return _sign(state.created, compare.create_revision)
    if target == Compare.MOD:
        return _sign(state.revision, compare.mod_revision)
    if target == Compare.VERSION:
        return _sign(state.version, compare.version)
    return _sign(state.lease, compare.lease) if target == Compare.LEASE else 0


def _sign(have: Comparable, want: Comparable) -> int:
    return (have > want) - (have < want)
