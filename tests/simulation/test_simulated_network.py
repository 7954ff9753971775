"""Tests the network of a simulation: requests as calls, and connections that speak HTTP, or what
it is upgraded to."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from kubeskew.apimachinery.client import transport
from kubeskew.apiserver.http.request import Request, Response, Tunnel, Upgrade, text
from kubeskew.apiserver.options import ServerOptions
from kubeskew.simulation.loop import SimulatedLoop
from kubeskew.simulation.machine import LoopClock
from kubeskew.simulation.network import APIListener, Network, NetworkTransport
from kubeskew.simulation.processes import CURRENT, Process

PORT = 6443


@pytest.mark.parametrize("timeout", [None, 30.0])
@pytest.mark.parametrize("speaks_first", [False, True])
def test_a_call_for_an_upgrade_is_refused_at_once(*, timeout: float | None, speaks_first: bool):
    """A call that asks for another protocol gets 501 and a Status, in no time; its backend is let go."""
    loop = SimulatedLoop()
    left: list[str] = []

    async def talk(tunnel: Tunnel) -> None:
        try:
            if speaks_first:
                await tunnel.write(b"hello")
            while await tunnel.read():
                raise AssertionError("there is nobody who says anything")
        finally:
            left.append("backend")

    async def exec_(_request: Request) -> Response:
        return Response(101, Upgrade(talk), headers=[("Upgrade", "websocket")])

    async def ask() -> tuple[int, dict[str, object], float]:
        network = Network()
        CURRENT.set(Process(1, "apiserver", Path("/dev/null")))
        listener = APIListener(network, exec_, LoopClock())
        await listener.listen(ServerOptions(secure_port=PORT))
        began = asyncio.get_running_loop().time()
        headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
        request = transport.Request("GET", "/api/v1/namespaces/a/pods/b/exec", headers, None, timeout)
        answer = await NetworkTransport(network, PORT, None, 1)(request)
        status = json.loads(await answer.body())
        assert not listener.exchanges
        return answer.status, status, asyncio.get_running_loop().time() - began

    try:
        code, status, seconds = loop.run_until_complete(ask())
    finally:
        loop.finish()
    assert (code, status["kind"], status["reason"], status["code"]) == (501, "Status", "NotImplemented", 501)
    assert "connect to the server's port" in str(status["message"])
    assert seconds < 0.01
    assert left == ["backend"]


async def echo(request: Request) -> Response:
    """Answers with the path; an upgraded connection gets back what it sends."""
    if request.headers.get("Upgrade") is None:
        return Response(200, json.dumps({"path": request.path}).encode())

    async def talk(tunnel: Tunnel) -> None:
        while data := await tunnel.read():
            await tunnel.write(data)

    return Response(101, Upgrade(talk), headers=[("Upgrade", "echo")])


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    made = SimulatedLoop()
    yield made
    made.finish()


async def serving() -> tuple[Process, APIListener]:
    """Returns a server on PORT, and the process that it lives in."""
    server = Process(1, "apiserver", Path("/dev/null"))
    listener = server.context.run(APIListener, Network(), echo, LoopClock())
    await server.spawn(listener.listen(ServerOptions(bind_address="127.0.0.1", secure_port=PORT)))
    return server, listener


async def upgraded() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Returns a connection whose upgrade has been granted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(b"GET /exec HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    return reader, writer


def test_what_is_under_way_arrives_though_its_sender_has_ended(loop: SimulatedLoop):
    """A server that stops ends its streams; the end comes to clients behind all else, after it has gone."""

    async def body() -> AsyncIterator[bytes]:
        yield b"one\n"

    async def stream(_request: Request) -> Response:
        return Response(200, body())

    async def read() -> list[bytes]:
        network, server = Network(), Process(1, "apiserver", Path("/dev/null"))
        network.latency = lambda _who, what: 2.0 if what.startswith("WATCH") else 0.0
        listener = server.context.run(APIListener, network, stream, LoopClock())
        await server.spawn(listener.listen(ServerOptions(bind_address="127.0.0.1", secure_port=PORT)))
        CURRENT.set(Process(2, "scheduler", Path("/dev/null")))
        answer = await NetworkTransport(network, PORT, None, 1)(transport.Request("GET", "/", {}))
        lines = asyncio.create_task(_all(answer.lines()))
        await asyncio.sleep(0.5)
        server.end()
        async with asyncio.timeout(60):
            return await lines

    assert loop.run_until_complete(read()) == [b"one"]


async def _all(lines: AsyncIterator[bytes]) -> list[bytes]:
    return [line async for line in lines]


def test_a_connection_is_upgraded(loop: SimulatedLoop):
    """A client of a server's port has the connection to itself, behind the head of the answer."""

    async def talk() -> bytes:
        await serving()
        reader, writer = await upgraded()
        writer.write(b"hello")
        received = await reader.readexactly(5)
        writer.close()
        return received

    assert loop.run_until_complete(talk()) == b"hello"
    assert loop.failures == []


