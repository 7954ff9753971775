"""A client of etcd's API for tests: of a server in this process, or of any over gRPC."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import grpc
from grpc import aio

from kubeskew.apiserver.storage.etcd.errors import EtcdError
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.server import EtcdServer

METHODS = {
    pb.RangeRequest: ("KV/Range", pb.RangeResponse, "range"),
    pb.PutRequest: ("KV/Put", pb.PutResponse, "put"),
    pb.DeleteRangeRequest: ("KV/DeleteRange", pb.DeleteRangeResponse, "delete_range"),
    pb.TxnRequest: ("KV/Txn", pb.TxnResponse, "txn"),
    pb.CompactionRequest: ("KV/Compact", pb.CompactionResponse, "compact"),
    pb.LeaseGrantRequest: ("Lease/LeaseGrant", pb.LeaseGrantResponse, "lease_grant"),
    pb.LeaseRevokeRequest: ("Lease/LeaseRevoke", pb.LeaseRevokeResponse, "lease_revoke"),
    pb.LeaseTimeToLiveRequest: (
        "Lease/LeaseTimeToLive", pb.LeaseTimeToLiveResponse, "lease_time_to_live"
    ),
    pb.LeaseLeasesRequest: ("Lease/LeaseLeases", pb.LeaseLeasesResponse, "lease_leases"),
}  # fmt: skip


class RefusedError(Exception):
    """A call was refused: `OUT_OF_RANGE: etcdserver: …`."""


class Client(Protocol):
    async def call(self, request: Any) -> Any:
        """Raises RefusedError."""
        ...

    def watch(self) -> "Stream": ...

    def keep_alive(self) -> "Stream": ...


class Stream:
    """A stream in both directions. `close` ends it; after the last answer comes None."""

    def __init__(
        self, open_stream: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]], answer: type[Any]
    ) -> None:
        self._requests: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._answers = open_stream(self._sent())
        self._answer = answer
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self._reading = asyncio.ensure_future(self._read())

    async def _sent(self) -> AsyncIterator[bytes]:
        while (request := await self._requests.get()) is not None:
            yield request

    async def _read(self) -> None:
        try:
            async for data in self._answers:
                self.received.put_nowait(self._answer.FromString(data))
        finally:
            self.received.put_nowait(None)

    def send(self, request: Any) -> None:
        self._requests.put_nowait(request.SerializeToString())

    async def next(self) -> Any:
        async with asyncio.timeout(10):
            return await self.received.get()

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        if isinstance(self._answers, AsyncGenerator):
            await self._answers.aclose()
        elif isinstance(self._answers, aio.Call):
            self._answers.cancel()
        self._requests.put_nowait(None)
        await asyncio.sleep(0)


class LocalClient:
    """Calls a server's functions, without gRPC."""

    def __init__(self, server: EtcdServer) -> None:
        self._server = server

    async def call(self, request: Any) -> Any:
        _, answer, name = METHODS[type(request)]
        function: Callable[[bytes], Awaitable[bytes]] = getattr(self._server, name)
        try:
            return answer.FromString(await function(request.SerializeToString()))
        except EtcdError as error:
            raise RefusedError(f"{error.code.name}: {error.text}") from error

    def watch(self) -> Stream:
        return Stream(self._server.watches.stream().serve, pb.WatchResponse)

    def keep_alive(self) -> Stream:
        return Stream(self._server.lease_keep_alive, pb.LeaseKeepAliveResponse)


class GRPCClient:
    def __init__(self, target: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
        if credentials is None:
            self.channel = aio.insecure_channel(target, options=options)
        else:
            self.channel = aio.secure_channel(target, credentials, options=options)

    async def call(self, request: Any) -> Any:
        method, answer, _ = METHODS[type(request)]
        return answer.FromString(await self.raw(method, request.SerializeToString()))

    async def raw(self, method: str, data: bytes) -> bytes:
        try:
            return await self.channel.unary_unary(f"/etcdserverpb.{method}")(data, timeout=20)
        except aio.AioRpcError as error:
            raise RefusedError(f"{error.code().name}: {error.details()}") from error

    def watch(self) -> Stream:
        return Stream(
            lambda requests: self.channel.stream_stream("/etcdserverpb.Watch/Watch")(requests),
            pb.WatchResponse,
        )

    def keep_alive(self) -> Stream:
        path = "/etcdserverpb.Lease/LeaseKeepAlive"
        return Stream(lambda requests: self.channel.stream_stream(path)(requests), pb.LeaseKeepAliveResponse)

    async def close(self) -> None:
        await self.channel.close()
