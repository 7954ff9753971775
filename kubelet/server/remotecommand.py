"""`/exec`, `/attach` and `/run`: commands in a container, and the container's own program, over streams.

A session is the handshake, the streams over WebSocket or SPDY, which are behind one interface, and the end
when either side ends. For SPDY the connection is taken over from aiohttp's server after the request's head.

Sources: k8s.io/kubelet/pkg/cri/streaming/remotecommand (httpstream.go, websocket.go, exec.go, attach.go,
server.go) and k8s.io/apimachinery/pkg/util/httpstream/wsstream/conn.go, 1.36.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.streaming import Pipe
from kubeskew.apimachinery.streaming.websocket import PROTOCOL_ERROR, Opcode, WebSocket, accept_key
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError, RuntimeService
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.protocols import spdy
from kubeskew.kubelet.server.stats import ServerError

_BUFFER = 1 << 18
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
SUCCESS: Object = {"metadata": {}, "status": "Success"}


class StreamPipe:
    """A pipe over asyncio's streams."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes = b""
    ) -> None:
        """`first` are bytes that were read already."""
        self._reader, self._writer = reader, writer
        self._first = first

    async def read(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        try:
            return await self._reader.read(1 << 16)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError, TimeoutError):  # closed by the other side first
            await self._writer.wait_closed()


class _Answered(web.StreamResponse):
    """Stands for an answer that was written to the connection without aiohttp."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        self.force_close()
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        pass


async def hand_over(
    incoming: web.BaseRequest, headers: Iterable[tuple[str, str]], talk: Callable[[Pipe], Awaitable[None]]
) -> web.StreamResponse:
    """Answers 101 with `headers`, and runs `talk` on the connection; closes it when that returns or
    raises."""
    transport, protocol = incoming.transport, incoming.protocol
    if transport is None:
        raise ConnectionResetError("the client is gone")
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_BUFFER, loop=loop)
    streams = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport.set_protocol(streams)
    streams.connection_made(transport)
    pipe = StreamPipe(reader, asyncio.StreamWriter(transport, streams, reader, loop))
    try:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        await pipe.write(f"HTTP/1.1 101 Switching Protocols\r\n{lines}Connection: Upgrade\r\n\r\n".encode())
        await talk(pipe)
    except ConnectionError:
        pass  # the client closed during `talk`
    finally:
        await pipe.close()
        protocol.connection_lost(None)
    return _Answered()


class Channels(Protocol):
    """One session's streams."""

    async def read(self) -> bytes:
        """Empty bytes are the end of the standard input."""
        ...

    async def resized(self) -> tuple[int, int]:
        """(columns, rows) of the client's terminal, once they change."""
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
        self._sizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self._stdin = stdin
        self.gone = asyncio.Event()

    async def run(self) -> None:
        try:
            while (message := await self._socket.receive()) is not None:
                channel, data = self._opened(message.data)
                if channel == STDIN and data:
                    self._incoming.put_nowait(data)
                elif channel == RESIZE:
                    for size in _sizes(data):
                        self._sizes.put_nowait(size)
                elif channel == CLOSE and data[:1] == b"\0":
                    self._incoming.put_nowait(b"")
        except ConnectionError:
            pass
        finally:
            self._incoming.put_nowait(b"")
            self.gone.set()

    def _opened(self, message: bytes) -> tuple[int, bytes]:
        """The channel is -1 if the message has none, or its base64 cannot be read."""
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

    async def resized(self) -> tuple[int, int]:
        return await self._sizes.get()

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

    async def resized(self) -> tuple[int, int]:
        stream = self._streams.get(RESIZE)
        while stream is not None and (data := await stream.read()):
            for size in _sizes(data):
                return size
        await asyncio.Event().wait()  # waits for ever: nothing comes any more
        return 0, 0

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


def _sizes(data: bytes) -> list[tuple[int, int]]:
    """(columns, rows) of a message of the channel of sizes; none if it cannot be read."""
    try:
        size = orjson.loads(data)
        return [(int(size["Width"]), int(size["Height"]))]
    except (ValueError, TypeError, KeyError):
        return []


async def accept_streams(connection: spdy.Connection, expected: int) -> dict[int, spdy.Stream] | None:
    """Waits until the client has opened its channels; None if it goes before."""
    found: dict[int, spdy.Stream] = {}
    while len(found) < expected:
        stream = await connection.accept()
        if stream is None:
            return None
        found[_NAMES.get(stream.headers.get("streamtype", ""), -1)] = stream
    return found


