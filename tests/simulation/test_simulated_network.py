"""Tests the network of a simulation: it carries HTTP, and refuses to carry anything else."""

import asyncio
import json
from pathlib import Path

import pytest

from kubeskew.apimachinery.client import transport
from kubeskew.apiserver.http.request import Request, Response, Tunnel, Upgrade
from kubeskew.apiserver.options import ServerOptions
from kubeskew.simulation.loop import SimulatedLoop
from kubeskew.simulation.network import APIListener, Network, NetworkTransport
from kubeskew.simulation.processes import CURRENT, Process

PORT = 6443


@pytest.mark.parametrize("timeout", [None, 30.0])
@pytest.mark.parametrize("speaks_first", [False, True])
def test_upgrades_are_refused_at_once(*, timeout: float | None, speaks_first: bool):
    """A client that asks for another protocol gets 501 and a Status, in no time; its backend is let go."""
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
        listener = APIListener(network, exec_)
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
    assert "does not carry upgraded connections" in str(status["message"])
    assert seconds < 0.01
    assert left == ["backend"]
