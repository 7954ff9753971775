"""Requests and responses of the server, from a socket or a call in the same process.

Their verb, resource and names are read from method, path and query once, as in
k8s.io/apiserver/pkg/endpoints/request/requestinfo.go, 1.36.
"""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import parse_qs, unquote

from kubeskew.apiserver.user import User

if TYPE_CHECKING:
    from kubeskew.apiserver.storage.interfaces import Watch

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_SPECIAL_PREFIXES = frozenset({"proxy", "watch"})
_SELECTING = frozenset({"list", "watch", "deletecollection"})
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(NamedTuple):
    """`verb` is upstream's: get, list, watch, create, update, patch, delete, deletecollection, proxy.

    For a non-resource request `verb` is the method in lower case and all else but `path` is empty.


    """

    is_resource: bool
    path: str
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    parts: tuple[str, ...] = ()
    field_selector: str = ""  # as the client wrote it
    label_selector: str = ""

    @property
    def is_long_running(self) -> bool:
        """Watches and logs, for example, may outlive all deadlines."""
        return self.verb in {"watch", "proxy"} or self.is_connection

    @property
    def is_connection(self) -> bool:
        """Connections transfer bytes of a container, a service or a node."""
        return self.subresource in _CONNECTIONS

    @property
    def is_mutating(self) -> bool:
        """Writes count against the limit of writes in flight."""
        return self.verb not in {"get", "list", "watch"}


_CONNECTIONS = frozenset({"log", "exec", "attach", "portforward", "proxy"})


def parse_info(method: str, path: str, query: Mapping[str, list[str]]) -> RequestInfo:
    """`path` is decoded. Raises ValueError for a bare special prefix."""
    info = _without_query(method, path)
    if not query or not info.is_resource or info.verb not in _SELECTING:
        return info
    verb = "watch" if info.verb == "list" and _is_watch(query) else info.verb
    fields, labels = ((query.get(name) or [""])[0] for name in ("fieldSelector", "labelSelector"))
    name = info.name or _name_of_selector(fields)
    return info._replace(verb=verb, name=name, field_selector=fields, label_selector=labels)


@lru_cache(maxsize=1024)
def _without_query(method: str, path: str) -> RequestInfo:
    """Cached: most requests without parameters are for few paths."""
    plain = RequestInfo(False, path, method.lower())
    parts = path.strip("/").split("/")  # parts may be empty
    if len(parts) < 3 or parts[0] not in {"api", "apis"}:
        return plain
    if parts[0] == "apis":
        if len(parts) < 4:
            return plain
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        group, version, rest = "", parts[1], parts[2:]
    verb = _VERBS.get(method, "")
    if rest[0] in _SPECIAL_PREFIXES:
        if len(rest) < 2:
            raise ValueError("unable to determine kind and namespace from url")
        verb, rest = rest[0], rest[1:]
    namespace, rest = _namespace(rest)
    resource, name, subresource = _split(rest)
    if not name and verb == "get":
        verb = "list"
    elif not name and verb == "delete":
        verb = "deletecollection"
    return RequestInfo(True, path, verb, group, version, resource, subresource, namespace, name, tuple(rest))


def _namespace(rest: list[str]) -> tuple[str, list[str]]:
    """Splits off the namespace. A namespace itself is in the namespace of its name."""
    if rest[0] != "namespaces":
        return "", rest
    if len(rest) == 1:
        return "", rest
    if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        return rest[1], rest[2:]
    return rest[1], rest


def _split(rest: list[str]) -> tuple[str, str, str]:
    padded = [*rest[:3], "", "", ""]
    return padded[0], padded[1], padded[2]


def _is_watch(query: Mapping[str, list[str]]) -> bool:
    """Converts a boolean parameter as Go does: all but empty, `false` and `0` is true."""
    if "watch" not in query:
        return False
    return query["watch"][0].lower() not in {"false", "0"}


def _name_of_selector(fields: str) -> str:
    for term in fields.split(","):
        field, _, value = term.partition("=")
        if field == "metadata.name" and not value.startswith("!"):
            return value.removeprefix("=")
    return ""


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

    Names in `headers` are lower-case. `query` has all values of a parameter, in order, decoded. `target` is
    path and query as they were sent.
    """

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    read_body: BodyReader = no_body
    peer: Peer | None = None
    client_address: str = ""  # the IP address it came from; empty for a caller in the same process
    pieces: BodyPieces = no_pieces  # the body piece by piece, as it comes
    target: str = ""
    ends_with_client: bool = False  # the handler is cancelled when the client goes
    info: "RequestInfo" = field(init=False)
    user: User = field(init=False)
    request_id: str = ""
    size: int = 0  # of the body, in bytes, once it has been read
    warnings: list[str] = field(default_factory=list)
    given: Callable[[], Any] | None = None  # returns the object in the body, as it was sent
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

        return cls(
            *(method, unquote(path), parse_query(query), lowered, body_of(body), peer),
            pieces=pieces,
            target=target,
        )

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
    close: Callable[[], None] | None = None  # lets go of what waits for `talk`, called or not

    async def aclose(self) -> None:
        """Ends what an answer holds that no client gets."""
        if self.close is not None:
            self.close()


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
