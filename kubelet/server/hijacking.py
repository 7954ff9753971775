"""Takes a connection over from aiohttp's server after the request's head, for another protocol."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from kubeskew.apimachinery.streaming import Pipe

_BUFFER = 1 << 18


class StreamPipe:
    """A pipe over asyncio's streams."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes = b""
    ) -> None:
        """`first` are bytes that were read already."""
        self._reader, self._writer = reader, writer
        self._first = first

    async def read(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        try:
            return await self._reader.read(1 << 16)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        """Sends what is written, and closes."""
        self._writer.close()
        with suppress(ConnectionError, TimeoutError):  # closed by the other side first
            await self._writer.wait_closed()


class _Answered(web.StreamResponse):
    """Stands for an answer that was written to the connection without aiohttp."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        self.force_close()
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        pass


async def hand_over(
    incoming: web.BaseRequest, headers: Iterable[tuple[str, str]], talk: Callable[[Pipe], Awaitable[None]]
) -> web.StreamResponse:
    """Answers 101 with `headers`, and runs `talk` on the connection; closes it when that returns or
    raises."""
    transport, protocol = incoming.transport, incoming.protocol
    if transport is None:
        raise ConnectionResetError("the client is gone")
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_BUFFER, loop=loop)
    streams = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport.set_protocol(streams)
    streams.connection_made(transport)
    pipe = StreamPipe(reader, asyncio.StreamWriter(transport, streams, reader, loop))
    try:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        await pipe.write(f"HTTP/1.1 101 Switching Protocols\r\n{lines}Connection: Upgrade\r\n\r\n".encode())
        await talk(pipe)
    except ConnectionError:
        pass  # the client closed during `talk`
    finally:
        await pipe.close()
        protocol.connection_lost(None)
    return _Answered()
