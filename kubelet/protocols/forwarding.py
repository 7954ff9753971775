"""Hands the calls of a channel on to another."""

from collections.abc import AsyncGenerator, AsyncIterator

from kubeskew.kubelet.protocols.message_sockets import Channel


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
