"""HTTP/2 below etcd's API, frame by frame: what clients may send, and what they must not."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import pytest
from until import until

from kubeskew.apiserver.storage.etcd.hpack import HeadersDecoder, HeadersError, encoded, huffman_decoded
from kubeskew.apiserver.storage.etcd.http2 import PREFACE, CallError, Connection

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITISED = 1, 1, 4, 8, 32
Frame = tuple[int, int, int, bytes]


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def headers(path: bytes = b"/s/echo") -> bytes:
    return encoded([(b":method", b"POST"), (b":path", path), (b"te", b"trailers")])


def message(data: bytes) -> bytes:
    return b"\x00" + len(data).to_bytes(4, "big") + data


def call(stream: int = 1, data: bytes = b"hello", path: bytes = b"/s/echo") -> bytes:
    opened = frame(HEADERS, END_HEADERS, stream, headers(path))
    return opened + frame(DATA, END_STREAM, stream, message(data))


class Services:
    """A service that echoes, and one that counts what came and answers with large messages."""

    most_bytes = 1 << 20

    def __init__(self) -> None:
        self.connections: dict[Connection, None] = {}
        self.calls: dict[asyncio.Task[None], None] = {}
        self.gate = asyncio.Event()
        self.waited = 0
        self.unary: dict[bytes, Callable[[bytes], Awaitable[bytes]]] = {
            b"/s/echo": self.echo, b"/s/fail": self.fail, b"/s/wait": self.wait
        }  # fmt: skip
        self.streaming = {b"/s/stream": self.stream}
        self.cancelled = 0
        self.sent = 0

    async def echo(self, data: bytes) -> bytes:
        return data

    async def wait(self, data: bytes) -> bytes:
        await self.gate.wait()
        self.waited += 1
        return data

    async def fail(self, data: bytes) -> bytes:
        raise ValueError("größer 100%")

    async def stream(self, requests: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            async for request in requests:
                for _ in range(int(request)):
                    self.sent += 1
                    yield bytes(10_000)
        finally:
            self.cancelled += 1

    def failed(self, error: Exception) -> CallError:
        return CallError(13, str(error))

    def unknown(self, path: str) -> CallError:
        return CallError(12, path)

    async def plain(self, path: str) -> tuple[int, str, str]:
        return 200, "text/plain", path


class Peer:
    """A client that sends bytes and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.decoder = HeadersDecoder()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def frame(self) -> Frame:
        head = await asyncio.wait_for(self.reader.readexactly(9), 10)
        payload = await self.reader.readexactly(int.from_bytes(head[:3], "big"))
        return head[3], head[4], int.from_bytes(head[5:], "big"), payload

    async def frames(self, *kinds: int, count: int = 1) -> list[Frame]:
        found: list[Frame] = []
        while len(found) < count:
            read = await self.frame()
            if read[0] in kinds:
                found.append(read)
        return found

    async def answer(self) -> tuple[bytes, dict[bytes, bytes]]:
        """Data and trailers of the next call that ends."""
        data = b""
        while True:
            kind, flags, _, payload = await self.frame()
            if kind == DATA:
                data += payload
            elif kind == HEADERS:
                fields = dict(self.decoder.decode(payload))
                if flags & END_STREAM:
                    return data, fields

    async def ended(self) -> int:
        """The code with which the server ends the connection."""
        ((_, _, _, payload),) = await self.frames(GOAWAY)
        assert await self.reader.read() == b""
        return int.from_bytes(payload[4:8], "big")


@pytest.fixture
def services() -> Services:
    return Services()


@pytest.fixture
async def peer(services: Services):
    listener = await asyncio.get_running_loop().create_server(lambda: Connection(services), "127.0.0.1", 0)
    opened = Peer(*await asyncio.open_connection(*listener.sockets[0].getsockname()))
    yield opened
    opened.writer.close()
    listener.close()
    await until(lambda: not services.connections)


@pytest.fixture
def started(peer: Peer) -> Peer:
    peer.send(PREFACE + frame(SETTINGS))
    return peer


