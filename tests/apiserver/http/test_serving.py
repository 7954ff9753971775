"""The server's own HTTP/1.1: order, continuation, streams to old clients, upgrades, the end."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from until import until

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.http.listener import HTTPServer
from kubeskew.apiserver.http.request import BodyBrokenError, Request, Response, Tunnel, Upgrade, text
from kubeskew.apiserver.options import ServerOptions
from kubeskew.cluster.ports import HeldPorts

HEAD = "Host: x\r\n"


async def handle(request: Request) -> Response:
    """`/echo` answers the body, `/chunks` streams, `/upgrade` echoes in capitals, others name themselves."""
    if request.path == "/echo":
        return Response(200, await request.read_body(1 << 20), "text/plain")
    if request.path == "/chunks":
        return Response(200, chunks(), "text/plain")
    if request.path == "/upgrade":
        return Response(101, Upgrade(talk), headers=[("Upgrade", "capitals")])
    if request.path == "/client":
        return text(200, request.client_address)
    return text(200, request.path)


async def chunks() -> AsyncIterator[bytes]:
    yield b"one"
    yield b""
    yield b"two"


async def talk(tunnel: Tunnel) -> None:
    while data := await tunnel.read():
        await tunnel.write(data.upper())


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = HTTPServer(handle, SystemClock())
    yield await server.accept("127.0.0.1", 0, None)
    await server.close(0.5)


async def exchange(port: int, data: str) -> bytes:
    """Everything that the server says to `data` until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data.encode())
    answer = await reader.read()
    writer.close()
    return answer


async def test_requests_have_the_address_of_their_client(port: int) -> None:
    """A handler sees the IP address that a connection came from."""
    answer = await exchange(port, f"GET /client HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n127.0.0.1")


async def test_requests_sent_ahead_are_answered_in_order(port: int) -> None:
    """Forty pipelined requests, more than are taken at once, get their answers in their order."""
    asked = "".join(f"GET /{n} HTTP/1.1\r\n{HEAD}\r\n" for n in range(40))

    answer = await exchange(port, f"{asked}GET /last HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n")

    assert [part.split(b"HTTP/")[0] for part in answer.split(b"\r\n\r\n")[1:]] == [
        *(f"/{n}".encode() for n in range(40)),
        b"/last",
    ]


async def test_a_body_is_asked_for(port: int) -> None:
    """A client that expects 100 gets it once its handler wants the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /echo HTTP/1.1\r\n{HEAD}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n".encode())

    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"hi")

    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(2) == b"hi"
    writer.close()


async def test_an_unread_body_does_not_become_a_request(port: int) -> None:
    """A short body that the handler does not read is skipped, and the connection serves the next request."""
    sneaky = "GET /sneaky HTTP/1.1\r\n\r\n"
    asked = f"POST /a HTTP/1.1\r\n{HEAD}Content-Length: {len(sneaky)}\r\n\r\n{sneaky}"

    answer = await exchange(port, f"{asked}GET /b HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n")

    assert b"sneaky" not in answer
    assert answer.endswith(b"/b")


async def test_a_head_without_a_body(port: int) -> None:
    """HEAD shows the length of what GET would give, and gives nothing."""
    answer = await exchange(port, f"HEAD /path HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n")

    assert b"Content-Length: 5\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("version", "body"), [("1.1", b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"), ("1.0", b"onetwo")]
)
async def test_streams(port: int, version: str, body: bytes) -> None:
    """A stream comes in chunks, empty ones left out; who knows no chunks gets the bytes until the end."""
    answer = await exchange(port, f"GET /chunks HTTP/{version}\r\n{HEAD}Connection: close\r\n\r\n")

    assert answer.partition(b"\r\n\r\n")[2] == body


async def test_a_stream_that_only_its_head_was_asked_of(port: int) -> None:
    """The next answer on the connection begins right behind the head."""
    asked = f"HEAD /chunks HTTP/1.1\r\n{HEAD}\r\nGET /next HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n"

    answer = await exchange(port, asked)

    assert [part.split(b"\r\n")[0] for part in answer.split(b"\r\n\r\n")] == [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK",
        b"/next",
    ]


@pytest.mark.parametrize(
    ("target", "status", "body"),
    [
        ("http://somewhere:1/a%20b?c", b"200 OK", b"/a b"),
        ("/a%zz", b"400 Bad Request", b"400 Bad Request"),
        ("/a%", b"400 Bad Request", b"400 Bad Request"),
        ("/a?b=%zz", b"200 OK", b"/a"),
    ],
)
async def test_targets(port: int, target: str, status: bytes, body: bytes) -> None:
    """A whole address leads to its path; what is not encoded right is no path, as Go says."""
    answer = await exchange(port, f"GET {target} HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.endswith(b"\r\n\r\n" + body)


async def test_an_upgrade_hands_over_the_connection(port: int) -> None:
    """After 101 the handler has the bytes, also those that came with the head, until either side ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET /upgrade HTTP/1.1\r\n{HEAD}Connection: Upgrade\r\nUpgrade: capitals\r\n\r\nab".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: capitals\r\n")
    assert b"Connection: Upgrade\r\n" in head
    assert await reader.readexactly(2) == b"AB"
    writer.write(b"cd")
    assert await reader.readexactly(2) == b"CD"
    writer.close()


