"""Requests handed on to a backend: bodies both ways at once, however large, and clients that leave."""

import asyncio
import tracemalloc

import pytest

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.http.listener import HTTPServer
from kubeskew.apiserver.http.request import Request, Response, text
from kubeskew.apiserver.nodes.proxy import Address, pass_on, streamed

OK = b"HTTP/1.1 200 OK\r\n"


async def backend(talk):
    """A TCP server; (server, its address)."""
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    return server, Address("127.0.0.1", server.sockets[0].getsockname()[1])


async def echo(reader, writer):
    """Answer in chunks with what comes in chunks, as it comes."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Transfer-Encoding: chunked\r\n\r\n")
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


def front_of(address):
    """A server that hands everything on."""

    async def handle(request: Request) -> Response:
        if request.path == "/own":
            return text(200, "own")
        return streamed(await pass_on(request, address, request.path))

    return HTTPServer(handle, SystemClock())


async def connected(front):
    port = await front.accept("127.0.0.1", 0, None)
    return await asyncio.open_connection("127.0.0.1", port)


async def test_both_ways_at_once():
    """The answer begins before the body has ended, and neither is kept in memory."""
    server, address = await backend(echo)
    front = front_of(address)
    reader, writer = await connected(front)
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + piece)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(OK)
    tracemalloc.start()

    async def fill():
        for _ in range(500):
            writer.write(piece)
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    filling = asyncio.create_task(fill())
    size = 0
    while left := int(await reader.readline(), 16):
        while left:
            got = len(await reader.read(left))
            size, left = size + got, left - got
        await reader.readline()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await filling
    writer.close()
    await front.close(0)
    server.close()
    assert size == 501 * 65536
    assert peak < 8 << 20


async def test_a_known_length_is_reported():
    """A backend's Content-Length is the client's, for HEAD as well; the connection goes on."""

    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Content-Length: 5\r\n\r\nhello")
        writer.close()

    server, address = await backend(talk)
    front = front_of(address)
    reader, writer = await connected(front)
    for method, body in ((b"HEAD", b""), (b"GET", b"hello")):
        writer.write(method + b" /a HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"\r\nContent-Length: 5\r\n" in head
        assert b"chunked" not in head
        assert await reader.readexactly(len(body)) == body
    writer.close()
    await front.close(0)
    server.close()


@pytest.mark.parametrize("framing", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
async def test_a_client_that_leaves(framing):
    """The backend learns that the rest of a body, or the reader of its answer, is gone."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        await reader.read()
        ended.set()
        writer.close()

    server, address = await backend(talk)
    front = front_of(address)
    _, writer = await connected(front)
    writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
    await asyncio.wait_for(begun.wait(), 30)
    writer.close()
    await asyncio.wait_for(ended.wait(), 30)
    await front.close(0)
    server.close()


async def test_a_backend_that_breaks_off():
    """The client's connection ends without the end of the body."""

    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        writer.close()

    server, address = await backend(talk)
    front = front_of(address)
    reader, writer = await connected(front)
    writer.write(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /own HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 30)
    assert answer.endswith(b"5\r\nhello\r\n")
    writer.close()
    await front.close(0)
    server.close()
