"""The socket side: aiohttp's low-level server, one request in, one answer out.

Nothing here knows what a resource is; `apiserver.pipeline` does the rest.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from apiserver.request import (
    BodyReader,
    BodyTooLargeError,
    Handler,
    Peer,
    Request,
    Response,
    no_body,
    parse_query,
)

_KEEP_ALIVE_SECONDS = 3600.0
_BODIES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Front(web.Server):
    """Turns aiohttp's requests into ours. A watch ends when its connection does."""

    def __init__(self, handler: Handler) -> None:
        super().__init__(self._serve, access_log=None, keepalive_timeout=_KEEP_ALIVE_SECONDS)
        self._handle = handler
        self._on_lost: dict[Any, Callable[[], object]] = {}

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        end = self._on_lost.pop(handler, None)
        if end is not None:
            end()
        super().connection_lost(handler, exc)

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        response = await self._handle(_request(incoming))
        if isinstance(response.body, bytes):
            return _answer(response, response.body)
        return await self._stream(incoming, response, response.body)

    async def _stream(
        self, incoming: web.BaseRequest, response: Response, chunks: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        """Write chunks as they come, until they end or the client is gone."""
        answer = web.StreamResponse(status=response.status, headers=_headers(response))
        task = asyncio.current_task()
        if task is not None:
            self._on_lost[incoming.protocol] = task.cancel
        try:
            await answer.prepare(incoming)
            async for chunk in chunks:
                await answer.write(chunk)
            await answer.write_eof()
        except ConnectionResetError:
            pass  # the client went while a chunk was on its way
        finally:
            self._on_lost.pop(incoming.protocol, None)
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()
        return answer


def _request(incoming: web.BaseRequest) -> Request:
    method = incoming.method
    path, _, query = incoming.raw_path.partition("?")
    if "%" in path:
        path = unquote(path)
    read = _reader(incoming.content, incoming.content_length) if method in _BODIES else no_body
    return Request(method, path, parse_query(query), incoming.headers, read, _peer(incoming.transport))


def _peer(transport: asyncio.Transport | None) -> Peer | None:
    """The verified client certificate's subject, if the connection has one."""
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return None
    subject = [pair for names in certificate["subject"] for pair in names]
    name = next((value for kind, value in subject if kind == "commonName"), "")
    return Peer(name, tuple(value for kind, value in subject if kind == "organizationName"))


def _reader(content: StreamReader, length: int | None) -> BodyReader:
    async def read(limit: int) -> bytes:
        if length is not None and length > limit:
            raise BodyTooLargeError
        chunks, size = [], 0
        while chunk := await content.readany():
            size += len(chunk)
            if size > limit:
                raise BodyTooLargeError
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    return read


def _answer(response: Response, body: bytes) -> web.Response:
    return web.Response(body=body, status=response.status, headers=_headers(response))


def _headers(response: Response) -> list[tuple[str, str]]:
    return [("Content-Type", response.content_type), *response.headers]


async def listen(front: Front, address: str, port: int, context: ssl.SSLContext | None) -> asyncio.Server:
    """Accept connections for `front`; port 0 is any."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(front, address, port, ssl=context, backlog=1024)


def tls_context(certificate: str, key: str, client_ca: str) -> ssl.SSLContext:
    """TLS with the server's certificate; client certificates are verified against `client_ca`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
