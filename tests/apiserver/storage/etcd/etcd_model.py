"""A sequential model of etcd's keys: the answer to each request, and the state after it.

It shares nothing with our server, and knows only what histories of concurrent clients ask for: no leases, no
compaction, no nested transactions, compares of single keys.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb

FUTURE = "OUT_OF_RANGE: etcdserver: mvcc: required revision is a future revision"


class Item(NamedTuple):
    value: bytes
    created: int
    revision: int
    version: int


Items = Mapping[bytes, Item]


class State:
    """Immutable. Two states of one digest have the same keys now and at each revision before."""

    __slots__ = ("base", "digest", "items", "past")

    def __init__(self, base: int, past: Sequence[Items], digest: int) -> None:
        self.base = base  # the revision of the oldest items
        self.past = past
        self.items = past[-1]
        self.digest = digest

    @classmethod
    def empty(cls, revision: int = 1) -> Self:
        return cls(revision, ({},), 0)

    @property
    def revision(self) -> int:
        return self.base + len(self.past) - 1

    def applied(self, request: Any) -> tuple["State", Any]:
        """The state after the request, which is this one if nothing was written, and the answer: an error is
        its text. Of headers only the revision counts, and those inside of a transaction's answer not at all.
        """
        work = _Work(self)
        answer = work.answer(request)
        if isinstance(answer, str):
            return self, answer
        after = work.state()
        answer.header.revision = after.revision
        return after, answer


class _Work:
    """One request on a copy of the items."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._items = dict(state.items)
        self._next = state.revision + 1
        self._written: list[bytes] = []

    def state(self) -> State:
        if not self._written:
            return self._state
        changes = tuple((key, self._items.get(key)) for key in sorted(set(self._written)))
        digest = hash((self._state.digest, changes))
        return State(self._state.base, (*self._state.past, self._items), digest)

    def answer(self, request: Any) -> Any:
        match request:
            case pb.PutRequest():
                return self._put(request)
            case pb.DeleteRangeRequest():
                return self._delete(request)
            case pb.RangeRequest():
                return self._range(request)
        return self._txn(request)

    def _put(self, request: pb.PutRequest) -> pb.PutResponse:
        before = self._items.get(request.key)
        created, version = (before.created, before.version + 1) if before else (self._next, 1)
        self._items[request.key] = Item(request.value, created, self._next, version)
        self._written.append(request.key)
        shown = request.prev_kv and before
        return pb.PutResponse(prev_kv=_shown(request.key, before) if shown else None)

    def _delete(self, request: pb.DeleteRangeRequest) -> pb.DeleteRangeResponse:
        found = _between(self._items, request.key, request.range_end)
        shown = [_shown(key, self._items[key]) for key in found] if request.prev_kv else []
        for key in found:
            del self._items[key]
        self._written += found
        return pb.DeleteRangeResponse(deleted=len(found), prev_kvs=shown)

    def _range(self, request: pb.RangeRequest) -> pb.RangeResponse | str:
        items: Items = self._items
        if request.revision > self._state.revision:
            return FUTURE
        if request.revision:
            items = self._state.past[request.revision - self._state.base]
        found = _between(items, request.key, request.range_end)
        limit = request.limit or len(found)
        return pb.RangeResponse(
            kvs=[_shown(key, items[key]) for key in found[:limit]], count=len(found), more=limit < len(found)
        )

    def _txn(self, request: pb.TxnRequest) -> pb.TxnResponse | str:
        answer = pb.TxnResponse(succeeded=all(map(self._holds, request.compare)))
        for operation in request.success if answer.succeeded else request.failure:
            kind = str(operation.WhichOneof("request"))
            inner = self.answer(getattr(operation, kind))
            if isinstance(inner, str):
                return inner
            getattr(answer.responses.add(), kind.replace("request", "response")).CopyFrom(inner)
        return answer

    def _holds(self, compare: pb.Compare) -> bool:
        item = self._state.items.get(compare.key)
        have, want = {
            pb.Compare.MOD: (item.revision if item else 0, compare.mod_revision),
            pb.Compare.VERSION: (item.version if item else 0, compare.version),
        }[compare.target]
        return bool(
            {
                pb.Compare.EQUAL: have == want, pb.Compare.NOT_EQUAL: have != want,
                pb.Compare.GREATER: have > want, pb.Compare.LESS: have < want,
            }[compare.result]
        )  # fmt: skip


def _between(items: Items, key: bytes, end: bytes) -> list[bytes]:
    if not end:
        return [key] if key in items else []
    return sorted(name for name in items if key <= name < end)


def _shown(key: bytes, item: Item) -> pb.KeyValue:
    return pb.KeyValue(
        key=key, value=item.value, create_revision=item.created, mod_revision=item.revision,
        version=item.version,
    )  # fmt: skip


def neutral(answer: Any) -> Any:
    """Leaves of an answer what the model knows."""
    revision = answer.header.revision
    answer.ClearField("header")
    answer.header.revision = revision
    for inner in getattr(answer, "responses", ()):
        getattr(inner, str(inner.WhichOneof("response"))).ClearField("header")
    return answer
