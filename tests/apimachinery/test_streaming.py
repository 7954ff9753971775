"""WebSocket messages and SPDY streams, each side against the other."""

import asyncio
import zlib

import pytest

from kubeskew.apimachinery.streaming import spdy, spdy_headers
from kubeskew.apimachinery.streaming.websocket import Opcode, WebSocket, accept_key, encode_frame


class Pipe:
    """One end of a connection in memory."""

    def __init__(self):
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.other: Pipe

    async def read(self):
        return await self.incoming.get()

    async def write(self, data):
        self.other.incoming.put_nowait(data)


def pipes():
    one, two = Pipe(), Pipe()
    one.other, two.other = two, one
    return one, two


def test_the_header_dictionary_is_the_protocols():
    """Its Adler-32 is what every SPDY/3 stream names."""
    assert len(spdy_headers.DICTIONARY) == 1423
    assert zlib.adler32(spdy_headers.DICTIONARY) == 0xE3C6A7C2


def test_the_handshake_of_the_rfc():
    """The example of RFC 6455, section 1.3."""
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 200_000])
async def test_messages_of_every_size(size: int):
    """A masked message arrives as it was, whatever the form of its length."""
    here, there = pipes()
    await WebSocket(here, client=True).send(b"x" * size)
    assert (await WebSocket(there).receive()).data == b"x" * size


async def test_fragments_pings_and_closing():
    """Fragments make one message, a ping in between is answered, a close ends it and is answered."""
    here, there = pipes()
    first = bytearray(encode_frame(b"a", Opcode.BINARY))
    first[0] &= 0x7F
    for frame in (bytes(first), encode_frame(b"?", Opcode.PING), encode_frame(b"b", Opcode.CONTINUATION)):
        await here.write(frame)
    socket = WebSocket(there)
    assert (await socket.receive()).data == b"ab"
    assert await here.read() == encode_frame(b"?", Opcode.PONG)
    await here.write(encode_frame(b"\x03\xe8", Opcode.CLOSE))
    assert await socket.receive() is None
    assert await here.read() == encode_frame(b"\x03\xe8", Opcode.CLOSE)


async def test_streams_both_ways():
    """Streams carry headers and bytes in both directions, and end each for itself."""
    here, there = pipes()
    client, server = spdy.Connection(here, client=True), spdy.Connection(there)
    running = [asyncio.create_task(client.run()), asyncio.create_task(server.run())]
    for name in ("error", "data"):
        stream = await client.open({"streamType": name, "port": "80"})
        got = await server.accept()
        assert got is not None
        assert got.headers == {"streamtype": name, "port": "80"}
        await asyncio.wait_for(stream.replied.wait(), 30)
        await stream.write(b"y" * 100_000)
        received = b""
        while len(received) < 100_000:
            received += await got.read()
        await got.write(b"answer")
        await got.close()
        assert await stream.read() == b"answer"
        assert await stream.read() == b""
    await here.write(b"")
    assert await server.accept() is None
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_a_broken_header_block_ends_the_connection():
    """Whoever waits for streams is told."""
    here, there = pipes()
    server = spdy.Connection(there)
    await here.write(b"\x80\x03\x00\x01\x00\x00\x00\x10" + b"\x00" * 16)
    await asyncio.wait_for(server.run(), 30)
    assert await server.accept() is None


async def test_streams_that_both_sides_ended_are_forgotten():
    """A connection that goes on does not keep what went over it."""
    here, there = pipes()
    client, server = spdy.Connection(here, client=True), spdy.Connection(there)
    tasks = [asyncio.create_task(one.run()) for one in (client, server)]
    for _ in range(3):
        mine = await client.open({"port": "80"})
        theirs = await server.accept()
        await mine.close()
        assert await theirs.read() == b""
        await theirs.close()
        assert await mine.read() == b""
    assert (client._streams, server._streams) == ({}, {})
    for pipe in (here, there):
        await pipe.write(b"")
    await asyncio.gather(*tasks)
