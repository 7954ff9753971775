"""An API server of a few lines, in memory: for tests of components, where the real one is not the subject.

It keeps objects, revisions, finalizers, the status subresource, label and field selectors, and watches that
can be cut or made too old. It does not validate, default, convert, collect garbage or know any kind.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import aiohttp
import orjson

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.client.transport import Request
from kubeskew.apimachinery.clock import Clock, Entropy, timestamp
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.objects import Object

Outage = Callable[[Request], BaseException | None]

_SUBRESOURCES = {"status", "finalize", "binding", "scale", "eviction"}


class _Answer:
    def __init__(self, status: int, content: bytes, stream: AsyncIterator[bytes] | None = None) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"Content-Type": "application/json"}
        self._content = content
        self._stream = stream

    async def body(self) -> bytes:
        return self._content

    def lines(self) -> AsyncIterator[bytes]:
        if self._stream is None:
            raise AssertionError("not a watch")
        return self._stream

    async def close(self) -> None:
        return


class _Target:
    """A request's path, taken apart: collection path without namespace, namespace, name, subresource."""

    def __init__(self, path: str) -> None:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        root, rest = (parts[:2], parts[2:]) if parts[0] == "api" else (parts[:3], parts[3:])
        if not rest:
            raise errors.unknown_path()
        self.namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _SUBRESOURCES:
            self.namespace, rest = rest[1], rest[2:]
        self.collection = "/".join([*root, rest[0]])
        self.name = rest[1] if len(rest) > 1 else ""
        self.subresource = rest[2] if len(rest) > 2 else ""
        self.api_version = "/".join(root[1:])
        self.resource = GroupResource(root[1] if len(root) == 3 else "", rest[0])

    @property
    def key(self) -> tuple[str, str, str]:
        return self.collection, self.namespace, self.name