class TestHeaders:
    def test_the_specifications_examples(self):
        """Requests of RFC 7541 (C.4) are decoded, with what the table has of those before."""
        decoder = HeadersDecoder()
        for block, expected in (
            ("828684418cf1e3c2e5f23a6ba0ab90f4ff", [b"GET", b"http", b"/", b"www.example.com"]),
            ("828684be5886a8eb10649cbf", [b"GET", b"http", b"/", b"www.example.com", b"no-cache"]),
            (
                "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
                [b"GET", b"https", b"/index.html", b"www.example.com", b"custom-value"],
            ),
        ):
            assert [value for _, value in decoder.decode(bytes.fromhex(block))] == expected

    def test_eviction(self):
        """A table that was made smaller loses its oldest entries."""
        decoder = HeadersDecoder()
        decoder.decode(b"\x40\x01a\x01b" + b"\x40\x01c\x01d")
        assert decoder.decode(b"\xbe\xbf") == [(b"c", b"d"), (b"a", b"b")]
        assert decoder.decode(b"\x3f\x03\xbe") == [(b"c", b"d")]  # 34 bytes
        with pytest.raises(HeadersError):
            decoder.decode(b"\xbf")

    def test_long_texts(self):
        """Texts of any length come back as they were encoded."""
        fields = [(b"a" * 126, b"b" * 127), (b"c" * 300, b"d" * 40_000)]
        assert HeadersDecoder().decode(encoded(fields)) == fields

    @pytest.mark.parametrize(
        "block",
        [
            b"\x80",
            b"\xff",
            b"\xbe",
            b"\x40",
            b"\x00\x05ab",
            b"\x3f\xe2\x1f",
            b"\x00\x81\x00\x00",
            b"\xff" * 9,
        ],
    )
    def test_what_is_none(self, block: bytes):
        """Headers that break off, or name what is not there, are refused."""
        with pytest.raises(HeadersError):
            HeadersDecoder().decode(block)

    def test_padding_of_codes(self):
        """The last code is followed by ones, fewer than eight."""
        assert huffman_decoded(b"\x07") == b"0"
        for data in (b"\x00\xff\xff", b"\x06", b"\xff\xff\xff\xff"):
            with pytest.raises(HeadersError):
                huffman_decoded(data)


async def test_a_call(started: Peer):
    """It is answered with headers, a message and trailers, and the client's settings are acknowledged."""
    started.send(call())
    data, trailers = await started.answer()
    assert (data, trailers) == (message(b"hello"), {b"grpc-status": b"0"})


async def test_many_calls_at_once(started: Peer):
    """Calls of one connection are answered whatever the pieces in which they come."""
    for byte in b"".join(call(number, b"%d" % number) for number in range(1, 100, 2)):
        started.send(bytes([byte]))
    answers = [(await started.answer())[0] for _ in range(50)]
    assert answers == [message(b"%d" % number) for number in range(1, 100, 2)]


async def test_errors(started: Peer):
    """A failure has gRPC's code, and its text is encoded as gRPC wants it."""
    started.send(call(1, path=b"/s/fail") + call(3, path=b"/s/none"))
    results = [(await started.answer())[1] for _ in range(2)]
    assert {fields[b"grpc-status"]: fields[b"grpc-message"] for fields in results} == {
        b"13": b"gr%C3%B6%C3%9Fer 100%25", b"12": b"/s/none"
    }  # fmt: skip


async def test_padding_and_priority(started: Peer):
    """Padding and priorities are skipped, headers may go on, and unknown frames are ignored."""
    block = headers()
    started.send(frame(99, 7, 1, b"?") + frame(PRIORITY, 0, 1, bytes(5)))
    padded = b"\x03" + bytes(5) + block[:4] + bytes(3)
    started.send(frame(HEADERS, PADDED | PRIORITISED, 1, padded))
    started.send(frame(CONTINUATION, END_HEADERS, 1, block[4:]))
    started.send(frame(DATA, PADDED | END_STREAM, 1, b"\x02" + message(b"x") + b"\0\0"))
    assert (await started.answer())[0] == message(b"x")


async def test_pings(started: Peer):
    """A ping is answered, whatever goes on, as often as it comes."""
    started.send(b"".join(frame(PING, 0, 0, b"%08d" % number) for number in range(200)))
    frames = await started.frames(PING, count=200)
    assert [payload for _, _, _, payload in frames] == [b"%08d" % number for number in range(200)]
    assert all(flags == ACK for _, flags, _, _ in frames)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff\xff\xff" + bytes(6), 6),
        (frame(PING, 0, 0, b"short"), 6),
        (frame(SETTINGS, 0, 0, bytes(5)), 6),
        (frame(SETTINGS, 0, 0, b"\x00\x04\xff\xff\xff\xff"), 3),
        (frame(SETTINGS, 0, 0, b"\x00\x05\x00\x00\x00\x01"), 1),
        (frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"), 3),
        (frame(PUSH_PROMISE, 0, 1), 1),
        (frame(DATA, 0, 1, b"x"), 1),
        (frame(HEADERS, END_HEADERS, 2, headers()), 1),
        (frame(HEADERS, END_HEADERS, 1, b"\xff"), 9),
        (frame(HEADERS, END_HEADERS | PADDED, 1, b"\x09"), 1),
        (frame(CONTINUATION, END_HEADERS, 1, headers()), 1),
        (frame(HEADERS, 0, 1, headers()) + frame(PING, 0, 0, bytes(8)), 1),
        (frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1, bytes(16_000)) * 5, 11),
        (call(3) + call(1), 1),
    ],
)
async def test_what_ends_a_connection(started: Peer, data: bytes, code: int):
    """A client that breaks the protocol is disconnected with HTTP/2's code."""
    started.send(data)
    assert await started.ended() == code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x01" + message(b"x")[1:], b"12"),
        (b"\x00\x7f\xff\xff\xff", b"8"),
        (b"\x00\x00\x00\x00\x09half", b"13"),
        (b"", b"13"),
        (message(b"a") + message(b"b"), b"13"),
    ],
)
async def test_messages_that_are_none(started: Peer, data: bytes, code: bytes):
    """Compressed, too large, broken and double messages fail their call only."""
    started.send(frame(HEADERS, END_HEADERS, 1, headers()) + frame(DATA, END_STREAM, 1, data))
    assert (await started.answer())[1][b"grpc-status"] == code
    started.send(call(3))
    assert (await started.answer())[0] == message(b"hello")


