"""Methods over real Unix sockets: answers, refusals, streams, and what failures say."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest

from kubeskew.kubelet.protocols import device_plugin, dra, grpc_calls, registration
from kubeskew.kubelet.protocols.grpc_calls import RpcError


@pytest.fixture
def socket():
    """A path that is short enough for a socket."""
    with TemporaryDirectory(prefix="ks") as directory:
        yield Path(directory) / "s.sock"


@pytest.fixture
async def server(socket):
    """A server on the socket, that the test gives methods before `start`."""
    made = grpc_calls.new_server()
    made.listen(socket)
    yield made
    await made.stop(None)


@pytest.fixture
async def channel(socket):
    """A channel to the socket."""
    made = grpc_calls.channel_to(socket)
    yield made
    await made.close()


async def test_a_call_is_answered(server, channel):
    """A request comes to the handler, its answer to the caller."""

    async def get_info(request):
        return registration.PluginInfo(type="DRAPlugin", name="gpu.example.com", supported_versions=["v1"])

    registration.GET_INFO.serve(server, get_info)
    await server.start()
    info = await registration.GET_INFO.call(channel, registration.InfoRequest(), timeout=5)
    assert (info.name, list(info.supported_versions)) == ("gpu.example.com", ["v1"])


@pytest.mark.parametrize("service", [dra.V1, dra.V1BETA1, dra.V1ALPHA4], ids=lambda service: service.name)
async def test_every_version_of_the_dra_service_carries_the_same_fields(service, server, channel):
    """Claims go out, devices come back, regardless of the version."""
    messages = service.messages

    async def prepare(request):
        device = messages.Device(
            request_names=["r"], pool_name="p", device_name="d", cdi_device_ids=["a.b/c=d"]
        )
        done = messages.NodePrepareResourceResponse(devices=[device])
        return messages.NodePrepareResourcesResponse(claims={claim.uid: done for claim in request.claims})

    service.prepare.serve(server, prepare)
    await server.start()
    request = messages.NodePrepareResourcesRequest(claims=[messages.Claim(namespace="ns", uid="u", name="n")])
    answer = await service.prepare.call(channel, request, timeout=5)
    assert answer.claims["u"].devices[0].cdi_device_ids == ["a.b/c=d"]


async def test_a_refusal_is_reported_as_go_shows_it(server, channel):
    """An RpcError of the handler is the caller's RpcError, with Go's wording."""

    async def register(request):
        raise RpcError(grpc.StatusCode.NOT_FOUND, "no such thing")

    device_plugin.REGISTER.serve(server, register)
    await server.start()
    with pytest.raises(RpcError, match=r"^rpc error: code = NotFound desc = no such thing$"):
        await device_plugin.REGISTER.call(channel, device_plugin.RegisterRequest(), timeout=5)


async def test_a_slow_answer_is_a_deadline_exceeded(server, channel):
    """A call without an answer in time fails with the text of Go's deadline error."""
    asked = asyncio.Event()

    async def register(request):
        asked.set()
        await asyncio.Event().wait()

    device_plugin.REGISTER.serve(server, register)
    await server.start()
    expected = "^rpc error: code = DeadlineExceeded desc = context deadline exceeded$"
    with pytest.raises(RpcError, match=expected):
        await device_plugin.REGISTER.call(channel, device_plugin.RegisterRequest(), timeout=0.2)


async def test_a_call_under_way_fails_when_its_channel_is_closed(server, channel):
    """Whoever waits gets the error, and is not taken to be cancelled; later calls say the same."""
    asked = asyncio.Event()

    async def register(request):
        asked.set()
        await asyncio.Event().wait()

    device_plugin.REGISTER.serve(server, register)
    await server.start()
    waiting = asyncio.create_task(device_plugin.REGISTER.call(channel, device_plugin.RegisterRequest()))
    await asked.wait()
    await channel.close()
    expected = "^rpc error: code = Canceled desc = grpc: the client connection is closing$"
    with pytest.raises(RpcError, match=expected):
        await waiting
    with pytest.raises(RpcError, match=expected):
        await device_plugin.REGISTER.call(channel, device_plugin.RegisterRequest())


async def test_a_stream_fails_when_its_channel_is_closed(server, channel):
    """The reader of a stream fails when the channel is closed."""

    async def watch(request) -> AsyncIterator:
        yield dra.HEALTH_V1.messages.NodeWatchResourcesResponse()
        await asyncio.Event().wait()

    dra.HEALTH_V1.watch.serve(server, watch)
    await server.start()
    stream = dra.HEALTH_V1.watch.call(channel, dra.HEALTH_V1.messages.NodeWatchResourcesRequest())
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await channel.close()
    with pytest.raises(RpcError, match="the client connection is closing"):
        await waiting


async def test_a_cancelled_caller_is_cancelled(server, channel):
    """A task that gives up its call ends as any other."""
    asked = asyncio.Event()

    async def register(request):
        asked.set()
        await asyncio.Event().wait()

    device_plugin.REGISTER.serve(server, register)
    await server.start()
    waiting = asyncio.create_task(device_plugin.REGISTER.call(channel, device_plugin.RegisterRequest()))
    await asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_nobody_listening_is_reported_as_a_failed_dial(channel, socket):
    """A socket that is not there fails the call with Go's words for it."""
    with pytest.raises(RpcError) as caught:
        await registration.GET_INFO.call(channel, registration.InfoRequest(), timeout=5)
    assert str(caught.value) == (
        'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: '
        f'dial unix {socket}: connect: no such file or directory"'
    )


async def test_a_stream_ends_when_the_reader_leaves(server, channel):
    """Answers come as they are given; leaving ends the handler."""
    left = asyncio.Event()

    async def watch(request) -> AsyncIterator:
        try:
            for name in ("a", "b"):
                identifier = dra.HEALTH_V1.messages.DeviceIdentifier(device_name=name)
                device = dra.HEALTH_V1.messages.DeviceHealth(device=identifier)
                yield dra.HEALTH_V1.messages.NodeWatchResourcesResponse(devices=[device])
            await asyncio.Event().wait()
        finally:
            left.set()

    dra.HEALTH_V1.watch.serve(server, watch)
    await server.start()
    stream = dra.HEALTH_V1.watch.call(channel, dra.HEALTH_V1.messages.NodeWatchResourcesRequest())
    names = [(await anext(stream)).devices[0].device.device_name for _ in range(2)]
    assert names == ["a", "b"]
    await stream.aclose()
    await asyncio.wait_for(left.wait(), 30)
