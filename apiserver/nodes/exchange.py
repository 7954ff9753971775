"""Sends one HTTP/1.1 request over a connection of its own; its answer is streamed, or turned into a pipe.

A connection per request is what upgrades need; logs and proxies are rare enough to do the same.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass

from kubeskew.apimachinery.streaming import Pipe, until_one_ends
from kubeskew.apiserver.http.request import BodyBrokenError
from kubeskew.apiserver.nodes.answers import BackendResponse, read_answer

_HEAD_LIMIT = 1 << 18
_HEAD_SECONDS = 30.0
_DIAL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a backend, plain HTTP without a context; `name`: the name its certificate must have."""

    host: str
    port: int
    context: ssl.SSLContext | None = None
    name: str = ""

    @property
    def scheme(self) -> str:
        return "https" if self.context is not None else "http"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def shown(self) -> str:
        """Returns the text for a Host header."""
        return self.name or str(self)


class DialError(Exception):
    """The backend cannot be reached; the text is Go's."""


Body = bytes | AsyncIterator[bytes]


async def send(
    address: Address,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]],
    body: Body = b"",
    *,
    head_seconds: float | None = _HEAD_SECONDS,
) -> BackendResponse:
    """Send a request; the answer once its head is there, however long the body still takes. Raises DialError.

    `headers` say how the body is framed: by its length or in chunks.
    """
    reader, writer = await _dial(address)
    headers = list(headers)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"{method} {target} HTTP/1.1\r\nHost: {address.shown}\r\n{lines}\r\n"
    sending: asyncio.Task[None] | None = None
    try:
        writer.write(head.encode("latin-1", "replace"))
        if isinstance(body, bytes):
            writer.write(body)
        else:
            chunked = ("Transfer-Encoding", "chunked") in headers
            sending = asyncio.create_task(_pump(writer, body, chunked=chunked), name="send a body")
        async with asyncio.timeout(head_seconds):
            return await read_answer(reader, writer, method, sending)
    except BaseException as error:
        if sending is not None:
            sending.cancel()
        writer.close()
        if isinstance(error, OSError | TimeoutError | asyncio.IncompleteReadError | ValueError | _TooLong):
            raise DialError("EOF") from error
        raise


_TooLong = asyncio.LimitOverrunError


async def _dial(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    name = address.name or None if address.context is not None else None
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            return await asyncio.open_connection(
                address.host, address.port, ssl=address.context, server_hostname=name, limit=_HEAD_LIMIT
            )
    except ssl.SSLCertVerificationError as error:
        raise DialError(f"tls: failed to verify certificate: x509: {error.verify_message}") from error
    except socket.gaierror as error:
        raise DialError(f"dial tcp: lookup {address.host}: no such host") from error
    except (OSError, TimeoutError, ValueError) as error:
        raise DialError(f"dial tcp {address}: {_words(error)}") from error


async def _pump(writer: asyncio.StreamWriter, body: AsyncIterator[bytes], *, chunked: bool) -> None:
    """Send a body as it comes; where it breaks off, so does the connection."""
    try:
        async for piece in body:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await writer.drain()
        if chunked:
            writer.write(b"0\r\n\r\n")
    except BodyBrokenError:
        writer.close()
    except OSError:
        pass  # the backend has read enough of it: its answer says why


def _words(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    if isinstance(error, TimeoutError):
        return "i/o timeout"
    return f"connect: {(getattr(error, 'strerror', None) or str(error)).lower()}"


async def join_pipes(one: Pipe, other: Pipe) -> None:
    """Carry bytes both ways until either side ends."""

    async def carry(source: Pipe, target: Pipe) -> None:
        with suppress(ConnectionError):
            while data := await source.read():
                await target.write(data)

    await until_one_ends(carry(one, other), carry(other, one))