async def test_an_upgrade_that_is_not_granted(port: int) -> None:
    """A request to upgrade that the handler ignores is answered, and the connection ends."""
    answer = await exchange(port, f"GET /a HTTP/1.1\r\n{HEAD}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"/a")


LARGE = 300_000  # bytes of a body that nobody reads, more than is skipped before an answer
CHUNKS = f"{LARGE:x}\r\n{'a' * LARGE}\r\n0\r\n\r\n"
POST = f"POST /behind HTTP/1.1\r\n{HEAD}Content-Length: 0\r\n\r\n"


@pytest.fixture
async def asked() -> AsyncIterator[tuple[int, list[str]]]:
    """A server that answers what `handle` does, and the paths that it was asked for."""
    paths: list[str] = []

    async def note(request: Request) -> Response:
        paths.append(request.path)
        try:
            return await handle(request)
        except BodyBrokenError:
            return text(400, "broken")

    server = HTTPServer(note, SystemClock())
    yield await server.accept("127.0.0.1", 0, None), paths
    await server.close(0.5)


@pytest.mark.parametrize(
    ("last", "status", "handled"),
    [
        (f"GET / HTTP/1.1\r\n{HEAD}{HEAD}\r\n", b"400", 0),
        ("GET / HTTP/1.1\r\n\r\n", b"400", 0),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", b"400", 0),
        (f"GET /%zz HTTP/1.1\r\n{HEAD}\r\n", b"400", 0),
        (f"GET / HTTP/2.0\r\n{HEAD}\r\n", b"505", 0),
        (f"GET / HTTP/1.1\r\n{HEAD}No colon\r\n\r\n", b"400", 0),
        (f"POST / HTTP/1.1\r\n{HEAD}Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", b"501", 0),
        (f"POST / HTTP/1.1\r\n{HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", b"501", 0),
        (f"GET / HTTP/1.1\r\n{HEAD}X: {'a' * (1 << 21)}\r\n\r\n", b"431", 0),
        (f"GET / HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n", b"200", 1),
        (f"GET / HTTP/1.0\r\n{HEAD}\r\n", b"200", 1),
        (f"GET /chunks HTTP/1.0\r\n{HEAD}Connection: keep-alive\r\n\r\n", b"200", 1),
        (f"POST /echo HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400", 1),
        (f"POST / HTTP/1.1\r\n{HEAD}Content-Length: {LARGE}\r\n\r\n{'a' * LARGE}", b"200", 1),
        (f"POST / HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n{CHUNKS}", b"200", 1),
        (f"POST / HTTP/1.1\r\n{HEAD}Expect: 100-continue\r\nContent-Length: {LARGE}\r\n\r\n", b"200", 1),
        (f"GET / HTTP/1.1\r\n{HEAD}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", b"200", 1),
    ],
)
@pytest.mark.parametrize("together", [True, False], ids=["one write", "two writes"])
async def test_nothing_is_done_behind_the_last_answer(
    asked: tuple[int, list[str]], last: str, status: bytes, handled: int, together: bool
) -> None:
    """Nothing is read behind a request whose answer closes the connection, as in Go's server."""
    port, paths = asked
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /before HTTP/1.1\r\n{HEAD}\r\n{last}{POST if together else ''}".encode())
    assert (await reader.readuntil(b"/before")).startswith(b"HTTP/1.1 200 OK\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    if not together:
        writer.write(POST.encode())
    rest = await read_all(reader)
    writer.close()

    assert head.split()[1] == status
    assert b"\r\nConnection: close\r\n" in head
    assert b"HTTP/1.1" not in rest
    assert len(paths) == 1 + handled
    assert "/behind" not in paths


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Reads until the connection ends, by a reset or not."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_nothing_is_done_behind_framing_that_is_refused(asked: tuple[int, list[str]]) -> None:
    """A request behind a body of too many chunk extensions is not taken, though the body came to an end."""
    port, paths = asked
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /echo HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
    await until(lambda: paths)
    writer.write(b"1;" + b"a" * 300_000)
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"\r\nx\r\n0\r\n\r\n" + POST.encode())
    await read_all(reader)
    writer.close()

    assert head.split()[1] == b"400"
    assert paths == ["/echo"]


async def test_line_breaks_in_a_header_become_spaces() -> None:
    """Text from a client that the server repeats in a header cannot start another header."""

    async def warn(request: Request) -> Response:
        return text(200, "", [("Warning", "a\r\nSet-Cookie: b")])

    server = HTTPServer(warn, SystemClock())
    port = await server.accept("127.0.0.1", 0, None)

    answer = await exchange(port, f"GET / HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n")

    assert b"\r\nWarning: a  Set-Cookie: b\r\n" in answer
    await server.close(0.5)


async def test_an_answer_under_way_outlives_the_listener() -> None:
    """Closing ends idle connections at once and waits for the answer under way, but begins no other."""
    asked, answered = asyncio.Event(), asyncio.Event()
    paths = []

    async def slow(request: Request) -> Response:
        paths.append(request.path)
        asked.set()
        await answered.wait()
        return text(200, "late")

    server = HTTPServer(slow, SystemClock())
    port = await server.accept("127.0.0.1", 0, None)
    idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
    asking = asyncio.create_task(
        exchange(port, f"GET / HTTP/1.1\r\n{HEAD}\r\nGET /next HTTP/1.1\r\n{HEAD}\r\n")
    )
    await asked.wait()
    closing = asyncio.create_task(server.close(10))

    assert await idle.read() == b""
    assert not closing.done()
    answered.set()
    assert (await asking).endswith(b"late")
    await closing
    assert paths == ["/"]
    idle_writer.close()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked", b"400"),
        ("Content-Length: 4\r\nContent-Length: 40", b"400"),
        ("Content-Length: 4, 4", b"400"),
        ("Content-Length: +4", b"400"),
        ("Content-Length : 4", b"400"),
        ("Transfer-Encoding : chunked", b"400"),
        ("Transfer-Encoding:\r\n chunked", b"400"),
        ("Transfer-Encoding: chunked, identity", b"400"),
        ("Transfer-Encoding: gzip, chunked", b"501"),
        ("Transfer-Encoding: xchunked", b"501"),
        ("X: a\r\n b", b"400"),
        ("X: a\rContent-Length: 4", b"400"),
        ("X: a\0b", b"400"),
    ],
)
async def test_bodies_whose_end_is_not_clear(port: int, head: str, status: bytes) -> None:
    """A body whose length is ambiguous is refused, and no request is read from behind it."""
    sneaky = f"0\r\n\r\nGET /sneaky HTTP/1.1\r\n{HEAD}\r\n"

    answer = await exchange(port, f"POST /echo HTTP/1.1\r\n{HEAD}{head}\r\n\r\n{sneaky}")

    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.count(b"HTTP/1.1") == 1
    assert b"/sneaky" not in answer


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("GET / HTTP/2.0\r\nHost: x", b"505 HTTP Version Not Supported: unsupported protocol version"),
        ("GET / HTTP/1.1\r\nHost: a b", b"400 Bad Request: malformed Host header"),
        ("GET / HTTP/1.1\r\nHost: a/b", b"400 Bad Request: malformed Host header"),
    ],
)
async def test_what_is_not_spoken_here(port: int, first: str, said: bytes) -> None:
    """Go's words for another version, and for a host that is none."""
    assert (await exchange(port, f"{first}\r\n\r\n")).endswith(b"\r\n\r\n" + said)


