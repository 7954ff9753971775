"""Requests and responses of the server, from a socket or a call in the same process."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import parse_qs, unquote

from kubeskew.apiserver.user import User

if TYPE_CHECKING:
    from kubeskew.apiserver.http.request_info import RequestInfo
    from kubeskew.apiserver.storage.interfaces import Watch

MAX_SECONDS = 60.0  # that a request takes which is not a watch
_SUSPECT = re.compile("[;%]")
_MALFORMED = re.compile(r";|%(?![0-9A-Fa-f]{2})")

BodyReader = Callable[[int], Awaitable[bytes]]
BodyPieces = Callable[[], AsyncIterator[bytes]]


class BodyTooLargeError(Exception):
    pass


class ConnectionDroppedError(ConnectionError):
    """Ends the connection without an answer."""


class BodyBrokenError(Exception):
    """The body ended early, or is not framed as it should be."""


class Peer(NamedTuple):
    """The transport has verified the client certificate of this subject."""

    common_name: str
    organizations: tuple[str, ...]
    fingerprint: str = ""  # SHA-256 of the certificate, hexadecimal
    until: float = math.inf  # end of the certificate's validity, in seconds since 1970
    certificate: bytes = b""  # DER


async def no_pieces() -> AsyncIterator[bytes]:
    return
    yield b""


async def no_body(_limit: int) -> bytes:
    return b""


def body_of(data: bytes) -> BodyReader:
    async def read(limit: int) -> bytes:
        if len(data) > limit:
            raise BodyTooLargeError
        return data

    return read


@dataclass(slots=True)
class Request:
    """Its first part comes from the transport, the second is filled in by the filters.

    Names in `headers` are lower-case. `query` has all values of a parameter, in order, decoded.


    """

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    read_body: BodyReader = no_body
    peer: Peer | None = None
    pieces: BodyPieces = no_pieces  # the body piece by piece, as it comes
    ends_with_client: bool = False  # the handler is cancelled when the client goes
    info: "RequestInfo" = field(init=False)
    user: User = field(init=False)
    request_id: str = ""
    size: int = 0  # of the body, in bytes, once it has been read
    warnings: list[str] = field(default_factory=list)
    known_at: float = 0.0  # monotonic time of its authentication
    answered_at: float = 0.0  # monotonic time of its handler's answer, if it had a seat
    _held: ExitStack | None = None

    def hold(self, context: AbstractContextManager[None]) -> None:
        """Enters a context that is left once the request has been answered."""
        if self._held is None:
            self._held = ExitStack()
        self._held.enter_context(context)

    def release(self) -> None:
        """Leaves the contexts that the request holds; the outermost filter calls it after the answer."""
        if self._held is not None:
            self._held.close()

    @classmethod
    def of(
        cls,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        peer: Peer | None = None,
    ) -> "Request":
        """Builds the request of a caller in the same process; `target` is path and query."""
        path, _, query = target.partition("?")
        lowered = {name.lower(): value for name, value in (headers or {}).items()}
        if body:
            lowered.setdefault("content-length", str(len(body)))

        async def pieces() -> AsyncIterator[bytes]:
            if body:
                yield body

        return cls(method, unquote(path), parse_query(query), lowered, body_of(body), peer, pieces)

    def param(self, name: str) -> str:
        """The first value counts; empty if the parameter is not given."""
        values = self.query.get(name)
        return values[0] if values else ""


def parse_query(text: str) -> Mapping[str, list[str]]:
    """Decodes a query string and keeps empty values.

    Pairs with a semicolon or a broken escape are left out, as Go's url.Values leaves them.

    """
    if not text:
        return {}
    if _SUSPECT.search(text):
        text = "&".join(pair for pair in text.split("&") if not _MALFORMED.search(pair))
    return parse_qs(text, keep_blank_values=True)


Headers = list[tuple[str, str]]


class Tunnel(Protocol):
    """Carries bytes in both directions after an upgrade; the transport's framing is gone."""

    async def read(self) -> bytes:
        """Waits for bytes, as they come; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Waits while the client is slow. Raises ConnectionError when it is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Upgrade:
    """`talk` has the connection from the end of the 101's head to its own end.

    The response's headers name the protocol (`Upgrade`, `Sec-WebSocket-Accept`, …); `Connection: Upgrade` is
    added. When `talk` returns or raises, the connection is closed.


    """

    talk: Callable[[Tunnel], Awaitable[None]]


@dataclass(slots=True)
class Response:
    """`body` is bytes, or for a watch an iterator of chunks that the transport must close.

    `length` is that of an iterator in bytes, if it is known: then it is sent, and no chunks are made. An
    iterator that cannot go on raises ConnectionError. A 101 has an `Upgrade` for its body.

    """

    status: int
    body: bytes | AsyncIterator[bytes] | Upgrade
    content_type: str = "application/json"
    headers: Headers = field(default_factory=list)
    length: int | None = None


Handler = Callable[[Request], Awaitable[Response]]


def text(status: int, body: str, headers: Headers | None = None) -> Response:
    """Has the header that keeps browsers from guessing another type (Go's http.Error, healthz)."""
    sniff = ("X-Content-Type-Options", "nosniff")
    return Response(status, body.encode(), "text/plain; charset=utf-8", [*(headers or []), sniff])


@dataclass(slots=True)
class Lifetime:
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    watches: "dict[Watch, None]" = field(default_factory=dict)

    def stop(self) -> None:
        """Ends all watches; readiness fails from now on."""
        self.stopping.set()
        for watch in tuple(self.watches):
            watch.close()
