"""WebSocket messages, each side against the other."""

import pytest
from memory_pipes import pipes

from kubeskew.apimachinery.streaming.websocket import Opcode, WebSocket, accept_key, encode_frame


def test_the_handshake_of_the_rfc():
    """The example of RFC 6455, section 1.3."""
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 200_000])
async def test_messages_of_every_size(size: int):
    """A masked message arrives as it was, regardless of the form of its length."""
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
    socket = WebSocket(there, client=True)
    assert (await socket.receive()).data == b"ab"
    other = WebSocket(here)
    assert await other.frame() == (True, Opcode.PONG, b"?")
    await here.write(encode_frame(b"\x03\xe8", Opcode.CLOSE))
    assert await socket.receive() is None
    assert await other.frame() == (True, Opcode.CLOSE, b"\x03\xe8")


@pytest.mark.parametrize("client", [False, True])
async def test_frames_that_are_wrongly_masked_end_the_connection(client: bool):
    """A server takes no frame without a mask, a client none with one: each closes with 1002 and reads no
    more.
    """
    here, there = pipes()
    await here.write(encode_frame(b"x", Opcode.BINARY, masked=client))
    await here.write(encode_frame(b"y", Opcode.BINARY, masked=not client))

    assert await WebSocket(there, client=client).receive() is None
    closed = await WebSocket(here, client=not client).frame()
    assert closed == (True, Opcode.CLOSE, b"\x03\xea")