class FakeServer:
    """A transport that answers by itself. `client()` speaks to it."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self.revision = 0
        self.horizon = 0  # watches from below it get 410
        self.requests: list[Request] = []
        self.outage: Outage | None = None  # what to raise instead of answering
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._events: list[tuple[int, str, str, Object]] = []  # revision, collection, type, object
        self._news = asyncio.Condition()
        self._cut = 0

    def client(self) -> APIClient:
        return APIClient(self, clock=self._clock)

    async def close(self) -> None:
        return

    async def disconnect(self) -> None:
        """Break all watches, as a server that goes away does."""
        async with self._news:
            self._cut += 1
            self._news.notify_all()

    def show(self, obj: Object) -> None:
        """Shows an object that is there otherwise, without a write, as a server of another version does."""
        wanted = obj["metadata"]["namespace"], obj["metadata"]["name"]
        [key] = [key for key in self._objects if key[1:] == wanted]
        self._objects[key] = obj

    def compact(self) -> None:
        """Forget all history: a watch from before now is too old."""
        self.horizon = self.revision
        self._events.clear()

    async def __call__(self, request: Request) -> _Answer:
        self.requests.append(request)
        url = urlsplit(request.target)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        try:
            if self.outage is not None and (failure := self.outage(request)) is not None:
                raise failure
            target = _Target(url.path)
            if query.get("watch"):
                return _Answer(200, b"", self._watch(target, query))
            body = orjson.loads(request.body) if request.body else None
            return _Answer(200, orjson.dumps(await self._act(request.method, target, query, body)))
        except StatusError as error:
            return _Answer(error.code, orjson.dumps(error.status()))

    async def _act(self, method: str, target: _Target, query: Mapping[str, str], body: Any) -> Object:
        if method == "GET":
            return self._found(target) if target.name else self._list(target, query)
        if method == "POST":
            return await self._create(target, body)
        if method == "PUT":
            return await self._change(target, body, body["metadata"].get("resourceVersion"))
        if method == "PATCH":
            return await self._patch(target, query, body)
        return await self._delete(target, query, body or {})

    def _found(self, target: _Target) -> Object:
        found = self._objects.get(target.key)
        if found is None:
            raise errors.not_found(target.resource, target.name)
        return found

    def _selected(self, target: _Target, query: Mapping[str, str]) -> list[Object]:
        return [
            obj
            for (collection, namespace, _), obj in self._objects.items()
            if collection == target.collection
            and target.namespace in ("", namespace)
            and _selects(query, obj)
        ]

    def _list(self, target: _Target, query: Mapping[str, str]) -> Object:
        items = [
            {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
            for obj in self._selected(target, query)
        ]
        return {"kind": "List", "metadata": {"resourceVersion": str(self.revision)}, "items": items}

    async def _create(self, target: _Target, body: Object) -> Object:
        if target.subresource:
            if target.subresource == "binding":
                bound = copy.deepcopy(self._found(target))
                bound["spec"]["nodeName"] = body["target"]["name"]
                await self._store(target.key, "MODIFIED", bound)
            return {"kind": "Status", "status": "Success"}
        obj = copy.deepcopy(body)
        metadata = obj["metadata"]
        if not metadata.get("name"):
            metadata["name"] = metadata["generateName"] + self._entropy.suffix()
        target.name = metadata["name"]
        if target.namespace:
            metadata["namespace"] = target.namespace
        if target.key in self._objects:
            raise errors.already_exists(target.resource, target.name)
        metadata["uid"] = self._entropy.uid()
        metadata["creationTimestamp"] = timestamp(self._clock.now())
        metadata["generation"] = 1
        return await self._store(target.key, "ADDED", obj)

    async def _patch(self, target: _Target, query: Mapping[str, str], body: Any) -> Object:
        if isinstance(body, list):
            import jsonpatch

            changed = jsonpatch.apply_patch(copy.deepcopy(self._found(target)), body)
            return await self._change(target, changed, None)
        if target.key not in self._objects and query.get("fieldManager") and not target.subresource:
            return await self._create(target, body)
        wanted = (body.get("metadata") or {}).get("resourceVersion")
        found = self._found(target)
        merged = _with_finalizers(found, body, _merged(copy.deepcopy(found), body))
        return await self._change(target, _with_lists_by_uid(found, body, merged), wanted)

    async def _change(self, target: _Target, new: Object, resource_version: str | None) -> Object:
        old = self._found(target)
        if resource_version and resource_version != old["metadata"]["resourceVersion"]:
            raise errors.conflict(target.resource, target.name, errors.MODIFIED)
        if target.subresource == "status":
            obj = copy.deepcopy(old)
            obj["status"] = copy.deepcopy(new.get("status", {}))
            # Only the spec (and for some kinds the labels) is held back, as upstream's status strategies do.
            for name in ("annotations", "finalizers"):
                obj["metadata"].pop(name, None)
                if new["metadata"].get(name):
                    obj["metadata"][name] = copy.deepcopy(new["metadata"][name])
        else:
            obj = copy.deepcopy(new)
            if "status" in old:
                obj["status"] = old["status"]
            kept = ("uid", "creationTimestamp", "generation", "deletionTimestamp")
            obj["metadata"].update({name: old["metadata"][name] for name in kept if name in old["metadata"]})
            if obj.get("spec") != old.get("spec"):
                obj["metadata"]["generation"] += 1
        if obj["metadata"].get("deletionTimestamp") and not _finalizers(obj):
            return await self._store(target.key, "DELETED", obj)
        obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if obj == old:
            return old
        return await self._store(target.key, "MODIFIED", obj)

    async def _delete(self, target: _Target, query: Mapping[str, str], options: Object) -> Object:
        if not target.name:
            for obj in self._selected(target, query):
                one = copy.copy(target)
                one.namespace, one.name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
                await self._delete(one, {}, options)
            return {"kind": "Status", "status": "Success"}
        obj = copy.deepcopy(self._found(target))
        for name, value in (options.get("preconditions") or {}).items():
            if obj["metadata"].get(name) != value:
                raise errors.conflict(target.resource, target.name, f"Precondition failed: {name}")
        finalizer = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(
            options.get("propagationPolicy", "")
        )
        if finalizer and finalizer not in _finalizers(obj):
            obj["metadata"]["finalizers"] = [*_finalizers(obj), finalizer]
        if not _finalizers(obj):
            return await self._store(target.key, "DELETED", obj)
        if obj["metadata"].get("deletionTimestamp"):
            return obj
        obj["metadata"]["deletionTimestamp"] = timestamp(self._clock.now())
        return await self._store(target.key, "MODIFIED", obj)

    async def _store(self, key: tuple[str, str, str], kind: str, obj: Object) -> Object:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        if kind == "DELETED":
            self._objects.pop(key, None)
        else:
            self._objects[key] = obj
        self._events.append((self.revision, key[0], kind, obj))
        async with self._news:
            self._news.notify_all()
        return obj

    async def _watch(self, target: _Target, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        seen, cut = int(query.get("resourceVersion") or self.revision), self._cut
        while True:
            if seen < self.horizon:
                status = errors.expired(f"too old resource version: {seen} ({self.horizon})").status()
                yield orjson.dumps({"type": "ERROR", "object": status})
                return
            upto = self.revision
            for _, collection, kind, obj in [event for event in self._events if event[0] > seen]:
                if collection == target.collection and _in_scope(target, query, obj):
                    yield orjson.dumps({"type": kind, "object": obj})
            seen = upto
            async with self._news:
                # the lambda is done with before `upto` changes
                await self._news.wait_for(lambda: self.revision > upto or cut != self._cut)  # noqa: B023
            if cut != self._cut:
                raise aiohttp.ClientPayloadError("connection lost")


def _with_lists_by_uid(old: Object, patch: Object, new: Object) -> Object:
    """Merges the lists that components patch and that merge by uid."""
    for part, name in (("metadata", "ownerReferences"), ("status", "reservedFor")):
        changes = (patch.get(part) or {}).get(name)
        if changes is None:
            continue
        entries = {one["uid"]: one for one in (old.get(part) or {}).get(name) or ()}
        for change in changes:
            if change.get("$patch") == "delete":
                entries.pop(change["uid"], None)
            else:
                entries[change["uid"]] = change
        new[part][name] = list(entries.values())
    return new


def _with_finalizers(old: Object, patch: Object, new: Object) -> Object:
    """The one list of plain values from which components take some by a strategic merge patch."""
    gone = (patch.get("metadata") or {}).get("$deleteFromPrimitiveList/finalizers")
    if gone is None:
        return new
    new["metadata"].pop("$deleteFromPrimitiveList/finalizers")
    new["metadata"]["finalizers"] = [name for name in _finalizers(old) if name not in gone]
    return new


def _finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def _in_scope(target: _Target, query: Mapping[str, str], obj: Object) -> bool:
    return target.namespace in ("", obj["metadata"].get("namespace", "")) and _selects(query, obj)


def _selects(query: Mapping[str, str], obj: Object) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in _pairs(query.get("labelSelector", ""))) and all(
        _at(obj, name) == value for name, value in _pairs(query.get("fieldSelector", ""))
    )


def _pairs(selector: str) -> list[tuple[str, str]]:
    parts = [part.partition("=") for part in selector.replace("==", "=").split(",") if part]
    return [(name, value) for name, _, value in parts]


def _at(obj: Any, path: str) -> str:
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return "" if obj is None else str(obj)


def _merged(document: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result
