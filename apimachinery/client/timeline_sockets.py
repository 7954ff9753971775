"""Announcements of components where the API server is a real program, which keeps no time line.

Its shim takes them instead: JSON, a line each, at a Unix socket in a directory that components are given. The
answer is a line: `ok`, `refused: WHY`, or `unavailable: WHY`, after which one may try again.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson

from kubeskew.apimachinery.objects import Object

_OK, _REFUSED = b"ok\n", b"refused: "
_SECONDS = 2.0
_LINE_MAX = 1 << 16

log = logging.getLogger(__name__)
# Raises ValueError for what is no announcement, OSError if it cannot be taken at present.
Take = Callable[[Object], Awaitable[None]]


def sockets(directory: Path | None) -> list[Path]:
    """Lists the sockets that shims have, in the order of the servers' names."""
    return sorted(directory.iterdir()) if directory is not None and directory.is_dir() else []


async def announce_at(directory: Path | None, announcement: Object) -> bool:
    """True once a shim has taken the announcement; False if none is there, or it refuses. Raises OSError if
    the shim that was reached does not take it at present.
    """
    for path in sockets(directory):
        try:
            reader, writer = await asyncio.open_unix_connection(path)
        except OSError as error:  # of a shim that was killed
            log.debug("%s: %s", path, error)
            continue
        try:
            async with asyncio.timeout(_SECONDS):
                writer.write(_line(announcement))
                return _taken(await reader.readline())
        finally:
            writer.close()
    return False


def announce_now(directory: Path | None, announcement: Object) -> bool:
    """Does as `announce_at`, and blocks the process until it is done."""
    for path in sockets(directory):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_SECONDS)
            try:
                connection.connect(str(path))
            except OSError as error:
                log.debug("%s: %s", path, error)
                continue
            connection.sendall(_line(announcement))
            return _taken(connection.makefile("rb").readline())
    return False


def _taken(answer: bytes) -> bool:
    if answer == _OK or answer.startswith(_REFUSED):
        return answer == _OK
    raise OSError(answer.decode("utf-8", "replace").strip() or "the connection was closed")


def _line(announcement: Object) -> bytes:
    return orjson.dumps(announcement) + b"\n"


async def take_announcements(path: Path, take: Take) -> asyncio.Server:
    """Serves the socket, in a directory that is there, until the server is closed. Raises OSError."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(await _answer(line, take))
                await writer.drain()
        except (ConnectionError, ValueError) as error:  # the latter for a line without an end
            log.debug("%s: %s", path, error)
        finally:
            writer.close()

    return await asyncio.start_unix_server(serve, path, limit=_LINE_MAX)


async def _answer(line: bytes, take: Take) -> bytes:
    try:
        await take(orjson.loads(line))
    except ValueError as error:
        return b"%b%b\n" % (_REFUSED, str(error).encode())
    except OSError as error:
        return f"unavailable: {error}\n".encode()
    return _OK
