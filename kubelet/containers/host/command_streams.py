"""Moves bytes between a command's descriptors and the streams of whoever called it."""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Callable
from typing import Any

from kubeskew.kubelet.containers.host.descriptors import Descriptor
from kubeskew.kubelet.containers.runtime_service import CommandStreams


async def copy(reader: Descriptor, write: Callable[[bytes], Any]) -> None:
    while data := await reader.read():
        await write(data)


async def feed(streams: CommandStreams, writer: Descriptor, *, closes: bool = True) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await streams.read():
            await writer.write(data)
    if closes:
        writer.close()


async def follow_size(terminal: Descriptor, streams: CommandStreams) -> None:
    while True:
        columns, rows = await streams.resized()
        if terminal.fd < 0:
            return
        with contextlib.suppress(OSError, struct.error):
            fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))


async def receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(connection.fileno(), readable)
    try:
        await ready
        data, fds, _flags, _address = socket.recv_fds(connection, 4096, 1)
    finally:
        loop.remove_reader(connection.fileno())
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, fds