@dataclass(frozen=True, slots=True)
class StreamOptions:
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def of(cls, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> "StreamOptions":
        """A terminal has one output. Raises ServerError if there are no streams."""
        if not (stdin or stdout or stderr):
            raise ServerError(400, "you must specify at least 1 of stdin, stdout, stderr")
        return cls(stdin, stdout, stderr and not tty, tty)


class _Streams:
    """The streams of a session as a runtime uses them."""

    def __init__(self, channels: Channels, options: StreamOptions) -> None:
        self._channels = channels
        self._options = options

    async def read(self) -> bytes:
        return await self._channels.read() if self._options.stdin else b""

    async def write_stdout(self, data: bytes) -> None:
        if self._options.stdout and data:
            await self._channels.write(STDOUT, data)

    async def write_stderr(self, data: bytes) -> None:
        if self._options.stderr and data:
            await self._channels.write(STDERR, data)

    async def resized(self) -> tuple[int, int]:
        return await self._channels.resized()


async def execute(
    runtime: RuntimeService,
    found: tuple[Sandbox, Container],
    argv: list[str],
    options: StreamOptions,
    channels: Channels,
) -> None:
    """Runs a command, and reports its exit code."""
    streams = _Streams(channels, options)
    try:
        code = await runtime.exec(*found, argv, streams, stdin=options.stdin, tty=options.tty)
    except ContainerRuntimeError as error:
        await channels.finish(_internal(str(error)))
        return
    await channels.finish(exit_status(argv, code))


def _internal(why: str) -> Object:
    message = f"error executing command in container: {why}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


def exit_status(argv: list[str], code: int) -> Object:
    if code == 0:
        return SUCCESS
    words = " ".join(argv)
    return {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: "
        f"error executing command [{words}], exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def attach(
    runtime: RuntimeService,
    found: tuple[Sandbox, Container],
    options: StreamOptions,
    channels: Channels,
) -> None:
    """Shows what the container's program writes from now on, and gives it what is sent, until it ends."""
    streams = _Streams(channels, options)
    try:
        await runtime.attach(*found, streams, stdin=options.stdin and found[1].stdin)
    except ContainerRuntimeError as error:
        await channels.finish(_internal(str(error)))
        return
    await channels.finish(SUCCESS)


Session = Callable[[Channels], Coroutine[Any, Any, None]]


async def serve_session(
    request: web.BaseRequest, options: StreamOptions, session: Session
) -> web.StreamResponse:
    """Answers a request for streams, and runs the session over them. Raises ServerError."""
    if is_websocket(request):
        protocol = chosen_protocol(offered_protocols(request, "Sec-WebSocket-Protocol"), WEBSOCKET_PROTOCOLS)
        return await over_websocket(request, options, session, protocol)
    if "spdy/3.1" not in request.headers.get("Upgrade", "").lower():
        text = f"unable to upgrade: missing upgrade headers in request: {shown_headers(request)}"
        raise ServerError(400, text)
    protocol = chosen_protocol(offered_protocols(request, "X-Stream-Protocol-Version"), SPDY_PROTOCOLS)
    return await over_spdy(request, options, session, protocol or "channel.k8s.io")


async def over_websocket(
    request: web.BaseRequest, options: StreamOptions, session: Session, protocol: str
) -> web.StreamResponse:
    async def talk(pipe: Pipe) -> None:
        socket = WebSocket(pipe)
        channels = WebSocketChannels(socket, protocol, options.stdin)
        # Shows the client that the connection is up (createWebSocketStreams).
        first = STDOUT if options.stdout else STDERR if options.stderr else ERROR
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
            if streams is not None and ERROR in streams:
                await _until_gone(session(SpdyChannels(streams, protocol)), reading)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    return await hand_over(request, [("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)], talk)


async def _until_gone(session: Coroutine[Any, Any, None], reading: asyncio.Task[None]) -> None:
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
    """Picks the first protocol that the client offers and the server knows. Raises ServerError (403) if there
    is none."""
    found = next((name for name in offered if name in known), "")
    if offered and not found:
        names = " ".join(f'"{name}"' for name in offered)
        raise ServerError(403, f"unable to upgrade: unable to negotiate protocol: client supports [{names}]")
    return found


def shown_headers(request: web.BaseRequest) -> str:
    return " ".join(f"{name}:[{value}]" for name, value in request.headers.items())


def websocket_headers(request: web.BaseRequest, protocol: str) -> list[tuple[str, str]]:
    accepted = accept_key(request.headers.get("Sec-WebSocket-Key", ""))
    headers = [("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accepted)]
    return [*headers, ("Sec-WebSocket-Protocol", protocol)] if protocol else headers
