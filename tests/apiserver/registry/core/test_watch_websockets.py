"""WATCH over a WebSocket, as browsers have it."""

import asyncio
import json

import pytest
from server_in_process import MAPS, config_map
from streaming_node import Bench
from until import until

from kubeskew.apimachinery.streaming.websocket import Opcode, WebSocket

KEY = {"upgrade": "websocket", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==", "sec_websocket_version": "13"}
BROWSER = KEY | {"origin": "http://localhost"}
WATCH = f"{MAPS}?watch=1"


async def _next(socket: WebSocket):
    message = await asyncio.wait_for(socket.receive(), 30)
    return message and (message.opcode, message.data)


async def test_a_watch_over_websocket(bench: Bench):
    """Each event is a text of one line, and the watch goes on until the client closes."""
    await bench.api.post(MAPS, config_map("a"))
    response, client = await bench.upgrade(f"{WATCH}&resourceVersion=0", **BROWSER)
    assert (response.status, "Sec-WebSocket-Protocol" in dict(response.headers)) == (101, False)
    socket = WebSocket(client, client=True)
    opcode, first = await _next(socket)
    assert (opcode, first[-1:]) == (Opcode.TEXT, b"\n")
    assert json.loads(first)["object"]["metadata"]["name"] == "a"
    await bench.api.post(MAPS, config_map("b"))
    _, second = await _next(socket)
    assert (json.loads(second)["type"], json.loads(second)["object"]["metadata"]["name"]) == ("ADDED", "b")
    watches = bench.server.services.lifetime.watches
    assert watches
    await socket.close()
    await until(lambda: not watches)


async def test_the_end_of_a_watch_over_websocket(bench: Bench):
    """A watch that is over closes the connection; an error is its last event."""
    _, client = await bench.upgrade(f"{WATCH}&timeoutSeconds=1&resourceVersion=0", **BROWSER)
    assert await _next(WebSocket(client, client=True)) is None
    store = bench.server.services.store
    await bench.api.post(MAPS, config_map("a"))
    await store.compact(store.revision)
    _, client = await bench.upgrade(f"{WATCH}&resourceVersion=1", **BROWSER)
    socket = WebSocket(client, client=True)
    _, event = await _next(socket)
    assert json.loads(event)["object"]["code"] == 410
    assert await _next(socket) is None


@pytest.mark.parametrize(
    ("headers", "status", "body"),
    [
        (BROWSER | {"sec_websocket_protocol": "any"}, 101, None),
        (BROWSER | {"sec_websocket_protocol": "a, b"}, 400, b""),
        (KEY, 403, b""),
        (KEY | {"origin": "null"}, 403, b""),
        (BROWSER | {"sec_websocket_key": ""}, 400, b"mismatch challenge/response"),
        (BROWSER | {"sec_websocket_version": "8"}, 400, b"missing or bad WebSocket Version"),
    ],
)
async def test_handshakes(bench: Bench, headers, status, body):
    """A client names its origin and offers one protocol at most, which is then taken."""
    response, _ = await bench.upgrade(f"{WATCH}&timeoutSeconds=1", **headers)
    assert response.status == status
    if body is None:
        assert dict(response.headers)["Sec-WebSocket-Protocol"] == "any"
    else:
        assert response.body == body


async def test_what_is_no_websocket(bench: Bench):
    """Other protocols are not heeded, nor is an upgrade for a list; errors come as ever."""
    response, _ = await bench.upgrade(f"{WATCH}&timeoutSeconds=1", upgrade="h2c")
    assert response.status == 200
    for target, status in ((MAPS, 200), (f"{WATCH}&resourceVersion=abc", 500)):
        response, _ = await bench.upgrade(target, **BROWSER)
        assert response.status == status
