"""gRPC methods as typed values: what names a method, calls it, and serves it over a Unix socket.

protoc's own stubs carry no types, so a service is one constant per method (`registration.py`, `dra.py`, …):

    info = await registration.GET_INFO.call(channel, InfoRequest(), timeout=1.0)
    registration.GET_INFO.serve(server, self.get_info)

Importing this imports grpc; who may do without sockets imports it when the first socket is needed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from grpc import aio

from kubeskew.kubelet.protocols.errors import RpcError, closing, rpc_error, unparsable

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

Channel: TypeAlias = aio.Channel
_CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    # Go's client sends this for Unix sockets; some servers refuse a path there.
    ("grpc.default_authority", "localhost"),
    # Finds a server that is back at the same path at once, without waiting for an older channel's back-off.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


def channel_to(socket: Path | str) -> Channel:
    """Returns a channel to the server behind a Unix socket; connects at the first call, ends with
    `close()`."""
    return aio.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS)


CONNECTED = grpc.ChannelConnectivity.READY


async def connection_changes(channel: Channel) -> AsyncIterator[grpc.ChannelConnectivity]:
    """Yields the channel's state now and whenever it changes; it connects without being called.

    Until closed.
    """
    while True:
        state = channel.get_state(try_to_connect=True)
        if state is grpc.ChannelConnectivity.SHUTDOWN:
            return
        yield state
        await channel.wait_for_state_change(state)


def new_server() -> aio.Server:
    """Returns a server without methods and sockets; see `listen`, `Unary.serve` and grpc.aio's `start` and
    `stop`."""
    return aio.server()


def listen(server: aio.Server, socket: Path | str) -> None:
    """Has the server listen at a path. Raises OSError if it cannot: a path has at most 107 bytes."""
    try:
        bound = server.add_insecure_port(f"unix:{socket}")
    except RuntimeError as error:
        raise OSError(f"listen unix {socket}: {error}") from error
    if not bound:
        raise OSError(f"listen unix {socket}: bind failed")


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

    def _client(self, kind: Callable[..., Any]) -> Any:
        return kind(self.path, request_serializer=self.request.SerializeToString)

    def _parsed(self, answer: bytes) -> Response:
        """Parses an answer here, because grpc answers None if it cannot."""
        try:
            return self.response.FromString(answer)
        except DecodeError as error:
            raise unparsable() from error

    def _register(self, server: aio.Server, kind: Callable[..., Any], serve: Any) -> None:
        handler = kind(
            serve,
            request_deserializer=self.request.FromString,
            response_serializer=self.response.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(self.service, {self.name: handler})]
        )


@contextmanager
def _failures() -> Iterator[None]:
    """Raises RpcError for whatever ends a call, except the end of the task that made it."""
    try:
        yield
    except aio.AioRpcError as error:
        raise rpc_error(error) from error
    except aio.UsageError as error:
        raise closing() from error
    except asyncio.CancelledError:
        # grpc also raises it in a task that waits for an answer on a channel that is closed.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise closing() from None


class Unary(_Method[Request, Response]):
    """One request, one response."""

    async def call(self, channel: Channel, request: Request, *, timeout: float | None = None) -> Response:
        """Returns the answer. `timeout` in seconds. Raises RpcError, worded as Go's client words it."""
        with _failures():
            answer = await self._client(channel.unary_unary)(request, timeout=timeout)
        return self._parsed(answer)

    def serve(self, server: aio.Server, handle: Callable[[Request], Awaitable[Response]]) -> None:
        """Answers calls with `handle`; an RpcError that it raises is the caller's answer."""

        async def answer(request: Request, context: Any) -> Response:
            try:
                return await handle(request)
            except RpcError as error:
                await context.abort(error.code, error.description)
                raise

        self._register(server, grpc.unary_unary_rpc_method_handler, answer)


class Streaming(_Method[Request, Response]):
    """One request, responses until either side ends it."""

    async def call(self, channel: Channel, request: Request) -> AsyncIterator[Response]:
        """Yields the answers as they come; closing the iterator cancels the call. Raises RpcError."""
        with _failures():
            stream = self._client(channel.unary_stream)(request)
            try:
                async for answer in stream:
                    yield self._parsed(answer)
            finally:
                stream.cancel()

    def serve(self, server: aio.Server, handle: Callable[[Request], AsyncIterator[Response]]) -> None:
        """Answers calls with what `handle` yields; an RpcError that it raises ends the stream."""

        async def answer(request: Request, context: Any) -> AsyncIterator[Response]:
            try:
                async for response in handle(request):
                    yield response
            except RpcError as error:
                await context.abort(error.code, error.description)

        self._register(server, grpc.unary_stream_rpc_method_handler, answer)
