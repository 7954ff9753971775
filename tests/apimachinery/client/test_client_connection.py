"""The client's connection, against sockets that answer as asked."""

import asyncio

import aiohttp
import pytest

from kubeskew.apimachinery.client.transport import HTTPTransport, Request

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class _Server:
    """Answers each request on a connection with the next of the given bytes; None ends the connection."""

    def __init__(self, *answers):
        self._answers = [*answers]
        self.connections = 0
        self.requests = []
        self._serving = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/base"
        self.transport = HTTPTransport(self.url)
        return self

    async def __aexit__(self, *_):
        await self.transport.close()
        self._server.close()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader, writer):
        self.connections += 1
        self._serving.append(asyncio.current_task())
        while self._answers:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            self.requests.append(head)
            answer = self._answers.pop(0)
            if answer is None:
                break
            writer.write(answer)
            if b"Connection: close" in answer:
                break
        writer.close()

    async def ask(self, method="GET", body=None, timeout=5.0):
        response = await self.transport(Request(method, "/x?y=z", {"A": "b"}, body, timeout))
        try:
            return response.status, await response.body()
        finally:
            await response.close()


async def test_connections_are_kept():
    """Two requests use one connection; the path of the base address comes first."""
    async with _Server(OK + b"Content-Length: 2\r\n\r\nhi", OK + b"Content-Length: 0\r\n\r\n") as server:
        assert await server.ask() == (200, b"hi")
        assert await server.ask("POST", b"") == (200, b"")

        assert server.connections == 1
        assert server.requests[0].startswith(b"GET /base/x?y=z HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"\r\nContent-Length: 0\r\n" in server.requests[1]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", id="chunked"),
        pytest.param(b"Connection: close\r\n\r\nhello", id="until-the-end"),
        pytest.param(b"Connection: close\r\nContent-Length: 5\r\n\r\nhello", id="closing"),
    ],
)
async def test_bodies(body):
    """However the end of the body is reported; a connection that closes is not used again."""
    async with _Server(OK + body, OK + b"Content-Length: 2\r\n\r\nhi") as server:
        assert await server.ask() == (200, b"hello")
        assert await server.ask() == (200, b"hi")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(None, aiohttp.ServerDisconnectedError, id="nothing"),
        pytest.param(
            OK + b"Content-Length: 9\r\nConnection: close\r\n\r\nhi", aiohttp.ClientPayloadError, id="half"
        ),
        pytest.param(b"nonsense\r\n\r\n", aiohttp.ClientPayloadError, id="nonsense"),
    ],
)
async def test_broken_answers(answer, error):
    """A broken answer raises an error that the rest of the client knows."""
    async with _Server(answer) as server:
        with pytest.raises(error):
            await server.ask()


@pytest.mark.parametrize(
    "request_",
    [Request("GET", "/x\r\nA: b"), Request("GET", "/", {"A": "b\n"}), Request("GET", "/", {"A\0": "b"}),
     Request("GET", "/", lines=[(b"A", b"b\r\nX-Remote-User: c")]),
     Request("GET", "/", lines=[(b"A\r", b"b")])],
)  # fmt: skip
async def test_no_line_is_added_to_a_request(request_):
    """Line breaks in the target, names or values of headers are refused before anything is sent."""
    async with _Server(OK) as server:
        with pytest.raises(aiohttp.ClientError, match="line break"):
            await server.transport(request_)
        assert server.connections == 0


async def test_an_answer_that_does_not_come():
    """The request gives up; its connection is not used again."""
    async with _Server(b"", OK + b"Content-Length: 2\r\n\r\nhi") as server:
        with pytest.raises(TimeoutError):
            await server.ask(timeout=0.05)

        assert await server.ask() == (200, b"hi")
        assert server.connections == 2


async def test_a_stream_that_is_not_read_holds_the_server_back():
    """Only so much is kept in memory; once it is read, the rest comes."""
    line = b"x" * 999_999 + b"\n"
    chunk = b"%x\r\n%b\r\n" % (len(line), line)
    async with _Server(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 8 + b"0\r\n\r\n") as server:
        response = await server.transport(Request("GET", "/watch"))
        lines = [len(line) async for line in response.lines()]
        await response.close()

        assert lines == [999_999] * 8


async def test_a_large_answer_does_not_hold_back_the_next():
    """Its end may come while nothing is taken from the socket; the next answer on the connection comes all
    the same."""
    large = OK + b"Content-Length: 4000000\r\n\r\n" + b"x" * 4_000_000
    async with _Server(large, large) as server:
        sizes = [len((await server.ask())[1]) for _ in range(2)]

        assert (sizes, server.connections) == ([4_000_000] * 2, 1)


async def test_only_so_many_requests_at_a_time():
    """The others wait for a connection instead of opening their own."""
    async with _Server(*[OK + b"Content-Length: 2\r\n\r\nhi"] * 6) as server:
        server.transport = HTTPTransport(server.url, max_requests=2)
        answers = await asyncio.gather(*(server.ask() for _ in range(6)))

        assert answers == [(200, b"hi")] * 6
        assert server.connections == 2
