"""Sessions of exec and attach: the handshake, the streams, and the end when either side ends."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from kubeskew.apimachinery.streaming import Pipe
from kubeskew.apimachinery.streaming.websocket import PROTOCOL_ERROR, WebSocket, accept_key
from kubeskew.kubelet.server import channels as wire
from kubeskew.kubelet.server import spdy
from kubeskew.kubelet.server.channels import Channels, SpdyChannels, WebSocketChannels, accept_streams
from kubeskew.kubelet.server.commands import StreamOptions
from kubeskew.kubelet.server.hijacking import hand_over
from kubeskew.kubelet.server.view import ServerError

Session = Callable[[Channels], Coroutine[Any, Any, None]]


async def over_websocket(
    request: web.BaseRequest, options: StreamOptions, session: Session, protocol: str
) -> web.StreamResponse:
    async def talk(pipe: Pipe) -> None:
        socket = WebSocket(pipe)
        channels = WebSocketChannels(socket, protocol, options.stdin)
        # Shows the client that the connection is up (createWebSocketStreams).
        first = wire.STDOUT if options.stdout else wire.STDERR if options.stderr else wire.ERROR
        await channels.write(first, b"")
        reading = asyncio.create_task(channels.run(), name="remote command input")
        await _until_gone(session(channels), reading)
        await socket.close(PROTOCOL_ERROR)

    return await hand_over(request, websocket_headers(request, protocol), talk)


async def over_spdy(
    request: web.BaseRequest, options: StreamOptions, session: Session, protocol: str
) -> web.StreamResponse:
    resizes = options.tty and protocol.startswith(("v3.", "v4."))
    expected = 1 + options.stdin + options.stdout + options.stderr + resizes

    async def talk(pipe: Pipe) -> None:
        connection = spdy.Connection(pipe)
        reading = asyncio.create_task(connection.run(), name="remote command streams")
        try:
            async with asyncio.timeout(30):
                streams = await accept_streams(connection, expected)
            if streams is not None and wire.ERROR in streams:
                await _until_gone(session(SpdyChannels(streams, protocol)), reading)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    return await hand_over(request, [("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)], talk)


async def _until_gone(session: Coroutine[Any, Any, None], reading: asyncio.Task[None]) -> None:
    """Runs the session until it ends or the client goes."""
    running = asyncio.create_task(session, name="remote command")
    try:
        await asyncio.wait({running, reading}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
    finally:
        for task in (running, reading):
            task.cancel()
        await asyncio.gather(running, reading, return_exceptions=True)


def is_websocket(request: web.BaseRequest) -> bool:
    return "websocket" in request.headers.get("Upgrade", "").lower()


def offered_protocols(request: web.BaseRequest, header: str) -> list[str]:
    values = request.headers.getall(header, [])
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def chosen_protocol(offered: list[str], known: tuple[str, ...]) -> str:
    """Returns the first protocol that the client offers and the server knows; raises 403 if there is none."""
    found = next((name for name in offered if name in known), "")
    if offered and not found:
        names = " ".join(f'"{name}"' for name in offered)
        raise ServerError(403, f"unable to upgrade: unable to negotiate protocol: client supports [{names}]")
    return found


def shown_headers(request: web.BaseRequest) -> str:
    return " ".join(f"{name}:[{value}]" for name, value in request.headers.items())


def websocket_headers(request: web.BaseRequest, protocol: str) -> list[tuple[str, str]]:
    """Returns the headers of the 101 that opens a WebSocket."""
    accepted = accept_key(request.headers.get("Sec-WebSocket-Key", ""))
    headers = [("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accepted)]
    return [*headers, ("Sec-WebSocket-Protocol", protocol)] if protocol else headers
