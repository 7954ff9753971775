"""An API server behind the proxy, over TLS: objects in memory, or answers that a test gives."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from fake_server import FakeServer

from kubeskew.apimachinery.client.transport import Request
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import COMPONENTS_PATH
from kubeskew.apimachinery.security.tls import serving_context
from kubeskew.cluster.pki import Authority, KeyPair

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Files:
    """An authority, and the files of a server of it."""

    def __init__(self, authority: Authority, directory: Path) -> None:
        self.authority = authority
        pair = authority.serving()
        self.certificate, self.key, self.ca = (directory / name for name in ("crt", "key", "ca"))
        self.certificate.write_bytes(pair.certificate)
        self.key.write_bytes(pair.key)
        self.ca.write_bytes(authority.pair.certificate)
        self.client: KeyPair = authority.client("system:kube-scheduler")
        self.front_proxies = Authority.create(datetime.now(UTC), "front-proxy-ca")
        self.proxy: KeyPair = self.front_proxies.client("front-proxy-client")
        self.front_ca, self.proxy_certificate, self.proxy_key, self.tokens = (
            directory / name for name in ("front-ca", "proxy-crt", "proxy-key", "tokens")
        )
        self.front_ca.write_bytes(self.front_proxies.pair.certificate)
        self.proxy_certificate.write_bytes(self.proxy.certificate)
        self.proxy_key.write_bytes(self.proxy.key)
        self.tokens.write_text('known,admin,uid,"system:masters"\n')

    def context(self) -> Any:
        return serving_context(*map(str, (self.certificate, self.key, self.ca, self.front_ca)))


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it came; `user` is the common name of the client's certificate."""

    method: str
    target: str
    headers: Any
    body: bytes
    user: str


class Upstream:
    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.announced: list[dict[str, Any]] = []
        self.answers: dict[str, Answer] = {}  # by path, before the objects
        self.gone = asyncio.Event()  # set when a client has left in the middle of an answer
        self.objects = FakeServer(SystemClock(), SeededEntropy(1))
        self._front = web.Server(self._answer, access_log=None, handler_cancellation=True)
        self._server: asyncio.Server | None = None
        self.port = 0
        self.ready = True
        self.readiness_asked = 0

    async def start(self, files: Files) -> "Upstream":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._front, "127.0.0.1", self.port, ssl=files.context())
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._front.shutdown(0.02)

    def calls(self, method: str = "") -> list[str]:
        return [
            f"{each.method} {each.target}" for each in self.seen if each.method == (method or each.method)
        ]

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/readyz":
            self.readiness_asked += 1
            return web.Response(text="ok", status=200 if self.ready else 500)
        body = await request.content.read()
        tls = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
        subject = (tls.getpeercert() or {}).get("subject", ()) if tls is not None else ()
        user = next((value for parts in subject for key, value in parts if key == "commonName"), "")
        self.seen.append(Seen(request.method, request.raw_path, request.headers, body, user))
        try:
            return await self._by_path(request, body)
        except (asyncio.CancelledError, ConnectionError):
            self.gone.set()
            raise

    async def _by_path(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        if request.path in self.answers:
            return await self.answers[request.path](request)
        if request.path == COMPONENTS_PATH:
            self.announced.append(orjson.loads(body))
            return web.json_response({})
        answer = await self.objects(Request(request.method, request.raw_path, body=body or None))
        if not request.query.get("watch"):
            return web.Response(
                body=await answer.body(), status=answer.status, content_type="application/json"
            )
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        async for line in answer.lines():
            await stream.write(line + b"\n")
        return stream
