"""Announcements of components where the API server is a real program, which keeps no time line.

Its shim takes them instead: JSON, a line each, at a Unix socket in a directory that components are given. The
answer is a line with OK, or with the reason of a refusal.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson

from kubeskew.apimachinery.objects import Object

_OK = b"ok\n"
_SECONDS = 2.0
_LINE_MAX = 1 << 16

log = logging.getLogger(__name__)
Take = Callable[[Object], Awaitable[None]]  # raises ValueError for what is no announcement


def sockets(directory: Path | None) -> list[Path]:
    """Lists the sockets that shims have, in the order of the servers' names."""
    return sorted(directory.iterdir()) if directory is not None and directory.is_dir() else []


async def announce_at(directory: Path | None, announcement: Object) -> bool:
    """True once a shim has taken the announcement; False if there is none that does."""
    for path in sockets(directory):
        try:
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    writer.write(_line(announcement))
                    if await reader.readline() == _OK:
                        return True
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            log.debug("%s: %s", path, error)
    return False


def announce_now(directory: Path | None, announcement: Object) -> bool:
    """Does as `announce_at`, and blocks the process until it is done."""
    for path in sockets(directory):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_SECONDS)
                connection.connect(str(path))
                connection.sendall(_line(announcement))
                if connection.makefile("rb").readline() == _OK:
                    return True
        except OSError as error:
            log.debug("%s: %s", path, error)
    return False


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
        return f"refused: {error}\n".encode()
    return _OK
