"""The streams of exec and attach, over WebSocket and over SPDY, behind one interface.

Source: k8s.io/kubelet/pkg/cri/streaming/remotecommand (httpstream.go, websocket.go) and
k8s.io/apimachinery/pkg/util/httpstream/wsstream/conn.go, 1.36.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Protocol

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.streaming.websocket import Opcode, WebSocket
from kubeskew.kubelet.server import spdy

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
# Newest first, as the server prefers them.
WEBSOCKET_PROTOCOLS = (
    "v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io",
    "base64.channel.k8s.io",
)  # fmt: skip
SPDY_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
COPIED = 32 << 10  # bytes that a runtime copies at once into the connection: the buffer of Go's io.Copy
_NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}

log = logging.getLogger(__name__)


class Channels(Protocol):
    """One session's streams."""

    async def read(self) -> bytes:
        """Returns the next bytes of the standard input; empty at its end."""
        ...

    async def write(self, channel: int, data: bytes) -> None: ...

    async def finish(self, status: Object) -> None:
        """Reports how the command ended, and closes the streams."""
        ...


class WebSocketChannels:
    """One message per write, whose first byte is the channel; several of a write larger than what a runtime
    copies at once.

    Clients put a message together in memory, some of them in a time that grows with the square of its size.
    """

    def __init__(self, socket: WebSocket, protocol: str, stdin: bool) -> None:
        self._socket = socket
        self._base64 = "base64" in protocol
        self._text_errors = not protocol.startswith(("v4.", "v5."))
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._stdin = stdin
        self.gone = asyncio.Event()

    async def run(self) -> None:
        """Reads until the client goes."""
        try:
            while (message := await self._socket.receive()) is not None:
                channel, data = self._opened(message.data)
                if channel == STDIN and data:
                    self._incoming.put_nowait(data)
                elif channel == CLOSE and data[:1] == b"\0":
                    self._incoming.put_nowait(b"")
        except ConnectionError:
            pass
        finally:
            self._incoming.put_nowait(b"")
            self.gone.set()

    def _opened(self, message: bytes) -> tuple[int, bytes]:
        """Returns the channel of a message, and its data; -1 if it has none, or its base64 cannot be read."""
        if not message:
            return -1, b""
        if not self._base64:
            return message[0], message[1:]
        channel, text = message[0] - ord("0"), message[1:].translate(None, b"\r\n")
        try:
            if len(text) % 4:
                raise binascii.Error("illegal base64 data")
            return channel, base64.b64decode(text, validate=True)
        except binascii.Error as error:
            log.error("Unable to write frame (%d bytes) to %d: %s", len(message) - 1, channel, error)
            return -1, b""

    async def read(self) -> bytes:
        return await self._incoming.get()

    async def write(self, channel: int, data: bytes) -> None:
        for start in range(0, max(len(data), 1), COPIED):
            piece = data[start : start + COPIED]
            if self._base64:
                coded = bytes([ord("0") + channel]) + base64.b64encode(piece)
                await self._socket.send(coded, Opcode.TEXT)
            else:
                await self._socket.send(bytes([channel]) + piece)

    async def finish(self, status: Object) -> None:
        if not self._text_errors:
            await self.write(ERROR, orjson.dumps(status))
        elif status.get("status") != "Success":
            await self.write(ERROR, str(status.get("message", "")).encode())
        await self._socket.close()


class SpdyChannels:
    """One stream per channel, opened by the client."""

    def __init__(self, streams: Mapping[int, spdy.Stream], protocol: str) -> None:
        self._streams = streams
        self._text_errors = not protocol.startswith("v4.")

    async def read(self) -> bytes:
        stream = self._streams.get(STDIN)
        if stream is None:
            await asyncio.Event().wait()  # waits for ever: there is no such stream
            return b""
        return await stream.read()

    async def write(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(channel)
        if stream is not None and data:
            await stream.write(data)

    async def finish(self, status: Object) -> None:
        error = self._streams[ERROR]
        if not self._text_errors:
            await error.write(orjson.dumps(status))
        elif status.get("status") != "Success":
            await error.write(str(status.get("message", "")).encode())
        for stream in self._streams.values():
            await stream.close()


async def accept_streams(connection: spdy.Connection, expected: int) -> dict[int, spdy.Stream] | None:
    """Returns the channels that the client opens; None if it goes before all are open."""
    found: dict[int, spdy.Stream] = {}
    while len(found) < expected:
        stream = await connection.accept()
        if stream is None:
            return None
        found[_NAMES.get(stream.headers.get("streamtype", ""), -1)] = stream
    return found
