"""gRPC methods as typed values: what names a method, calls it, and serves it over a socket.

protoc's own stubs carry no types, so a service is one constant per method (`registration.py`, `dra.py`, …):

    info = await registration.GET_INFO.call(channel, InfoRequest(), timeout=1.0)
    registration.GET_INFO.serve(server, self.get_info)

Importing this imports grpc; who may do without sockets imports it when the first socket is needed.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from google.protobuf.message import DecodeError, Message

from kubeskew.kubelet.protocols.errors import unparsable
from kubeskew.kubelet.protocols.grpc_sockets import GRPCChannel, GRPCServer
from kubeskew.kubelet.protocols.message_sockets import Channel, Server, message_sockets

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


def channel_to(socket: Path | str) -> Channel:
    """Returns a channel to the server behind a Unix socket; connects at the first call, ends with
    `close()`."""
    own = message_sockets()
    return own.channel_to(socket) if own is not None else GRPCChannel(socket)


def new_server() -> Server:
    """Returns a server without methods and sockets; see `Unary.serve`."""
    own = message_sockets()
    return own.new_server() if own is not None else GRPCServer()


@dataclass(frozen=True)
class _Method(Generic[Request, Response]):
    service: str  # with its package
    name: str
    request: type[Request]
    response: type[Response]

    @property
    def path(self) -> str:
        """Returns the path by which the method is called."""
        return f"/{self.service}/{self.name}"

    def _asked(self, request: bytes) -> Request:
        try:
            return self.request.FromString(request)
        except DecodeError as error:
            raise unparsable() from error

    def _parsed(self, answer: bytes) -> Response:
        try:
            return self.response.FromString(answer)
        except DecodeError as error:
            raise unparsable() from error


class Unary(_Method[Request, Response]):
    """One request, one response."""

    async def call(self, channel: Channel, request: Request, *, timeout: float | None = None) -> Response:
        """Returns the answer. `timeout` in seconds. Raises RpcError, worded as Go's client words it."""
        return self._parsed(await channel.call(self.path, request.SerializeToString(), timeout))

    def serve(self, server: Server, handle: Callable[[Request], Awaitable[Response]]) -> None:
        """Answers calls with `handle`; an RpcError that it raises is the caller's answer."""

        async def answer(request: bytes) -> bytes:
            return (await handle(self._asked(request))).SerializeToString()

        server.add(self.service, self.name, answer)


class Streaming(_Method[Request, Response]):
    """One request, responses until either side ends it."""

    async def call(self, channel: Channel, request: Request) -> AsyncIterator[Response]:
        """Yields the answers as they come; closing the iterator cancels the call. Raises RpcError."""
        async with aclosing(channel.stream(self.path, request.SerializeToString())) as stream:
            async for answer in stream:
                yield self._parsed(answer)

    def serve(self, server: Server, handle: Callable[[Request], AsyncIterator[Response]]) -> None:
        """Answers calls with what `handle` yields; an RpcError that it raises ends the stream."""

        async def answers(request: bytes) -> AsyncIterator[bytes]:
            async for response in handle(self._asked(request)):
                yield response.SerializeToString()

        server.add_stream(self.service, self.name, answers)
