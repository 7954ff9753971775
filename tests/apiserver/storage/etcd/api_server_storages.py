"""Requests of an API server to its storage, in the words of our store, and as a kube-apiserver asks etcd.

Each call of the second kind is the request that upstream's etcd3 store makes for it
(k8s.io/apiserver/pkg/storage/etcd3/store.go and watcher.go, 1.36).
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import orjson
from etcd_calls import LocalClient, RefusedError, Stream
from storage_cases import create, delete, update

from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.sorted_keys import prefix_end
from kubeskew.apiserver.storage.interfaces import (
    CompactedError,
    FutureRevisionError,
    RevisionMismatchError,
    Watch,
)
from kubeskew.apiserver.storage.records import Change, Entry, Event, Key, Verb
from kubeskew.apiserver.storage.store import CachedStore

RESOURCE = "pods"
COMPACTED, FUTURE = "compacted", "future"


class TooOldOrNewError(Exception):
    """A revision is not there: COMPACTED or FUTURE."""


class ConflictError(Exception):
    """A write was refused; `current` is what is there."""

    def __init__(self, current: "Found | None") -> None:
        super().__init__(current)
        self.current = current


class Found(NamedTuple):
    path: str
    number: int  # of the object's content
    revision: int


class Listed(NamedTuple):
    revision: int
    paths: list[str]
    remaining: int


class Seen(NamedTuple):
    """An event of a watch; `before` is the content that was there, None for none."""

    kind: str
    path: str
    number: int | None
    before: int | None
    revision: int


def value_of(path: str, number: int) -> bytes:
    namespace, _, name = path.rpartition("/")
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{path}"}
    return orjson.dumps({
        "kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"priority": number},
    })  # fmt: skip


def number_of(value: bytes) -> int:
    return int(orjson.loads(value)["spec"]["priority"])


def key_of(path: str) -> Key:
    namespace, _, name = path.rpartition("/")
    return Key(RESOURCE, namespace, name)


class Watching(Protocol):
    async def seen(self, count: int) -> Sequence[Seen]:
        """The next events. Raises TooOldOrNewError once there are no more."""
        ...

    async def close(self) -> None: ...


class Storage(Protocol):
    """Paths are NAMESPACE/NAME; a scope is a namespace, a path, or empty for all."""

    async def create(self, path: str, number: int) -> int: ...

    async def update(self, path: str, number: int, expected: int) -> int: ...

    async def delete(self, path: str, expected: int) -> int: ...

    async def get(self, path: str) -> Found | None: ...

    async def listed(
        self, namespace: str = "", *, revision: int = 0, after: str = "", limit: int = 0
    ) -> Listed: ...

    async def watch(self, scope: str, since: int) -> Watching: ...

    async def compact(self, revision: int) -> None:
        """Makes older revisions unreadable."""
        ...


class InStore:
    def __init__(self, store: CachedStore) -> None:
        self.store = store

    async def _written(self, change: Change) -> int:
        try:
            return (await self.store.write(change)).revision
        except RevisionMismatchError as error:
            raise ConflictError(_found(error.current)) from error

    async def create(self, path: str, number: int) -> int:
        return await self._written(create(key_of(path), value_of(path, number), f"uid-{path}"))

    def _at(self, path: str, expected: int) -> Entry:
        return Entry(key_of(path), f"uid-{path}", expected, expected, b"")

    async def update(self, path: str, number: int, expected: int) -> int:
        return await self._written(update(self._at(path, expected), value_of(path, number)))

    async def delete(self, path: str, expected: int) -> int:
        await self.store.refresh()
        current = self.store.get(key_of(path))
        return await self._written(delete(current or self._at(path, expected), expected))

    async def get(self, path: str) -> Found | None:
        await self.store.refresh()
        return _found(self.store.get(key_of(path)))

    async def listed(
        self, namespace: str = "", *, revision: int = 0, after: str = "", limit: int = 0
    ) -> Listed:
        newest = await self.store.refresh()
        place = key_of(after) if after else None
        try:
            page = await self.store.list_at(revision or newest, RESOURCE, namespace or None, place, limit)
        except CompactedError as error:
            raise TooOldOrNewError(COMPACTED) from error
        except FutureRevisionError as error:
            raise TooOldOrNewError(FUTURE) from error
        return Listed(page.revision, [entry.key.path for entry in page.entries], page.remaining)

    async def watch(self, scope: str, since: int) -> "InStoreWatch":
        await self.store.refresh()
        namespace, _, name = scope.rpartition("/") if "/" in scope else (scope, "", "")
        try:
            watch = self.store.watch(RESOURCE, namespace or None, name or None, since)
        except CompactedError as error:
            raise TooOldOrNewError(COMPACTED) from error
        return InStoreWatch(self.store, watch)

    async def compact(self, revision: int) -> None:
        await self.store.compact(revision)


def _found(entry: Entry | None) -> Found | None:
    return None if entry is None else Found(entry.key.path, number_of(entry.value), entry.revision)


class InStoreWatch:
    def __init__(self, store: CachedStore, watch: Watch) -> None:
        self._store = store
        self._watch = watch
        self._events: list[Event] = []

    async def seen(self, count: int) -> Sequence[Seen]:
        await self._store.refresh()
        async with asyncio.timeout(10):
            while len(self._events) < count:
                self._events += await anext(aiter(self._watch))
        taken, self._events = self._events[:count], self._events[count:]
        return [_seen(event) for event in taken]

    async def close(self) -> None:
        self._watch.close()


def _seen(event: Event) -> Seen:
    before = None if event.previous_value is None else number_of(event.previous_value)
    gone = event.verb is Verb.DELETE
    number = None if gone else number_of(event.value)
    return Seen(event.verb.value, event.key.path, number, before, event.revision)


PREFIX = f"/registry/{RESOURCE}/"


class InEtcd:
    def __init__(self, client: LocalClient) -> None:
        self.client = client

    async def _txn(self, path: str, expected: int, change: pb.RequestOp) -> int:
        """Upstream's transaction: on the revision, else the object as it is."""
        key = f"{PREFIX}{path}".encode()
        request = pb.TxnRequest(
            compare=[pb.Compare(key=key, target=pb.Compare.MOD, mod_revision=expected)],
            success=[change],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key))],
        )
        answer = await self.client.call(request)
        if answer.succeeded:
            return int(answer.header.revision)
        kvs = answer.responses[0].response_range.kvs
        raise ConflictError(_kv(kvs[0]) if kvs else None)

    def _put(self, path: str, number: int) -> pb.RequestOp:
        value = value_of(path, number) + b"\n"
        return pb.RequestOp(request_put=pb.PutRequest(key=f"{PREFIX}{path}".encode(), value=value))

    async def create(self, path: str, number: int) -> int:
        return await self._txn(path, 0, self._put(path, number))

    async def update(self, path: str, number: int, expected: int) -> int:
        return await self._txn(path, expected, self._put(path, number))

    async def delete(self, path: str, expected: int) -> int:
        removal = pb.DeleteRangeRequest(key=f"{PREFIX}{path}".encode())
        return await self._txn(path, expected, pb.RequestOp(request_delete_range=removal))

    async def get(self, path: str) -> Found | None:
        answer = await self.client.call(pb.RangeRequest(key=f"{PREFIX}{path}".encode()))
        return _kv(answer.kvs[0]) if answer.kvs else None

    async def listed(
        self, namespace: str = "", *, revision: int = 0, after: str = "", limit: int = 0
    ) -> Listed:
        prefix = f"{PREFIX}{namespace}/" if namespace else PREFIX
        begin = f"{PREFIX}{after}\0" if after else prefix
        end = prefix_end(prefix.encode())
        request = pb.RangeRequest(key=begin.encode(), range_end=end, revision=revision, limit=limit)
        try:
            answer = await self.client.call(request)
        except RefusedError as error:
            raise TooOldOrNewError(_misplaced(str(error))) from error
        paths = [_kv(kv).path for kv in answer.kvs]
        return Listed(revision or answer.header.revision, paths, answer.count - len(paths))

    async def watch(self, scope: str, since: int) -> "InEtcdWatch":
        key = f"{PREFIX}{scope}"
        if "/" not in scope:
            key = f"{PREFIX}{scope}/" if scope else PREFIX
        end = b"" if "/" in scope else prefix_end(key.encode())
        stream = self.client.watch()
        stream.send(
            pb.WatchRequest(
                create_request=pb.WatchCreateRequest(
                    key=key.encode(), range_end=end, start_revision=since + 1, prev_kv=True
                )
            )
        )
        created = await stream.next()
        if created.canceled:
            raise TooOldOrNewError(COMPACTED)
        return InEtcdWatch(stream)

    async def compact(self, revision: int) -> None:
        await self.client.call(pb.CompactionRequest(revision=revision))


