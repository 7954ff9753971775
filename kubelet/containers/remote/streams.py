"""Commands, attached containers and forwarded ports at the streaming URLs that a runtime gives, over SPDY.

All runtimes speak it, and it alone lets a client end the standard input. The kubelet translates between it
and what its own client speaks.

Source: k8s.io/client-go/tools/remotecommand (spdy.go, v2.go to v4.go), tools/portforward, and
k8s.io/kubelet/pkg/cri/streaming, 1.36.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from urllib.parse import urlsplit

import orjson

from kubeskew.apimachinery.streaming import Pipe
from kubeskew.kubelet.containers.runtime_service import (
    CommandStreams,
    ContainerRuntimeError,
    PortForwardError,
)
from kubeskew.kubelet.protocols import spdy

_COMMANDS, _PORTS = "v4.channel.k8s.io", "portforward.k8s.io"
_TYPE = "streamtype"
_MOST_TEXT = 64 << 10
_DIAL_SECONDS = 30.0


class _Socket:
    """The pipe of a connection, behind the answer's head."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(1 << 16)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


class _Session:
    """A SPDY connection to a URL, with the task that reads it."""

    def __init__(self, pipe: Pipe, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.connection = spdy.Connection(pipe, client=True)
        self._reading = asyncio.create_task(self.connection.run(), name="streams of a container runtime")

    async def open(self, headers: Mapping[str, str]) -> spdy.Stream:
        return await self.connection.open(headers)

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def _upgraded(url: str, protocol: str) -> _Session:
    """Raises OSError."""
    parts = urlsplit(url)
    async with asyncio.timeout(_DIAL_SECONDS):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        try:
            head = (
                f"POST {parts.path}{f'?{parts.query}' if parts.query else ''} HTTP/1.1",
                f"Host: {parts.netloc}",
                "Connection: Upgrade",
                "Upgrade: SPDY/3.1",
                f"X-Stream-Protocol-Version: {protocol}",
                "Content-Length: 0",
            )
            writer.write("".join(f"{line}\r\n" for line in (*head, "")).encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            status = answer.split(b" ", 2)[1]
            if status != str(HTTPStatus.SWITCHING_PROTOCOLS.value).encode():
                text = (await reader.read(_MOST_TEXT)).decode("utf-8", "replace").strip()
                raise OSError(f"unable to upgrade connection: {text or answer.decode('latin-1').strip()}")
        except asyncio.IncompleteReadError:
            writer.close()
            raise OSError("unable to upgrade connection: EOF") from None
        except BaseException:
            writer.close()
            raise
    return _Session(_Socket(reader, writer), writer)


# -- commands


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[_Session]:
    """Raises ContainerRuntimeError."""
    try:
        session = await _upgraded(url, _COMMANDS)
    except OSError as error:
        raise ContainerRuntimeError(f"error sending request: {error}") from error
    try:
        yield session
    except ConnectionError as error:
        raise ContainerRuntimeError(f"error stream protocol error: {error}") from error
    finally:
        await session.close()


async def talk(url: str, streams: CommandStreams, *, stdin: bool, tty: bool) -> int:
    """Joins streams to a command or a container at a URL until either ends; the exit code.

    Raises ContainerRuntimeError.
    """
    async with _connected(url) as session:
        kinds = ["error", *(["stdin"] if stdin else []), "stdout", *(["resize"] if tty else ["stderr"])]
        opened = {kind: await session.open({_TYPE: kind}) for kind in kinds}
        outputs = [asyncio.create_task(_copy(opened["stdout"], streams.write_stdout))]
        if not tty:
            outputs.append(asyncio.create_task(_copy(opened["stderr"], streams.write_stderr)))
        inputs = [asyncio.create_task(_send(streams, opened["stdin"]))] if stdin else []
        if tty:
            inputs.append(asyncio.create_task(_resize(streams, opened["resize"])))
        try:
            status = await _all(opened["error"])
            await asyncio.gather(*outputs)
        finally:
            for task in (*outputs, *inputs):
                task.cancel()
            await asyncio.gather(*outputs, *inputs, return_exceptions=True)
    return _exit_code(status)


async def _copy(stream: spdy.Stream, write: Callable[[bytes], Awaitable[None]]) -> None:
    while data := await stream.read():
        await write(data)


async def _send(streams: CommandStreams, stream: spdy.Stream) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await streams.read():
            await stream.write(data)
        await stream.close()


async def _resize(streams: CommandStreams, stream: spdy.Stream) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            columns, rows = await streams.resized()
            await stream.write(orjson.dumps({"Width": columns, "Height": rows}) + b"\n")


async def _all(stream: spdy.Stream) -> bytes:
    found = bytearray()
    while data := await stream.read():
        found += data
    return bytes(found)


def _exit_code(status: bytes) -> int:
    """Reads the status at the end of a command. Raises ContainerRuntimeError (v4.go, decodeFrom)."""
    if not status:  # of an attached container, or a connection that was cut
        return 0
    try:
        found = orjson.loads(status)
    except ValueError:
        text = status.decode("utf-8", "replace")
        raise ContainerRuntimeError(f"error stream protocol error: {text}") from None
    if found.get("status") == "Success":
        return 0
    if found.get("reason") == "NonZeroExitCode":
        for cause in (found.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdecimal():
                return int(cause["message"])
    raise ContainerRuntimeError(_without_frame(str(found.get("message") or "")))


def _without_frame(text: str) -> str:
    """Leaves what the runtime itself says: its server and the kubelet's put the same words before it."""
    for words in ("Internal error occurred: ", "error executing command in container: "):
        text = text.removeprefix(words)
    return text


# -- ports


class PortConnection:
    """One connection to a port of a pod."""

    def __init__(self, session: _Session, data: spdy.Stream, error: spdy.Stream) -> None:
        self._session = session
        self._data = data
        self._error = error

    async def read(self) -> bytes:
        """Raises PortForwardError at the end if the runtime could not connect."""
        found = await self._data.read()
        if not found and (text := await _all(self._error)):
            raise PortForwardError(text.decode("utf-8", "replace"))
        return found

    async def write(self, data: bytes) -> None:
        await self._data.write(data)

    async def close(self) -> None:
        await self._data.close()
        await self._session.close()


async def forward(url: str, port: int) -> PortConnection:
    """Raises OSError."""
    session = await _upgraded(url, _PORTS)
    try:
        headers = {"port": str(port), "requestid": "0"}
        error = await session.open({**headers, _TYPE: "error"})
        await error.close()  # nothing is written there
        data = await session.open({**headers, _TYPE: "data"})
    except BaseException:
        await session.close()
        raise
    return PortConnection(session, data, error)
