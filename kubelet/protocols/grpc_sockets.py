"""Carries calls by gRPC over Unix sockets."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from kubeskew.kubelet.protocols.errors import RpcError, closing, rpc_error
from kubeskew.kubelet.protocols.message_sockets import Answer, Answers

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
        """Has the server listen at a path. Raises OSError if it cannot: a path has at most 107 bytes."""
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