@pytest.mark.parametrize("endless", [b"1;" + b"a" * 300_000, b"0\r\n" + b"X: y\r\n" * 50_000])
async def test_framing_without_end(endless: bytes) -> None:
    """Chunk extensions and trailers that are far longer than the data end the body; large bodies do not."""
    failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def read(request: Request) -> Response:
        try:
            return text(200, str(len(await request.read_body(1 << 24))))
        except BodyBrokenError as error:
            failure.set_result(str(error))
            return text(400, "")

    server = HTTPServer(read, SystemClock())
    port = await server.accept("127.0.0.1", 0, None)
    chunked = f"POST / HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(chunked + b"".join(b"1\r\nx\r\n" for _ in range(20_000)) + b"0\r\n\r\n")
    assert (await reader.read()).endswith(b"20000")
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(chunked + b"100000\r\n" + b"x" * (1 << 20) + b"\r\n0\r\n\r\n")
    assert (await reader.read()).endswith(b"1048576")
    writer.close()
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(chunked)
    await writer.drain()
    writer.write(endless)
    assert await asyncio.wait_for(failure, 30) == "chunked encoding contains too much non-data"
    writer.transport.abort()
    await server.close(0.5)


async def named(port: int, times: int) -> set[str]:
    """The bodies that a server, or several on one port, answer in so many connections."""
    asked = f"GET / HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n"
    return {(await exchange(port, asked)).rpartition(b"\r\n")[2].decode() for _ in range(times)}


