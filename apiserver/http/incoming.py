"""Makes requests from the bytes of a connection: the callbacks of the HTTP parser."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import httptools

from kubeskew.apiserver.http import heads
from kubeskew.apiserver.http.request import Peer, Request, parse_query
from kubeskew.apiserver.http.request_body import Body
from kubeskew.apiserver.http.transport import ConnectionTransport

_HEAD_MAX = (1 << 20) + 4096  # bytes; as upstream (MaxHeaderBytes and Go's slack)
_FRAMING_MAX = 64 << 10  # bytes of chunk sizes, extensions and trailers, beside so many times the data:
_FRAMING_FACTOR = 8
_ABSOLUTE = re.compile(r"^https?://[^/?]*")  # before a path, as clients write it for a proxy
_HOST = re.compile(r"[A-Za-z0-9!$%&'()*+,\-.:;=@\[\]_~]*")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class IncomingRequest(NamedTuple):
    """Holds a request and what its answer must know of how it came."""

    request: Request
    body: Body
    keep_alive: bool
    chunked: bool  # the client understands chunks (HTTP/1.1)


class Refusal(NamedTuple):
    """Holds the whole answer to what is no request."""

    answer: bytes


class _NotServedError(Exception):
    """Stops the parser at a head that is refused with `answer`."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


class Incoming:
    """Parses what a connection gets.

    `begun` is called when a request begins, `taken` with each that has its head, in the end perhaps with a
    refusal in Go's words. What comes behind a request that is the last is dropped unread, as Go's server
    does: behind one that is refused or broken, and behind one that asks for the connection's end.
    """

    def __init__(
        self,
        transport: ConnectionTransport,
        peer: Peer | None,
        begun: Callable[[], None],
        taken: Callable[[IncomingRequest | Refusal], None],
    ) -> None:
        self.body: Body | None = None  # of the request that is coming in
        self._transport = transport
        self._peer = peer
        self._begun = begun
        self._taken = taken
        self._ended = False  # nothing more is read
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    def feed(self, data: bytes) -> bytes | None:
        """Parses bytes; what follows a request to upgrade, and is no HTTP any more, is given back."""
        if self._ended:
            return None
        if self.body is None:
            self._head_size += len(data)
        else:
            self._framed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._end(cause.answer if isinstance(cause, _NotServedError) else heads.refusal(400), error)
        if self.body is None and self._head_size > _HEAD_MAX:
            self._end(heads.refusal(431), ValueError("the head is too large"))
        elif self._framed > _FRAMING_FACTOR * self._data + _FRAMING_MAX:
            self._end(heads.refusal(400), ValueError("chunked encoding contains too much non-data"))
        return None

    def _end(self, answer: bytes, error: Exception) -> None:
        """Reads no further: the handler of a body that breaks off answers, else `answer` does."""
        if self._ended:
            return
        self._ended = True
        if self.body is not None and not self.body.complete:
            self.body.fail(error)
        else:
            self._taken(Refusal(answer))

    # --- the parser's calls --------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._url = b""
        self._headers: heads.RawHeaders = []
        self._head_size = 0  # bytes
        self._framed = self._data = 0  # bytes behind the head, and of them of the body itself
        self._keep_alive = True
        self.body = None

    def on_message_begin(self) -> None:
        self._begin()
        self._begun()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.body is None:  # else it is a trailer, which nobody reads
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser, transport = self._parser, self._transport
        target = self._url.decode("latin-1")
        path, _, query = (target if target[:1] == "/" else _ABSOLUTE.sub("", target)).partition("?")
        broken = "%" in path and _BROKEN_ESCAPE.search(path)
        if "%" in path:
            path = unquote(path)
        fields = heads.decoded(self._headers)
        length = fields.get("content-length", "")
        body = Body(int(length) if length.isdecimal() else 0, transport.hold, transport.release)
        chunked = parser.get_http_version() != "1.0"
        problem = _host_problem(fields.getall("host", ())) if chunked else ""
        if problem or broken:
            raise _NotServedError(heads.refusal(400, problem))
        unheard = _unheard_of(parser.get_http_version(), fields.get("transfer-encoding", ""))
        if unheard:
            raise _NotServedError(unheard)
        self.body = body
        method = parser.get_method().decode("ascii")
        if fields.get("expect", "").lower() == "100-continue":
            body.when_wanted(lambda: transport.raw.write(b"HTTP/1.1 100 Continue\r\n\r\n"))
        request = Request(method, path, parse_query(query), fields, body.read, self._peer, body.pieces)
        self._keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        self._taken(IncomingRequest(request, body, self._keep_alive, chunked))

    def on_body(self, body: bytes) -> None:
        self._data += len(body)
        if self.body is not None:
            self.body.feed(body)

    def on_message_complete(self) -> None:
        if self.body is not None:
            self.body.finish()
        self._ended = not self._keep_alive


def _unheard_of(version: str, encoding: str) -> bytes:
    """Returns Go's answer to what it does not speak, empty if it does."""
    if not version.startswith("1."):
        return heads.refusal(505, ": unsupported protocol version")
    if encoding and version != "1.0" and encoding.strip().lower() != "chunked":
        return heads.refusal(501, text="Unsupported transfer encoding")
    return b""


def _host_problem(hosts: Sequence[str]) -> str:
    """Returns Go's error for a request without exactly one host."""
    if len(hosts) == 1:
        return "" if _HOST.fullmatch(hosts[0]) else ": malformed Host header"
    return ": too many Host headers" if hosts else ": missing required Host header"
