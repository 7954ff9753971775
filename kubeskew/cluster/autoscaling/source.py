"""Gives the scheduler's informers a snapshot: of a cluster, of files, or of both. Nothing can be written."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import orjson

from kubeskew.apimachinery.client.transport import Request, Response
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object

# Returns the list document of a path; raises StatusError, or a connection error.
Lists = Callable[[str], Awaitable[Object]]


class _Answer:
    def __init__(self, status: int, content: bytes) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"Content-Type": "application/json"}
        self._content = content

    async def body(self) -> bytes:
        return self._content

    async def lines(self) -> AsyncIterator[bytes]:
        """Waits for ever: what is watched does not change."""
        await asyncio.Event().wait()
        yield b""

    async def close(self) -> None:
        return


class SnapshotTransport:
    """Answers lists with the objects of `cluster`, if there is one, and those that are added by path."""

    def __init__(self, cluster: Lists | None, added: Mapping[str, Sequence[Object]]) -> None:
        self._cluster = cluster
        self._added = added

    async def close(self) -> None:
        return

    async def __call__(self, request: Request) -> Response:
        path, _, query = request.target.partition("?")
        if request.method != "GET":
            error = StatusError(405, "MethodNotAllowed", "a simulation writes nothing")
            return _Answer(error.code, orjson.dumps(error.status()))
        if "watch=true" in query:
            return _Answer(200, b"")
        listed: Object = {"metadata": {"resourceVersion": "1"}, "items": []}
        if self._cluster is not None:
            try:
                listed = await self._cluster(path)
            except StatusError as error:
                return _Answer(error.code, orjson.dumps(error.status()))
        items = [*listed["items"], *self._added.get(path, ())]
        return _Answer(200, orjson.dumps({**listed, "items": items}))
