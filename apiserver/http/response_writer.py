"""Answers on the wire: whole ones, streamed ones, or a connection handed over."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import suppress

from kubeskew.apiserver.http import wire
from kubeskew.apiserver.http.request import BodyBrokenError, Response, Upgrade
from kubeskew.apiserver.http.request_reader import Body, IncomingRequest, Refusal
from kubeskew.apiserver.http.wire import ConnectionTransport, ConnectionTunnel

_SKIPPED_MAX = 256 << 10  # bytes of an unread body, read before the answer; as Go
_LINGER_SECONDS = 2.0  # for more of it, so that the client can read the answer
_REFUSED_SECONDS = 0.5  # between a refusal and the end of its connection: no reset may overtake it; as Go
_WHOLE_MAX = 1 << 16  # bytes of a body that is sent together with its head
_BODILESS = (204, 304)


class Outgoing:
    """Writes the answers of one connection in order; `streaming` while one has not ended."""

    def __init__(self, transport: ConnectionTransport) -> None:
        self.streaming = False
        self._transport = transport

    async def whole(self, asked: IncomingRequest, response: Response, body: bytes) -> None:
        transport = self._transport
        lingers = not asked.body.complete and not await self._skipped(asked)
        if lingers or not asked.keep_alive:
            transport.finishing = True
        if transport.broken:
            return
        length = b"" if response.status in _BODILESS else b"Content-Length: %d\r\n" % len(body)
        head = self._head(response, length)
        if asked.request.method == "HEAD":
            transport.raw.write(head)
        elif len(body) <= _WHOLE_MAX:
            transport.raw.write(head + body)
        else:
            transport.raw.writelines((head, body))
        await transport.drain()
        if lingers:
            await _linger(asked.body)

    async def refuse(self, refused: Refusal) -> None:
        """Answers bytes that are no request; it is the last answer of its connection."""
        transport = self._transport
        transport.finishing = True
        transport.allow(transport.limits.stall_seconds)
        transport.raw.write(refused.answer)
        if transport.raw.can_write_eof():
            transport.raw.write_eof()
        await asyncio.sleep(_REFUSED_SECONDS)

    def _head(self, response: Response, framing: bytes) -> bytes:
        parts = (
            wire.status_line(response.status),
            wire.fields(response.content_type, response.headers),
            self._transport.limits.date,
            b"Connection: close\r\n" if self._transport.finishing else b"",
            framing,
            b"\r\n",
        )
        return b"".join(parts)

    async def _skipped(self, asked: IncomingRequest) -> bool:
        """Reads the rest of an unread body before the answer if it is short; False if it is not."""
        if not 0 < asked.body.announced <= _SKIPPED_MAX or "expect" in asked.request.headers:
            return False
        self._transport.allow(self._transport.limits.stall_seconds)
        await asked.body.skip()
        self._transport.deadline = math.inf
        return asked.body.complete

    async def stream(self, asked: IncomingRequest, response: Response, pieces: AsyncIterator[bytes]) -> None:
        """Writes pieces as they come, until they end or the client is gone; only the head for a HEAD.

        Raises ConnectionError where they cannot go on, so that the client sees that something is missing.

        """
        transport, length = self._transport, response.length
        chunked = asked.chunked and length is None
        self.streaming = True
        if not asked.keep_alive or not asked.body.complete or (length is None and not chunked):
            transport.finishing = True
        framing = b"" if length is None else b"Content-Length: %d\r\n" % length
        try:
            transport.raw.write(
                self._head(response, b"Transfer-Encoding: chunked\r\n" if chunked else framing)
            )
            if asked.request.method == "HEAD":
                return
            async for piece in pieces:
                if piece:
                    self._write(piece, chunked=chunked)
                    await transport.drain()
            if chunked:
                transport.raw.write(b"0\r\n\r\n")
        finally:
            self.streaming = False
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    def _write(self, piece: bytes, *, chunked: bool) -> None:
        transport = self._transport.raw
        if not chunked:
            transport.write(piece)
        elif len(piece) <= _WHOLE_MAX:
            transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        else:
            transport.writelines((b"%x\r\n" % len(piece), piece, b"\r\n"))

    async def hand_over(self, response: Response, upgrade: Upgrade, tunnel: ConnectionTunnel | None) -> None:
        """Grants an upgrade and runs its handler until it ends. Raises BodyBrokenError."""
        if tunnel is None:
            raise BodyBrokenError("an upgrade that was not asked for")
        transport = self._transport
        transport.finishing = False  # the head says Upgrade
        response.headers.append(("Connection", "Upgrade"))
        response.content_type = ""
        transport.raw.write(self._head(response, b""))
        transport.finishing = self.streaming = True
        await upgrade.talk(tunnel)


async def _linger(body: Body) -> None:
    """Reads on what a client still sends, so that it does not lose the answer to a reset."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            await body.skip()
