"""Histories of concurrent clients of etcd's API, and what has to hold for them."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any

from etcd_calls import Client, RefusedError
from etcd_model import Item, Items, State, neutral
from linearizability import Operation, linearized

from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb

Request = pb.PutRequest | pb.DeleteRangeRequest | pb.RangeRequest | pb.TxnRequest
NAMES = (b"a", b"b", b"c", b"d")
END = b"end"  # is put last of all
UNKNOWN = ("UNAVAILABLE", "CANCELLED")  # what such a call did is not known


class Requests:
    """Draws requests about a few keys. `known` is where clients last saw them, which may be long ago.

    In the log some values are objects of the API and some are not, at the same keys.
    """

    def __init__(self, seed: int, prefix: bytes, base: int) -> None:
        self.draw = random.Random(seed)
        self.prefix = prefix
        self.end = prefix[:-1] + bytes([prefix[-1] + 1])
        self.known: dict[bytes, int] = {}
        self.newest = base
        self._base = base
        self._numbers = count(1)

    def next(self) -> Request:
        draw = self.draw
        kinds: Sequence[Callable[[bytes], Request]] = (
            self.put, self.put, self.read, self.read, self.past, self.create, self.create, self.update,
            self.update, self.update, self.remove, self.delete, self.all, self.pair, self.clear,
        )  # fmt: skip
        kind = draw.choice(kinds)
        if kind == self.clear and draw.randrange(2):
            kind = self.all
        return kind(self.key())

    def key(self) -> bytes:
        return self.prefix + self.draw.choice(NAMES)

    def put(self, key: bytes) -> pb.PutRequest:
        """Each value is another one."""
        number = next(self._numbers)
        value = b"%d" % number
        if self.draw.randrange(3):
            metadata = {"name": key.decode().rpartition("/")[2], "uid": f"{number}"}
            value = json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}).encode()
        return pb.PutRequest(key=key, value=value, prev_kv=not self.draw.randrange(3))

    def read(self, key: bytes) -> pb.RangeRequest:
        return pb.RangeRequest(key=key)

    def past(self, key: bytes) -> pb.RangeRequest:
        revision = max(self._base, self.newest + self.draw.randrange(-4, 2))
        return pb.RangeRequest(key=self.prefix, range_end=self.end, revision=revision)

    def all(self, key: bytes) -> pb.RangeRequest:
        return pb.RangeRequest(key=self.prefix, range_end=self.end, limit=self.draw.choice((0, 0, 2)))

    def delete(self, key: bytes) -> pb.DeleteRangeRequest:
        return pb.DeleteRangeRequest(key=key, prev_kv=not self.draw.randrange(3))

    def clear(self, key: bytes) -> pb.DeleteRangeRequest:
        return pb.DeleteRangeRequest(key=self.prefix, range_end=self.end, prev_kv=True)

    def create(self, key: bytes) -> pb.TxnRequest:
        return _txn([_at(key, 0)], [self.put(key)], [self.read(key)])

    def update(self, key: bytes) -> pb.TxnRequest:
        return _txn([_at(key, self.known.get(key, 0))], [self.put(key)], [self.read(key)])

    def remove(self, key: bytes) -> pb.TxnRequest:
        return _txn([_at(key, self.known.get(key, 0))], [self.delete(key)], [self.read(key)])

    def pair(self, key: bytes) -> pb.TxnRequest:
        other = self.prefix + self.draw.choice([name for name in NAMES if self.prefix + name != key])
        version = pb.Compare(key=other, target=pb.Compare.VERSION, version=1, result=pb.Compare.GREATER)
        changes = [self.put(key), self.draw.choice((self.put, self.delete))(other), self.all(key)]
        return _txn([_at(key, self.known.get(key, 0)), version], changes, [self.put(other), self.read(key)])

    def learn(self, answer: Any) -> None:
        """Takes over where an answer says that keys are."""
        if isinstance(answer, pb.TxnResponse):
            for inner in answer.responses:
                self.learn(inner.response_range)
        elif isinstance(answer, pb.RangeResponse):
            self.known.update({kv.key: kv.mod_revision for kv in answer.kvs})
        revision = answer.header.revision
        self.newest = max(self.newest, revision)


def _at(key: bytes, revision: int) -> pb.Compare:
    return pb.Compare(key=key, target=pb.Compare.MOD, mod_revision=revision)


def _txn(
    compare: Sequence[pb.Compare], success: Sequence[Request], failure: Sequence[Request]
) -> pb.TxnRequest:
    return pb.TxnRequest(compare=compare, success=map(_operation, success), failure=map(_operation, failure))


def _operation(request: Request) -> pb.RequestOp:
    match request:
        case pb.PutRequest():
            return pb.RequestOp(request_put=request)
        case pb.RangeRequest():
            return pb.RequestOp(request_range=request)
        case pb.DeleteRangeRequest():
            return pb.RequestOp(request_delete_range=request)
    raise TypeError(request)


class LostError(Exception):
    """The server is gone, and so is the answer."""


class History:
    """One history: its clients' calls, in the order in which they are made and answered, and its watches."""

    def __init__(self, seed: int, prefix: bytes, base: int) -> None:
        self.requests = Requests(seed, prefix, base)
        self.operations: list[Operation] = []
        self.watched: list[Sequence[pb.Event]] = []
        self._base = base
        self._ticks = count()

    async def call(self, client: Client, number: int, request: Request) -> None:
        """Raises LostError."""
        operation = Operation(number, request, next(self._ticks))
        self.operations.append(operation)
        try:
            operation.answer = neutral(await client.call(request))
        except RefusedError as refused:
            if str(refused).startswith(UNKNOWN):
                raise LostError from refused
            operation.answer = str(refused)
        else:
            self.requests.learn(operation.answer)
        operation.returned = next(self._ticks)

    async def end(self, client: Client) -> None:
        """The last write of all, with which every watch ends."""
        await self.call(client, -1, pb.PutRequest(key=self.requests.prefix + END))

    async def watch(self, current: Callable[[], Awaitable[Client]]) -> None:
        """Follows all keys until the end; when a stream breaks, on one of `current`, from where it was."""
        events: list[pb.Event] = []
        self.watched.append(events)
        while not events or events[-1].kv.key != self.requests.prefix + END:
            client = await current()
            stream = client.watch()
            after = events[-1].kv.mod_revision if events else self._base
            create = pb.WatchCreateRequest(
                key=self.requests.prefix, range_end=self.requests.end, start_revision=after + 1
            )
            stream.send(pb.WatchRequest(create_request=create))
            try:
                while not events or events[-1].kv.key != self.requests.prefix + END:
                    answer = await stream.received.get()
                    if answer is None:
                        break
                    assert not answer.canceled, answer
                    events += answer.events
            finally:
                await stream.close()

    def check(self) -> None:
        """An order of the calls explains all answers and the log, which all watches agree on."""
        log = states(self._base, self.watched[0])
        for events in self.watched[1:]:
            assert events == self.watched[0], "watches differ"
        linearized(self.operations, State.empty(self._base), log)


