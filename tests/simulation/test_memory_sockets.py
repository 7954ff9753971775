"""Plugins' sockets: in memory they answer as gRPC's on Unix sockets do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import grpc
import pytest

from kubeskew.kubelet.plugins.manager import SocketScan
from kubeskew.kubelet.protocols import grpc_calls
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.message_sockets import Server
from kubeskew.simulation.loop import SimulatedLoop
from kubeskew.simulation.processes import Process

Test = Callable[[Path], Awaitable[None]]


async def _echo(request: bytes) -> bytes:
    if request == b"no":
        raise RpcError(grpc.StatusCode.NOT_FOUND, "no such thing")
    if request == b"never":
        await asyncio.Event().wait()
    return request * 2


async def _count(request: bytes) -> AsyncIterator[bytes]:
    for number in range(int(request)):
        yield str(number).encode()
    raise RpcError(grpc.StatusCode.ABORTED, "enough")


async def serving(path: Path) -> Server:
    """A server with a method of each kind."""
    server = grpc_calls.new_server()
    server.add("test.Service", "Echo", _echo)
    server.add_stream("test.Service", "Count", _count)
    server.listen(path)
    await server.start()
    return server


@pytest.fixture(params=["grpc", "memory"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Test], None]:
    """Runs a test with sockets of either kind."""

    def runs(test: Test) -> None:
        path = tmp_path / "s.sock"
        if request.param == "grpc":
            asyncio.run(test(path))
            return
        loop = SimulatedLoop()
        loop.run_until_complete(test(path))
        loop.finish()

    return runs


async def failure(work: Awaitable[object]) -> tuple[str, str]:
    """Code and description of the error that a call ends with."""
    with pytest.raises(RpcError) as caught:
        await work
    return caught.value.go_code, caught.value.description


def test_calls_are_answered(run):
    """A call returns the answer, the error of the method, or that there is no such method or no time."""

    async def test(path: Path) -> None:
        server, channel = await serving(path), grpc_calls.channel_to(path)
        assert await channel.call("/test.Service/Echo", b"ab", None) == b"abab"
        assert await failure(channel.call("/test.Service/Echo", b"no", 5)) == ("NotFound", "no such thing")
        code, _ = await failure(channel.call("/test.Service/Other", b"", 5))
        assert code == "Unimplemented"
        late = await failure(channel.call("/test.Service/Echo", b"never", 0.2))
        assert late == ("DeadlineExceeded", "context deadline exceeded")
        await channel.close()
        await server.stop(0)

    run(test)


def test_streams_end_as_their_methods_do(run):
    """A stream yields what its method yields, and then raises the method's error."""

    async def test(path: Path) -> None:
        server, channel, seen = await serving(path), grpc_calls.channel_to(path), []

        async def follow() -> None:
            async with aclosing(channel.stream("/test.Service/Count", b"3")) as stream:
                async for piece in stream:
                    seen.append(piece)  # noqa: PERF401 - what came before the error counts

        assert await failure(follow()) == ("Aborted", "enough")
        assert seen == [b"0", b"1", b"2"]
        await channel.close()
        await server.stop(0)

    run(test)


def test_who_is_not_there_cannot_be_called(run):
    """A call to a path without a file, and one on a closed channel, fail with the words of Go's client."""

    async def test(path: Path) -> None:
        channel = grpc_calls.channel_to(path)
        reason = f"Error while dialing: dial unix {path}: connect: no such file or directory"
        expected = "Unavailable", f'connection error: desc = "transport: {reason}"'
        assert await failure(channel.call("/test.Service/Echo", b"", 5)) == expected
        await channel.close()
        code, description = await failure(channel.call("/test.Service/Echo", b"", 5))
        assert (code, description) == ("Canceled", "grpc: the client connection is closing")

    run(test)


def test_a_channel_shows_when_its_server_comes_and_goes(run):
    """The changes are: not connected, connected, not connected any more."""

    async def test(path: Path) -> None:
        channel, seen = grpc_calls.channel_to(path), []
        server = None
        async with asyncio.timeout(20), aclosing(channel.connection_changes()) as changes:
            async for connected in changes:
                if not seen or seen[-1] != connected:
                    seen.append(connected)
                if server is None:
                    server = await serving(path)
                elif connected:
                    await server.stop(0)
                elif len(seen) > 2:
                    break
        assert seen == [False, True, False]
        await channel.close()

    run(test)


def test_a_server_that_is_killed_leaves_its_file(tmp_path: Path):
    """Calls under way fail, the file is still found, and another server can take its place."""
    path = tmp_path / "s.sock"
    loop = SimulatedLoop()

    async def test() -> None:
        killed = Process(1, "driver", Path("/dev/null"))
        await killed.spawn(serving(path))
        scan = SocketScan(tmp_path, always=True)
        (before,) = scan.look().values()
        channel = grpc_calls.channel_to(path)
        calls = asyncio.ensure_future(failure(channel.call("/test.Service/Echo", b"never", None)))
        await asyncio.sleep(1)
        killed.end()
        assert await calls == ("Unavailable", "error reading from server: EOF")
        assert [*scan.look().values()] == [before]
        code, description = await failure(channel.call("/test.Service/Echo", b"", None))
        assert code == "Unavailable"
        assert "connection refused" in description
        path.unlink()
        await serving(path)
        assert await channel.call("/test.Service/Echo", b"a", None) == b"aa"
        assert [*scan.look().values()] != [before]

    loop.run_until_complete(test())
    loop.finish()


def test_a_stream_ends_with_its_client(tmp_path: Path):
    """A server that awaits something for a client that is killed is cancelled."""
    left: list[str] = []

    async def wait(_request: bytes) -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            left.append("server")

    async def test() -> None:
        server = Process(1, "driver", Path("/dev/null")).context.run(grpc_calls.new_server)
        server.add_stream("test.Service", "Wait", wait)
        server.listen(tmp_path / "s.sock")
        await server.start()
        client, called = Process(2, "kubelet", Path("/dev/null")), asyncio.Event()

        async def follow() -> None:
            async for _ in grpc_calls.channel_to(tmp_path / "s.sock").stream("/test.Service/Wait", b""):
                called.set()

        client.spawn(follow())
        await called.wait()
        client.end()
        await asyncio.sleep(1)
        assert left == ["server"]

    loop = SimulatedLoop()
    try:
        loop.run_until_complete(test())
    finally:
        loop.finish()
    assert loop.failures == []
