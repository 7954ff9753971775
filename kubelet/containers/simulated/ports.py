"""A small HTTP server in place of a container's own, because what runs in an image is not known.

It reports in JSON what was asked, and echoes other protocols.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import NamedTuple

import orjson

_HTTP = re.compile(rb"[A-Z]+ \S* HTTP/1\.[01]\r?\n")
_HTTP_BEGINNING = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE) ")
_LARGEST_HEAD = 1 << 16


class Identity(NamedTuple):
    """The pod that answers."""

    pod: str
    namespace: str
    node: str


class _Request(NamedTuple):
    """`last` if the connection ends with its answer."""

    method: str
    target: str
    body: bytes
    last: bool


class ActedConnection:
    """A connection of which this is the client's end."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._held = b""
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._ended = False

    async def read(self) -> bytes:
        if self._ended and self._answers.empty():
            return b""
        return await self._answers.get()

    async def write(self, data: bytes) -> None:
        if self._ended:
            raise ConnectionResetError("connection reset by peer")
        self._held += data
        if not _HTTP_BEGINNING.match(self._held):
            self._answers.put_nowait(self._held)
            self._held = b""
            return
        while (found := _request(self._held)) is not None:
            asked, self._held = found
            self._answers.put_nowait(self._answer(asked))
            if asked.last:
                self._end()
                return
        if len(self._held) > _LARGEST_HEAD:
            self._end()

    async def close(self) -> None:
        self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._answers.put_nowait(b"")

    def _answer(self, asked: _Request) -> bytes:
        answer = {**self._identity._asdict(), "method": asked.method, "path": asked.target}
        if asked.body:
            answer["body"] = asked.body.decode("utf-8", "replace")
        body = orjson.dumps(answer) + b"\n"
        head = "".join(f"{line}\r\n" for line in _head(len(body), last=asked.last))
        return f"{head}\r\n".encode("latin-1") + (b"" if asked.method == "HEAD" else body)


def _head(length: int, *, last: bool) -> Iterator[str]:
    yield "HTTP/1.1 200 OK"
    yield "Content-Type: application/json"
    yield "Server: kubeskew"
    yield f"Content-Length: {length}"
    yield f"Connection: {'close' if last else 'keep-alive'}"


def _request(data: bytes) -> tuple[_Request, bytes] | None:
    """A request comes with the bytes after it; None until it is complete."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end or not _HTTP.match(data):
        return None
    length = re.search(rb"(?i)\r\ncontent-length:\s*(\d+)", head)
    size = int(length[1]) if length else 0
    if len(rest) < size:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")[:3]
    headers = [line.partition(":")[::2] for line in lines]
    listed = [value for name, value in headers if name.strip().lower() == "connection"]
    options = {option.strip().lower() for option in ",".join(listed).split(",")}
    last = "close" in options or (version == "HTTP/1.0" and "keep-alive" not in options)
    return _Request(method, target, rest[:size], last), rest[size:]
