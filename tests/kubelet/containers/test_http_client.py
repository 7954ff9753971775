import itertools
from collections.abc import Iterable

import pytest

from kubeskew.kubelet.containers import http_client
from kubeskew.kubelet.containers.http_client import HTTPError

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
MOST = 1000


class Server:
    """A connection whose other side writes parts, and counts how many of their bytes were read."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self.read_bytes = 0

    async def read(self) -> bytes:
        part = next(self._parts, b"")
        self.read_bytes += len(part)
        return part

    async def write(self, data: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


async def _get(server: Server) -> bytes:
    return (await http_client.request(server, "GET", "/", (), most=MOST)).body


BODIES = {
    "a length": ([HEAD + b"Content-Length: 4\r\n\r\nbody more"], b"body"),
    "until the end": ([HEAD + b"\r\nbo", b"dy"], b"body"),
    "chunks": ([CHUNKED + b"2\r\nbo\r", b"\n2;x=y\r\ndy\r\n0\r\n\r\n"], b"body"),
    "bytes one by one": ([bytes([one]) for one in CHUNKED + b"4\r\nbody\r\n0\r\n\r\n"], b"body"),
    "after an interim answer": ([b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"\r\nbody"], b"body"),
    "more than is kept": ([CHUNKED + b"3\r\nabc\r\n7d0\r\n" + b"x" * 2000], b"abc" + b"x" * 997),
}


@pytest.mark.parametrize("case", BODIES)
async def test_bodies(case: str) -> None:
    """A body ends with its length, with its last chunk, with the connection, or with what is kept."""
    parts, expected = BODIES[case]
    assert await _get(Server(parts)) == expected


ENDLESS = {
    "a chunk": (CHUNKED + b"7fffffff\r\n", b"x" * 500),
    "a body": (HEAD + b"\r\n", b"x" * 500),
    "headers": (HEAD, b"a: b\r\n" * 1000),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "a line": (b"", b"x" * 10_000),
}


@pytest.mark.parametrize("case", ENDLESS)
async def test_answers_without_end(case: str) -> None:
    """A server that writes without end is not read without end."""
    first, rest = ENDLESS[case]
    server = Server(itertools.chain([first + rest], itertools.repeat(rest, 1000)))
    if case in {"a chunk", "a body"}:
        assert await _get(server) == b"x" * MOST
        assert server.read_bytes < len(first) + MOST + len(rest)
    else:
        with pytest.raises(HTTPError, match=r"exceeded|malformed"):
            await _get(server)
        assert server.read_bytes < 2 << 20


MALFORMED = {
    "no HTTP": (b"SSH-2.0\r\n\r\n", "malformed HTTP response"),
    "a long status": (b"HTTP/1.1 " + b"9" * 5000 + b" OK\r\n\r\n", "malformed HTTP response"),
    "a negative size": (CHUNKED + b"-5\r\nabc", "invalid byte in chunk length"),
    "no size": (CHUNKED + b"\r\nabc", "invalid byte in chunk length"),
    "a size that is too long": (CHUNKED + b"1" * 17 + b"\r\nabc", "http chunk length too large"),
    "a chunk that breaks off": (CHUNKED + b"5\r\nabc", "EOF"),
}


@pytest.mark.parametrize("case", MALFORMED)
async def test_malformed_answers(case: str) -> None:
    """An answer that is no HTTP is an error of its own kind."""
    sent, text = MALFORMED[case]
    with pytest.raises(HTTPError, match=text):
        await _get(Server([sent]))