async def test_more_than_the_window(started: Peer, services: Services):
    """A client that sends more on a stream than anyone takes is disconnected."""
    started.send(frame(HEADERS, END_HEADERS, 1, headers(b"/s/stream")) + frame(DATA, 0, 1, message(b"1000")))
    await started.frames(DATA)
    assert len(services.connections) == 1
    started.send(frame(DATA, 0, 1, message(b"0")) * 200_000)
    await until(lambda: not services.connections)


async def test_answers_wait_for_windows(started: Peer, services: Services):
    """No more is sent than the client has room for, nor made; an update of either window brings the rest."""
    started.send(
        frame(HEADERS, END_HEADERS, 1, headers(b"/s/stream")) + frame(DATA, END_STREAM, 1, message(b"1000"))
    )
    received = 0
    while received < 65_535:
        received += len((await started.frames(DATA))[0][3])
    assert received == 65_535
    assert services.sent < 130
    started.send(frame(PING, 0, 0, bytes(8)))
    assert (await started.frame())[0] == PING  # nothing else came
    for stream in (0, 1):
        started.send(frame(WINDOW_UPDATE, 0, stream, (20_000_000).to_bytes(4, "big")))
    while received < 1000 * 10_005:
        received += len((await started.frames(DATA))[0][3])
    assert (await started.answer())[1] == {b"grpc-status": b"0"}


async def test_a_smaller_window_by_settings(started: Peer):
    """The client's setting counts for streams that are open, too, and may make a window negative."""
    started.send(frame(SETTINGS, 0, 0, b"\x00\x04" + (5).to_bytes(4, "big")) + call(1, b"0123456789"))
    ((_, _, _, first),) = await started.frames(DATA)
    assert first == message(b"0123456789")[:5]
    started.send(frame(SETTINGS, 0, 0, b"\x00\x04" + (2).to_bytes(4, "big")))
    started.send(frame(WINDOW_UPDATE, 0, 1, (8).to_bytes(4, "big")))
    ((_, _, _, second),) = await started.frames(DATA)
    assert second == message(b"0123456789")[5:10]


async def test_a_call_that_the_client_drops(started: Peer, services: Services):
    """A stream ends when the client resets it, or goes away."""
    opened = frame(HEADERS, END_HEADERS, 1, headers(b"/s/stream")) + frame(DATA, 0, 1, message(b"1"))
    started.send(opened)
    await started.frames(DATA)
    started.send(frame(RST_STREAM, 0, 1, bytes(4)))
    await until(lambda: services.cancelled == 1)
    started.send(opened.replace(b"\x00\x00\x00\x01", b"\x00\x00\x00\x03", 1)[: len(opened) - 15])
    started.writer.close()
    await until(lambda: services.cancelled == 2)


async def test_calls_go_on(started: Peer, services: Services):
    """A call whose client resets it, or goes away, is done all the same, and nobody is answered."""
    started.send(call(1, path=b"/s/wait") + frame(RST_STREAM, 0, 1, bytes(4)) + call(3, path=b"/s/echo"))
    assert (await started.answer())[0] == message(b"hello")
    started.send(call(5, path=b"/s/wait"))
    await until(lambda: len(services.calls) == 2)
    started.writer.close()
    await until(lambda: not services.connections)
    services.gate.set()
    await until(lambda: not services.calls)
    assert services.waited == 2


async def test_a_client_that_never_reads(services: Services, peer: Peer):
    """The server stops reading from a client that takes no answers: what waits is bounded."""
    peer.send(PREFACE + frame(SETTINGS))
    pings = b"".join(frame(PING, 0, 0, bytes(8)) for _ in range(10_000))
    await until(lambda: services.connections)
    (connection,) = services.connections
    for _ in range(200):
        peer.send(pings)
        await asyncio.sleep(0)
    await until(lambda: connection._paused)
    assert connection._transport.get_write_buffer_size() < 6 << 20
    peer.writer.transport.abort()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n", b"/health"),
        (b"POST / HTTP/1.1\r\n\r\n", b""),
        (bytes(9000), b""),
    ],
)
async def test_plain_requests(peer: Peer, request_: bytes, answer: bytes):
    """A GET of HTTP/1.1 is answered at the same port; anything else is cut off."""
    peer.send(request_)
    assert (await peer.reader.read()).rpartition(b"\r\n\r\n")[2] == answer


async def test_the_end_of_the_server(started: Peer, services: Services):
    """A server that stops says so, and closes its connections."""
    started.send(call())
    await started.answer()
    (connection,) = services.connections
    connection.close()
    assert await started.ended() == 0