async def test_servers_share_a_port_as_long_as_they_listen() -> None:
    """Connections come to each; to one that refuses them, or has finished, none, and none is refused."""

    def naming(name: str) -> HTTPServer:
        async def handle(_request: Request) -> Response:
            return text(200, name)

        return HTTPServer(handle, SystemClock())

    first, second = servers = naming("first"), naming("second")
    with HeldPorts() as ports:
        options = ServerOptions(shared_port=ports.choose(()))
        for server in servers:
            await server.listen(options)
            await server.share(options)
    assert await named(options.shared_port, 60) == {"first", "second"}
    over = asyncio.Event()
    outage = asyncio.create_task(first.refuse_during(over.wait()))
    await asyncio.sleep(0)
    assert await named(options.shared_port, 20) == {"second"}
    over.set()
    await outage
    second.finish()
    assert await named(options.shared_port, 20) == {"first"}
    for server in servers:
        await server.close(0.5)


async def test_an_upgrade_that_was_not_asked_for_is_let_go() -> None:
    """The handler is told that there is no upgraded connection."""
    closed: list[bool] = []

    async def upgrade(_: Request) -> Response:
        return Response(101, Upgrade(talk, lambda: closed.append(True)))

    server = HTTPServer(upgrade, SystemClock())
    port = await server.accept("127.0.0.1", 0, None)
    assert await exchange(port, f"GET / HTTP/1.1\r\n{HEAD}\r\n") == b""
    assert closed == [True]
    await server.close(0)


async def test_a_body_comes_before_an_upgrade(port: int) -> None:
    """A request to upgrade may have a body; what follows that is for the upgraded connection."""
    wish = f"{HEAD}Connection: Upgrade\r\nUpgrade: capitals\r\nContent-Length: 4\r\n\r\n"
    assert (await exchange(port, f"POST /echo HTTP/1.1\r\n{wish}sent")).endswith(b"\r\n\r\nsent")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /upgrade HTTP/1.1\r\n{wish}sentab".encode())
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(2) == b"AB"
    writer.close()