def test_an_upgraded_connection_ends_with_its_server(loop: SimulatedLoop):
    """A server that is killed takes its connections with it, and takes no others."""

    async def talk() -> bytes:
        server, _ = await serving()
        reader, writer = await upgraded()
        server.end()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", PORT)
        received = await reader.read()
        writer.close()
        return received

    assert loop.run_until_complete(talk()) == b""


def test_an_outage_is_one_for_connections_too(loop: SimulatedLoop):
    """During an outage connections end and are refused; after it they are taken again."""

    async def talk() -> bytes:
        _, listener = await serving()
        reader, writer = await upgraded()
        outage = asyncio.create_task(listener.refuse_during(asyncio.sleep(5)))
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", PORT)
        await outage
        reader, writer = await upgraded()
        writer.write(b"again")
        received = await reader.readexactly(5)
        writer.close()
        return received

    assert loop.run_until_complete(talk()) == b"again"


def test_servers_that_share_a_port_take_turns(loop: SimulatedLoop):
    """A client stays with the server that it has reached, and goes to another one when that is away."""
    shared = PORT + 1

    async def asked(ask: NetworkTransport) -> str:
        answer = await ask(transport.Request("GET", "/", {}, None, 30.0))
        return (await answer.body()).decode()

    async def named(name: str, network: Network) -> APIListener:
        async def answer(_request: Request) -> Response:
            return text(200, name)

        listener = APIListener(network, answer, LoopClock())
        options = ServerOptions(secure_port=shared + int(name), shared_port=shared)
        await listener.listen(options)
        await listener.share(options)
        return listener

    async def connected() -> str:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{shared}") as answer:
            return await answer.text()

    async def talk() -> None:
        network = Network()
        first, second = await named("1", network), await named("2", network)
        clients = [NetworkTransport(network, shared, None, 1) for _ in range(3)]
        assert [await asked(client) for client in clients * 2] == ["1", "2", "1"] * 2
        assert {await connected(), await connected()} == {"1", "2"}
        outage = asyncio.create_task(first.refuse_during(asyncio.sleep(5)))
        await asyncio.sleep(0)
        assert [await asked(client) for client in clients] == ["2", "2", "2"]
        assert {await connected(), await connected()} == {"2"}
        second.finish()
        with pytest.raises(ConnectionRefusedError):
            await asked(clients[0])
        await outage
        assert await asked(clients[0]) == "1"

    loop.run_until_complete(talk())


async def asked_by_aiohttp() -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{PORT}/a") as answer:
        return await answer.json()


async def asked_by_httpx() -> Any:
    async with httpx.AsyncClient(trust_env=False) as client:
        answers = [await client.get(f"http://127.0.0.1:{PORT}/a") for _ in range(2)]
    return answers[-1].json()


@pytest.mark.parametrize("ask", [asked_by_aiohttp, asked_by_httpx])
def test_other_libraries_reach_a_server(loop: SimulatedLoop, ask: Callable[[], Coroutine[Any, Any, Any]]):
    """aiohttp and httpx connect to a simulated server's port as to any other, without knowing of it."""

    async def talk() -> Any:
        await serving()
        return await ask()

    assert loop.run_until_complete(talk()) == {"path": "/a"}
    assert loop.failures == []
