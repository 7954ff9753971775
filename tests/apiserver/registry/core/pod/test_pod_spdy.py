"""Tests exec and port-forward over SPDY/3.1 through the API server, also within a WebSocket."""

import asyncio
import json
from types import SimpleNamespace

from streaming_node import PODS, Bench

from kubeskew.kubelet.protocols import spdy


async def test_exec_over_spdy(bench: Bench):
    """A stream per channel, as kubectl before 1.29 has it."""
    response, client = await bench.upgrade(
        f"{PODS}/p/exec?container=b&stdin=true&stdout=true&command=cat",
        "POST",
        upgrade="SPDY/3.1",
        x_stream_protocol_version="v4.channel.k8s.io",
    )
    assert response.status == 101
    connection = spdy.Connection(client, client=True)
    running = asyncio.create_task(connection.run())
    streams = {name: await connection.open({"streamType": name}) for name in ("error", "stdin", "stdout")}
    await streams["stdin"].write(b"through spdy")
    await streams["stdin"].close()
    assert await asyncio.wait_for(streams["stdout"].read(), 30) == b"through spdy"
    assert json.loads(await asyncio.wait_for(streams["error"].read(), 30))["status"] == "Success"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_port_forward_through_a_tunnel(bench: Bench):
    """SPDY inside a WebSocket, as kubectl does it since 1.31."""
    socket = await bench.socket(f"{PODS}/p/portforward", "SPDY/3.1+portforward.k8s.io")

    async def read() -> bytes:
        message = await socket.receive()
        return message.data if message is not None else b""

    connection = spdy.Connection(SimpleNamespace(read=read, write=socket.send), client=True)
    running = asyncio.create_task(connection.run())
    pair = {"port": "80", "requestID": "1"}
    await connection.open({"streamType": "error", **pair})
    data = await connection.open({"streamType": "data", **pair})
    await data.write(b"no http")
    assert await asyncio.wait_for(data.read(), 30) == b"no http"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
