"""The socket side: aiohttp's low-level server, one request in, one answer out.

Nothing here knows what a resource is; `apiserver.pipeline` does the rest.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, PayloadEncodingError
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from apiserver.request import (
    BodyBrokenError,
    BodyReader,
    BodyTooLargeError,
    Handler,
    Peer,
    Request,
    Response,
    Upgrade,
    no_body,
    parse_query,
)

_KEEP_ALIVE_SECONDS = 3600.0
_LINGER_SECONDS = 2.0  # for the rest of a body that nobody wants, so that the client reads the answer
_HEAD_SECONDS = 32.0  # until a new connection's first request is there; as upstream (ReadHeaderTimeout)
_STALL_SECONDS = 30.0  # a client of a stream that reads nothing for so long is let go
_BODIES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def _is_ours(record: logging.LogRecord) -> bool:
    """What a client sends that is no HTTP is its mistake, and answered; the log is not for it to fill."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


_log = logging.getLogger(__name__)
_log.addFilter(_is_ours)


class Front(web.Server):
    """Turns aiohttp's requests into ours. A watch ends when its connection does."""

    head_seconds = _HEAD_SECONDS
    stall_seconds = _STALL_SECONDS

    def __init__(self, handler: Handler) -> None:
        super().__init__(
            self._serve,
            access_log=None,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            lingering_time=_LINGER_SECONDS,
            logger=_log,
            auto_decompress=False,  # bodies are read as they are; a small one may unpack to gigabytes
        )
        self._handle = handler
        self._waiting: dict[Any, asyncio.TimerHandle] = {}
        self._on_lost: dict[Any, Callable[[], object]] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        self._waiting[handler] = loop.call_later(self.head_seconds, transport.abort)
        super().connection_made(handler, transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._spoken(handler)
        end = self._on_lost.pop(handler, None)
        if end is not None:
            end()
        super().connection_lost(handler, exc)

    def _spoken(self, handler: Any) -> None:
        timer = self._waiting.pop(handler, None)
        if timer is not None:
            timer.cancel()

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        self._spoken(incoming.protocol)
        response = await self._handle(_request(incoming))
        if isinstance(response.body, bytes):
            return _answer(response, response.body)
        if isinstance(response.body, Upgrade):
            raise NotImplementedError("upgrades come with the server's own protocol")
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
                async with asyncio.timeout(self.stall_seconds):
                    await answer.write(chunk)
            await answer.write_eof()
        except ConnectionResetError:
            pass  # the client went while a chunk was on its way
        except TimeoutError:
            if incoming.transport is not None:
                incoming.transport.abort()
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
        try:
            while chunk := await content.readany():
                size += len(chunk)
                if size > limit:
                    raise BodyTooLargeError
                chunks.append(chunk)
        except (ConnectionError, PayloadEncodingError) as error:
            raise BodyBrokenError(str(error)) from None
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
