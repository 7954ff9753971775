"""SPDY streams, each side against the other."""

import asyncio
import zlib

from memory_pipes import pipes

from kubeskew.kubelet.protocols import spdy


def test_the_header_dictionary_is_the_protocols():
    """The dictionary of header blocks has the Adler-32 that every SPDY/3 stream names."""
    assert len(spdy.DICTIONARY) == 1423
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2


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
    """A header block that cannot be decompressed ends the connection for those who wait for its streams."""
    here, there = pipes()
    server = spdy.Connection(there)
    await here.write(b"\x80\x03\x00\x01\x00\x00\x00\x10" + b"\x00" * 16)
    await asyncio.wait_for(server.run(), 30)
    assert await server.accept() is None


async def test_streams_that_both_sides_ended_are_forgotten():
    """A connection keeps no stream that both sides have ended."""
    here, there = pipes()
    client, server = spdy.Connection(here, client=True), spdy.Connection(there)
    tasks = [asyncio.create_task(end.run()) for end in (client, server)]
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