def _misplaced(text: str) -> str:
    return COMPACTED if "has been compacted" in text else FUTURE if "is a future revision" in text else text


def _kv(kv: pb.KeyValue) -> Found:
    return Found(kv.key.decode().removeprefix(PREFIX), number_of(kv.value), kv.mod_revision)


class InEtcdWatch:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._events: list[Seen] = []

    async def seen(self, count: int) -> Sequence[Seen]:
        while len(self._events) < count:
            answer = await self._stream.next()
            if answer.canceled:
                raise TooOldOrNewError(COMPACTED if answer.compact_revision else answer.cancel_reason)
            self._events += map(_event, answer.events)
        taken, self._events = self._events[:count], self._events[count:]
        return taken

    async def close(self) -> None:
        await self._stream.close()


def _event(event: pb.Event) -> Seen:
    """Upstream reads the kind from the create revision, and the state before a deletion from `prev_kv`."""
    kv, gone = event.kv, event.type == pb.Event.DELETE
    kind = "delete" if gone else "create" if kv.create_revision == kv.mod_revision else "update"
    before = number_of(event.prev_kv.value) if event.HasField("prev_kv") else None
    path = kv.key.decode().removeprefix(PREFIX)
    return Seen(kind, path, None if gone else number_of(kv.value), before, kv.mod_revision)
