"""An API server in this process, over an event store in memory, called without sockets: for tests."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.http.request import Peer, Request, Response
from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.server import APIServer
from kubeskew.apiserver.storage.records import Change, Event
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore

IN_MEMORY = "sqlite+aiosqlite://"
ADMIN = Peer("admin", ("system:masters",))
PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Answer:
    """A response, read: `status`, `body` (parsed if it is JSON), `warnings`."""

    def __init__(self, response: Response) -> None:
        assert isinstance(response.body, bytes)
        self.status = response.status
        self.content_type = response.content_type
        self.raw = response.body
        self.headers = dict(response.headers)
        self.warnings = [value for name, value in response.headers if name == "Warning"]

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class Caller:
    """Calls a server as one user."""

    def __init__(self, server: APIServer, peer: Peer | None = ADMIN) -> None:
        self.server = server
        self.peer = peer

    async def __call__(self, method: str, target: str, body: Any = None, **headers: str) -> Answer:
        response = await self.raw(method, target, body, **headers)
        if isinstance(response.body, AsyncIterator):
            response.body = b"".join([piece async for piece in response.body])
        return Answer(response)

    async def raw(self, method: str, target: str, body: Any = None, **headers: str) -> Response:
        """The response as it is: a watch's body is an iterator."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named = {"content-type": "application/json", "user-agent": "tester/v1.36.0 (linux)", **named}
        return await self.server.handle(Request.of(method, target, named, data, self.peer))

    async def get(self, target: str, **headers: str) -> Answer:
        return await self("GET", target, **headers)

    async def post(self, target: str, body: Any, **headers: str) -> Answer:
        return await self("POST", target, body, **headers)

    async def put(self, target: str, body: Any, **headers: str) -> Answer:
        return await self("PUT", target, body, **headers)

    async def patch(self, target: str, body: Any, kind: str = "merge", **headers: str) -> Answer:
        return await self("PATCH", target, body, content_type=PATCHES[kind], **headers)

    async def delete(self, target: str, body: Any = None, **headers: str) -> Answer:
        return await self("DELETE", target, body, **headers)

    async def watch(self, target: str) -> AsyncIterator[tuple[str, Any]]:
        """The events of a watch, as (type, object), until it ends."""
        response = await self.raw("GET", target)
        assert response.status == 200
        assert not isinstance(response.body, bytes)
        async for chunk in response.body:
            for line in chunk.splitlines():
                event = json.loads(line)
                yield event["type"], event["object"]


async def open_server(
    minor: int | Version = 36, url: str = IN_MEMORY, *, reuse: bool = True, **options: Any
) -> APIServer:
    """A server of release 1.`minor` over the store at `url`; close it with `close_server`.

    With `reuse`, it may be given what an earlier one wrote at its start: metrics then lack these requests.
    """
    version = Version(minor) if isinstance(minor, int) else minor
    gates = FeatureGates(version, options.pop("gates", {}), options.pop("bugs", {}))
    environment = Environment(version, gates, SystemClock(), SeededEntropy(1))
    log = await SQLLog.open(url, environment.clock)
    store = await CachedStore.open(log, environment.clock)
    server = APIServer(ServerOptions(storage_url=url, **options), environment, store, log)
    plain = (version, gates.flag(), gates.bugs) if reuse and url == IN_MEMORY and not options else None
    if plain in _BEGINNINGS:
        await asyncio.gather(*(store.write(change) for change in _BEGINNINGS[plain]))
    await server.bootstrap()
    await make_service_account(server)
    if plain is not None and plain not in _BEGINNINGS:
        _BEGINNINGS[plain] = [_again(event) for event in await log.after(0, 10_000)]
    return server


# What a fresh server of a release wrote: the next one is given it at once, which takes a third of the time.
_BEGINNINGS: dict[Any, list[Change]] = {}


def _again(event: Event) -> Change:
    return Change(event.verb, event.key, event.uid, event.value, event.previous, event.author, event.time)


async def make_service_account(server: APIServer, namespace: str = "default") -> None:
    """The account that pods of a namespace run as; in a cluster a controller makes it."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    made = await Caller(server).post(path, {"metadata": {"name": "default"}})
    assert made.status in {201, 409}, made.raw


async def close_server(server: APIServer) -> None:
    await server.end()
    await server.services.store.close()


def config_map(name: str, **extra: Any) -> dict[str, Any]:
    """A ConfigMap; `labels`, `finalizers` go to its metadata, the rest to its top."""
    metadata: dict[str, Any] = {"name": name}
    for field in ("labels", "finalizers", "resourceVersion", "generateName", "ownerReferences"):
        if field in extra:
            metadata[field] = extra.pop(field)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **extra}


MAPS = "/api/v1/namespaces/default/configmaps"
