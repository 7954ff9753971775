"""Tests exec, attach and port-forward over WebSocket through the API server."""

import asyncio
import base64
import json

import pytest
from streaming_node import PODS, Bench, messages

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.streaming.websocket import Opcode
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver import features as apiserver_features
from kubeskew.apiserver.http.request import Peer


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
async def test_exec_over_websocket(bench: Bench, protocol: str):
    """Output and errors on their channels, then the exit code."""
    query = "container=b&stdout=true&stderr=true&command=both"
    found = await messages(await bench.socket(f"{PODS}/p/exec?{query}", protocol))
    assert (found[1], found[2]) == (b"out\n", b"err\n")
    status = json.loads(found[3])
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"] == {"causes": [{"reason": "ExitCode", "message": "3"}]}


async def test_stdin_ends_with_version_five(bench: Bench):
    """`cat` gives back what it got, and ends when its input is closed."""
    socket = await bench.socket(f"{PODS}/p/exec?container=b&stdin=true&stdout=true&command=cat")
    await socket.send(b"\0hello ")
    await socket.send(b"\0world")
    await socket.send(b"\xff\0")
    found = await messages(socket)
    assert found[1] == b"hello world"
    assert json.loads(found[3]) == {"metadata": {}, "status": "Success"}


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.base64.channel.k8s.io"])
async def test_much_output_comes_in_messages_of_what_a_runtime_copies(bench: Bench, protocol: str):
    """Clients put a message together in memory: none is larger than 32 KiB, and nothing is lost or added."""
    query = "container=b&stdout=true&command=much"
    socket = await bench.socket(f"{PODS}/p/exec?{query}", protocol)
    pieces = []
    while (message := await asyncio.wait_for(socket.receive(), 30)) is not None:
        data = message.data
        if data[:1] in (b"\1", b"1"):
            pieces.append(base64.b64decode(data[1:]) if "base64" in protocol else data[1:])
    begun, *large, rest = map(len, pieces)  # an empty one says that it has begun
    assert (begun, large, rest) == (0, [32 << 10] * 3, 4 << 10)
    assert not any(b"".join(pieces))


async def test_exec_that_cannot_be(bench: Bench):
    """A command that is not there, and a container that does not run."""
    socket = await bench.socket(f"{PODS}/p/exec?container=b&stdout=true&command=nosuch")
    assert (
        'exec: "nosuch": executable file not found in $PATH'
        in json.loads((await messages(socket))[3])["message"]
    )
    socket = await bench.socket(f"{PODS}/p/exec?container=a&stdout=true&command=ls")
    refusal = json.loads((await messages(socket))[3])
    assert refusal["message"] == (
        'Internal error occurred: unable to upgrade connection: container not found ("a")'
    )
    response, _ = await bench.upgrade(
        f"{PODS}/p/exec?container=a&stdout=true&command=ls", "POST", upgrade="SPDY/3.1"
    )
    assert response.status == 500


async def test_attach_to_a_program(bench: Bench):
    """An attached program gets what is typed, and its container's end ends the session."""
    query = "container=tty&stdin=true&stdout=true&tty=true"
    socket = await bench.socket(f"{PODS}/p/attach?{query}")
    await socket.send(b"\0hi\r")
    await socket.send(b"\0exit\r")
    found = await messages(socket)
    assert found[1] == b"hi\r"
    container = bench.runtime.sandboxes()[0].latest("tty")
    assert not container.running(SystemClock().now())


async def test_the_size_of_a_terminal(bench: Bench):
    """A message on the channel of sizes reaches the command; one that cannot be read is dropped."""
    query = "container=b&stdin=true&stdout=true&tty=true&command=size"
    socket = await bench.socket(f"{PODS}/p/exec?{query}")
    await socket.send(b"\4what")
    await socket.send(b'\4{"Width":120,"Height":40}')
    assert (await messages(socket))[1] == b"120x40"


async def test_port_forward_over_websocket(bench: Bench):
    """Both channels of a port begin with its number; then HTTP is answered, and other ports refuse."""
    socket = await bench.socket(f"{PODS}/p/portforward?ports=80&ports=81", "v4.channel.k8s.io")
    begun = [(await asyncio.wait_for(socket.receive(), 30)).data for _ in range(4)]
    assert begun == [b"\0P\0", b"\1P\0", b"\2Q\0", b"\3Q\0"]
    refused = (await asyncio.wait_for(socket.receive(), 30)).data
    assert refused[0] == 3
    assert b"connection refused" in refused
    await socket.send(b"\0GET /x HTTP/1.1\r\nHost: y\r\n\r\n")
    assert b'"path":"/x"' in (await asyncio.wait_for(socket.receive(), 30)).data
    await socket.close()