def states(base: int, events: Sequence[pb.Event]) -> dict[int, Items]:
    """The keys at each revision, by a watch of all of them, which must be without gap or repetition."""
    found: dict[int, Items] = {}
    items: dict[bytes, Item] = {}
    newest = base
    for event in events:
        kv = event.kv
        assert kv.mod_revision in (newest, newest + 1), f"{kv.mod_revision} comes after {newest}"
        newest = kv.mod_revision
        if event.type == pb.Event.DELETE:
            del items[kv.key]
        else:
            items[kv.key] = Item(kv.value, kv.create_revision, newest, kv.version)
        found[newest] = dict(items)
    return found


async def run_history(
    history: History, clients: Sequence[Client], calls: int, pause: Callable[[], Awaitable[None]]
) -> None:
    """Each client makes its calls one after the other, with pauses; on each server one watch goes along, and
    another one begins at the end.
    """

    async def work(number: int, client: Client) -> None:
        for _ in range(calls):
            await pause()
            await history.call(client, number, history.requests.next())

    def watches() -> list[asyncio.Task[None]]:
        return [asyncio.create_task(history.watch(_always(client))) for client in dict.fromkeys(clients)]

    along = watches()
    await asyncio.gather(*(work(number, client) for number, client in enumerate(clients)))
    await history.end(clients[0])
    await asyncio.gather(*along, *watches())
    history.check()


def _always(client: Client) -> Callable[[], Awaitable[Client]]:
    async def current() -> Client:
        return client

    return current
