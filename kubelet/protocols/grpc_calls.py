"""gRPC methods as typed values, which are called and served over Unix sockets, and the errors of calls.

protoc's own stubs carry no types, so a service is one constant per method (`registration.py`, `dra.py`, …):

    info = await registration.GET_INFO.call(channel, InfoRequest(), timeout=1.0)
    registration.GET_INFO.serve(server, self.get_info)

Failed calls are worded as Go's gRPC client does, because kubelets put them into events and logs. Importing
this imports grpc; who may do without sockets imports it when the first socket is needed.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from grpc import aio

from kubeskew.kubelet.protocols.message_sockets import Answer, Answers, Channel, Server, message_sockets

UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED

# A failed dial in the words of grpc's C core; Go's client has only the path and the error's text.
_DIAL = re.compile(r"addr: unix:(?P<path>.*) error: (?P<why>[^:]+)$")
_TOO_LONG = re.compile(r"'unix:(?P<path>[^']*)':the target uri is not valid")

# Texts of grpc's C core for a server that died, or that is ending.
_GONE = re.compile(r"Socket closed|^Cancelling all calls$")
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
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class RpcError(Exception):
    """A call that failed, or that its server refuses: `rpc error: code = NotFound desc = …`."""

    def __init__(self, code: grpc.StatusCode, description: str) -> None:
        self.go_code = _go_name(code)
        super().__init__(f"rpc error: code = {self.go_code} desc = {description}")
        self.code = code
        self.description = description


def rpc_error(error: aio.AioRpcError) -> RpcError:
    """Words the failure as Go's client does (grpc-go: clientconn.go, http2_client.go)."""
    description = error.details() or ""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and description == "Deadline Exceeded":
        return RpcError(error.code(), "context deadline exceeded")
    if dial := _DIAL.search(description):
        return _failed_dial(f"dial unix {dial['path']}: connect: {dial['why'].lower()}")
    if too_long := _TOO_LONG.search(description):
        return _failed_dial(f"dial unix {too_long['path']}: connect: invalid argument")
    if error.code() is grpc.StatusCode.UNAVAILABLE and _GONE.search(description):
        return RpcError(error.code(), "error reading from server: EOF")
    return RpcError(error.code(), description)


def unparsable() -> RpcError:
    """The error of an answer that cannot be parsed, in Go's words."""
    text = "grpc: failed to unmarshal the received message: proto: cannot parse invalid wire-format data"
    return RpcError(grpc.StatusCode.INTERNAL, text)


def closing() -> RpcError:
    """The error of a channel that was closed before or during the call, in Go's words."""
    return RpcError(grpc.StatusCode.CANCELLED, "grpc: the client connection is closing")


def _failed_dial(why: str) -> RpcError:
    description = f'connection error: desc = "transport: Error while dialing: {why}"'
    return RpcError(grpc.StatusCode.UNAVAILABLE, description)


def _go_name(code: grpc.StatusCode) -> str:
    """`DEADLINE_EXCEEDED` is `DeadlineExceeded`; Go spells two codes otherwise."""
    names = {grpc.StatusCode.OK: "OK", grpc.StatusCode.CANCELLED: "Canceled"}
    return names.get(code) or "".join(word.capitalize() for word in code.name.split("_"))


@contextmanager
def _failures() -> Iterator[None]:
    """Raises RpcError for any end of a call, except that of the task that made it."""
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


class GRPCChannel:
    """`message_sockets.Channel` to a Unix socket."""

    def __init__(self, socket: Path | str) -> None:
        self._channel = aio.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS)

    async def call(self, path: str, request: bytes, timeout: float | None) -> bytes:
        with _failures():
            answer: bytes = await self._channel.unary_unary(path)(request, timeout=timeout)
        return answer

    async def stream(self, path: str, request: bytes) -> AsyncGenerator[bytes, None]:
        with _failures():
            stream = self._channel.unary_stream(path)(request)
            try:
                async for answer in stream:
                    yield answer
            finally:
                stream.cancel()

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()

    async def connection_changes(self) -> AsyncIterator[bool]:
        while True:
            state = self._channel.get_state(try_to_connect=True)
            if state is grpc.ChannelConnectivity.SHUTDOWN:
                return
            yield state is grpc.ChannelConnectivity.READY
            await self._channel.wait_for_state_change(state)

    async def close(self) -> None:
        await self._channel.close()


class GRPCServer:
    """`message_sockets.Server` on Unix sockets."""

    def __init__(self) -> None:
        self._server = aio.server()

    def add(self, service: str, name: str, answer: Answer) -> None:
        async def answered(request: bytes, context: Any) -> bytes:
            try:
                return await answer(request)
            except RpcError as error:
                await context.abort(error.code, error.description)
                raise

        self._add(service, name, grpc.unary_unary_rpc_method_handler(answered))

    def add_stream(self, service: str, name: str, answers: Answers) -> None:
        async def answered(request: bytes, context: Any) -> AsyncIterator[bytes]:
            try:
                async for response in answers(request):
                    yield response
            except RpcError as error:
                await context.abort(error.code, error.description)

        self._add(service, name, grpc.unary_stream_rpc_method_handler(answered))

    def _add(self, service: str, name: str, handler: Any) -> None:
        handlers = grpc.method_handlers_generic_handler(service, {name: handler})
        self._server.add_generic_rpc_handlers([handlers])

    def listen(self, socket: Path | str) -> None:
        """Raises OSError if it cannot listen there: a path has at most 107 bytes."""
        try:
            bound = self._server.add_insecure_port(f"unix:{socket}")
        except RuntimeError as error:
            raise OSError(f"listen unix {socket}: {error}") from error
        if not bound:
            raise OSError(f"listen unix {socket}: bind failed")

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace: float | None) -> None:
        await self._server.stop(grace)


def channel_to(socket: Path | str) -> Channel:
    """The channel connects at the first call, and ends with `close()`."""
    own = message_sockets()
    return own.channel_to(socket) if own is not None else GRPCChannel(socket)


def new_server() -> Server:
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
        """Raises RpcError, worded as Go's client words it. `timeout` is in seconds."""
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