@pytest.mark.parametrize("end", ["1.1\r\nConnection: Close", "1.1\r\nConnection: x, close", "1.0"])
async def test_the_end_of_a_forwarded_connection(bench: Bench, end: str):
    """A request that asks for its connection's end is the last that is answered, and ends the WebSocket."""
    socket = await bench.socket(f"{PODS}/p/portforward?ports=80", "v4.channel.k8s.io")
    request = f"\0GET /x HTTP/{end}\r\nHost: y\r\n\r\nGET /next HTTP/1.1\r\nHost: y\r\n\r\n"
    await socket.send(request.encode())
    channels = await messages(socket)

    assert channels[0].startswith(b"P\0HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: close\r\n" in channels[0]
    assert channels[0].count(b"HTTP/1.1") == 1


async def test_a_forward_that_nothing_answers_ends(bench: Bench):
    """The WebSocket ends when the last of its ports has refused."""
    socket = await bench.socket(f"{PODS}/p/portforward?ports=81&ports=82", "v4.channel.k8s.io")
    channels = await messages(socket)

    assert [b"connection refused" in channels[channel] for channel in range(4)] == [False, True, False, True]


@pytest.mark.parametrize(
    "bad", [b"0%%%%", b"0R0VU=", b"0R0VUI", b"0R0VUIA=", b"5R0VUIA==", b"/R0VUIA==", b"0"]
)
async def test_messages_that_are_no_base64(bench: Bench, bad: bytes, caplog):
    """Messages that are no base64, or of no channel, are dropped; the connection goes on."""
    socket = await bench.socket(f"{PODS}/p/portforward?ports=80", "v4.base64.channel.k8s.io")
    await socket.send(bad, Opcode.TEXT)
    await socket.send(b"0R0VUIC94IEhUVFAvMS4xDQpIb3N0OiB5DQoNCg==", Opcode.TEXT)
    begun = [(await asyncio.wait_for(socket.receive(), 30)).data for _ in range(2)]
    answer = (await asyncio.wait_for(socket.receive(), 30)).data
    await socket.close()

    assert begun == [b"0UAA=", b"1UAA="]
    assert b'"path":"/x"' in base64.b64decode(answer[1:])
    assert [record for record in caplog.records if record.exc_info] == []


async def test_standard_input_that_is_no_base64(bench: Bench):
    """A message that cannot be read does not end a command's standard input."""
    target = f"{PODS}/p/exec?container=b&stdin=true&stdout=true&command=line"
    socket = await bench.socket(target, "v4.base64.channel.k8s.io")
    await socket.send(b"0aGVsb", Opcode.TEXT)
    await socket.send(b"0aGVsbG8K", Opcode.TEXT)
    channels = await messages(socket)

    assert base64.b64decode(channels[ord("1")]) == b"hello\n"


async def test_an_older_server_refuses_what_it_does_not_know(bench: Bench, monkeypatch):
    """Without the gate a client of version 5 alone is refused, upon which kubectl falls back to SPDY."""
    gates = FeatureGates(Version(36), {"TranslateStreamCloseWebsocketRequests": False})
    monkeypatch.setattr(bench.server.services, "features", apiserver_features.Features.of(gates))
    headers = {"upgrade": "websocket", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
    target = f"{PODS}/p/exec?container=b&stdout=true&command=ls"
    response, _ = await bench.upgrade(target, sec_websocket_protocol="v5.channel.k8s.io", **headers)
    assert response.status == 403


async def test_a_websocket_takes_the_right_to_create(bench: Bench):
    """A user who may only get pods/exec is refused over a websocket, as over POST."""
    headers = {"upgrade": "websocket", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "getter"},
        "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "getter"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "getter"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "gil"}],
    }
    group = "/apis/rbac.authorization.k8s.io/v1"
    assert (await bench.api.post(f"{group}/clusterroles", role)).status == 201
    assert (await bench.api.post(f"{group}/clusterrolebindings", binding)).status == 201
    target = f"{PODS}/p/exec?container=b&stdout=true&command=ls"
    response, _ = await bench.upgrade(target, peer=Peer("gil", ()), **headers)
    assert response.status == 403
    assert 'cannot create resource "pods/exec"' in json.loads(response.body)["message"]
