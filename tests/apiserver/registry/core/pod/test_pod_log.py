"""Tests the logs of pods through the API server."""

import asyncio
import base64
import json

import pytest
from streaming_node import PODS, Bench, messages

from kubeskew.apimachinery.streaming.websocket import Opcode, WebSocket
from kubeskew.apiserver.registry.requests import websockets


async def test_logs_and_their_options(bench: Bench):
    """Whole, the end, a number of bytes, with times."""
    assert await bench.read(f"{PODS}/p/log?container=a") == (200, "one\ntwo\nthree\n")
    assert await bench.read(f"{PODS}/p/log?container=a&tailLines=1") == (200, "three\n")
    assert await bench.read(f"{PODS}/p/log?container=a&limitBytes=5") == (200, "one\nt")
    assert await bench.read(f"{PODS}/p/log?container=a&follow=true") == (200, "one\ntwo\nthree\n")
    _status, text = await bench.read(f"{PODS}/p/log?container=a&timestamps=true&tailLines=1")
    assert text[10] == "T"
    assert text.endswith("000Z three\n")
    assert await bench.read(f"{PODS}/p/log?container=a&sinceTime=2100-01-01T00:00:00Z") == (200, "")
    assert await bench.read(f"{PODS}/q/log?container=a") == (204, "")


LOG_ERRORS = {
    "p/log": (400, "a container name must be specified for pod p, choose one of: [a b tty]"),
    "p/log?container=x": (400, "container x is not valid for pod p"),
    "p/log?container=a&previous=true": (400, 'previous terminated container "a" in pod "p" not found'),
    "p/log?container=a&tailLines=-1": (
        422,
        'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
    ),
    "p/log?container=a&limitBytes=0": (
        422,
        'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0',
    ),
    "p/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z": (
        422,
        (
            'PodLogOptions "p" is invalid: []: Forbidden: '
            "at most one of `sinceTime` or `sinceSeconds` may be specified"
        ),
    ),
    "p/log?container=a&stream=Stdout": (
        422,
        'PodLogOptions "p" is invalid: stream: Forbidden: may not be specified',
    ),
    "p/log?tailLines=x": (400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    "n/log": (404, 'pods "n" not found'),
    "p/exec?container=b&command=ls": (400, "Upgrade request required"),
    "q/exec?container=b&command=ls": (400, "pod q does not have a host assigned"),
    "q/portforward": (400, "pod q does not have a host assigned"),
    "q/proxy/": (400, "address not allowed"),
    "a:b:c:d/proxy/": (400, 'invalid pod request "a:b:c:d"'),
    "p:81/proxy/": (503, "connect: connection refused"),
}


async def test_mistakes(bench: Bench):
    """A wrong request for a log is answered with upstream's status and message."""
    for target, (code, message) in LOG_ERRORS.items():
        status, text = await bench.read(f"{PODS}/{target}")
        assert status == code, target
        assert json.loads(text)["message"].endswith(message), target


async def test_a_waiting_container_has_no_log_yet(bench: Bench):
    """The node says why; the API server says it as a mistake of the client."""
    bench.pods[0]["status"] = {
        "containerStatuses": [{"name": "b", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    }
    status, text = await bench.read(f"{PODS}/p/log?container=b")
    assert (status, json.loads(text)["reason"]) == (400, "BadRequest")
    assert json.loads(text)["message"] == 'container "b" in pod "p" is waiting to start: ContainerCreating'


async def test_a_node_that_is_away(bench: Bench):
    """The text is that of Go's HTTP client."""
    endpoint = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}
    await bench.api.patch("/api/v1/nodes/node-1/status", {"status": endpoint})
    status, text = await bench.read(f"{PODS}/p/log?container=a")
    assert (status, json.loads(text)["message"]) == (
        500,
        (
            'Get "http://127.0.0.1:1/containerLogs/default/p/a": '
            "dial tcp 127.0.0.1:1: connect: connection refused"
        ),
    )
    socket = await bench.socket(f"{PODS}/p/exec?container=b&command=ls&stdout=true")
    refusal = json.loads((await messages(socket))[3])
    assert refusal["message"].startswith(
        'Internal error occurred: error sending request: Post "http://127.0.0.1:1/'
    )


KEY = {"upgrade": "websocket", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==", "sec_websocket_version": "13"}


async def _received(client) -> list[tuple[int, bytes]]:
    socket, found = WebSocket(client, client=True), []
    while (message := await asyncio.wait_for(socket.receive(), 30)) is not None:
        found.append((message.opcode, message.data))
    return found


@pytest.mark.parametrize(
    ("offered", "chosen", "opcode"),
    [
        (None, "", Opcode.BINARY),
        ("binary.k8s.io", "binary.k8s.io", Opcode.BINARY),
        ("v5.channel.k8s.io, base64.binary.k8s.io", "base64.binary.k8s.io", Opcode.TEXT),
    ],
)
async def test_logs_over_websocket(bench: Bench, offered, chosen, opcode):
    """An empty message comes first, then the log, as bytes or in base64; then the connection is closed."""
    headers = KEY | ({"sec_websocket_protocol": offered} if offered else {})
    response, client = await bench.upgrade(f"{PODS}/p/log?container=a", **headers)
    assert (response.status, dict(response.headers)["Sec-WebSocket-Protocol"]) == (101, chosen)
    first, *rest = await _received(client)
    assert first == (opcode, b"")
    assert {kind for kind, _ in rest} == {opcode}
    decoded = base64.b64decode if opcode is Opcode.TEXT else bytes
    assert b"".join(decoded(data) for _, data in rest) == b"one\ntwo\nthree\n"


async def test_long_logs_over_websocket(bench: Bench):
    """A message has what upstream reads at once, at most 2 KiB."""
    stopped = await _received_of(bench, f"{PODS}/p/log?container=a&follow=true")
    assert b"".join(stopped) == b"one\ntwo\nthree\n"
    pieces = [message async for message in websockets._pieces(b"x" * 5000, as_text=False)]
    assert [len(message.data) for message in pieces] == [0, 2048, 2048, 904]


async def _received_of(bench: Bench, target: str) -> list[bytes]:
    _, client = await bench.upgrade(target, **KEY)
    return [data for _, data in await _received(client)]


async def test_logs_that_no_websocket_carries(bench: Bench):
    """Errors and the log of a pod without a node are answered as ever; unknown protocols are refused."""
    for target, status in ((f"{PODS}/q/log?container=a", 204), (f"{PODS}/p/log?container=x", 400)):
        response, _ = await bench.upgrade(target, **KEY)
        assert response.status == status
    odd = KEY | {"sec_websocket_protocol": "v5.channel.k8s.io"}
    response, _ = await bench.upgrade(f"{PODS}/p/log?container=a", **odd)
    assert (response.status, response.body) == (403, b"")
