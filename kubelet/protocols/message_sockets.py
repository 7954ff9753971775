"""The interface of sockets that carry calls and answers as serialized messages, for `grpc_calls.py`.

gRPC over Unix sockets is one kind. An event loop that has sockets of its own gives those instead, as it gives
its own connections. A forwarding channel passes the calls of one channel on to another.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

Answer = Callable[[bytes], Awaitable[bytes]]
Answers = Callable[[bytes], AsyncIterator[bytes]]


class Channel(Protocol):
    """A way to the server behind a socket, which may come, go and come back. Calls raise RpcError."""

    async def call(self, path: str, request: bytes, timeout: float | None) -> bytes:
        """`timeout` is in seconds."""
        ...

    def stream(self, path: str, request: bytes) -> AsyncGenerator[bytes, None]:
        """Yields answers as they come; closing the iterator cancels the call."""
        ...

    async def channel_ready(self) -> None: ...

    def connection_changes(self) -> AsyncIterator[bool]:
        """Yields whether it is connected, now and whenever that changes, until closed. It connects by
        itself."""
        ...

    async def close(self) -> None: ...


class Server(Protocol):
    """A server of methods, without sockets at first. An RpcError of a method is the caller's answer."""

    def add(self, service: str, name: str, answer: Answer) -> None: ...

    def add_stream(self, service: str, name: str, answers: Answers) -> None: ...

    def listen(self, socket: Path | str) -> None:
        """Raises OSError if it cannot listen there."""
        ...

    async def start(self) -> None: ...

    async def stop(self, grace: float | None) -> None:
        """Ends; calls under way may take up to `grace` seconds."""
        ...


class MessageSockets(Protocol):
    """Makes both ends. A server has a socket file at its path, whose directory may change without a trace in
    its times."""

    def channel_to(self, socket: Path | str) -> Channel:
        """The channel connects at the first call."""
        ...

    def new_server(self) -> Server: ...


@runtime_checkable
class HasMessageSockets(Protocol):
    """An event loop with sockets of its own."""

    message_sockets: MessageSockets


def message_sockets() -> MessageSockets | None:
    """None means that the running loop has no sockets of its own, and the system's are meant."""
    loop = asyncio.get_running_loop()
    return loop.message_sockets if isinstance(loop, HasMessageSockets) else None


class ForwardingChannel:
    """A channel that does what another does; a subclass changes what it is there for."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def call(self, path: str, request: bytes, timeout: float | None) -> bytes:
        return await self._channel.call(path, request, timeout)

    def stream(self, path: str, request: bytes) -> AsyncGenerator[bytes, None]:
        return self._channel.stream(path, request)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()

    def connection_changes(self) -> AsyncIterator[bool]:
        return self._channel.connection_changes()

    async def close(self) -> None:
        await self._channel.close()
