"""The streams of a container runtime: URLs that kubelets are given, and what clients find there."""

import json
from types import SimpleNamespace

import aiohttp
import grpc
import pytest
from container_runtime_in_memory import RuntimeInMemory

from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages
from kubeskew.kubelet.server import streaming
from kubeskew.kubelet.server.streaming import StreamingServer

STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255


@pytest.fixture
async def node(clock, entropy):
    runtime = RuntimeInMemory(clock)
    sandbox = Sandbox("uid", "default", "web", "sandbox", "10.1.1.1", clock.now())
    container = Container("id", "main", 0, "busybox", clock.now(), None, 0, 0.0)
    sandbox.containers.append(container)
    runtime.by_uid["uid"] = sandbox
    server = StreamingServer(runtime, clock, entropy)
    await server.start()
    yield SimpleNamespace(server=server, sandbox=sandbox, container=container, clock=clock)
    await server.stop()


async def messages_of(url, protocol="v5.channel.k8s.io", send=()):
    """All that comes over a WebSocket, by channel."""
    found = {}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=[protocol]) as socket,
    ):
        for message in send:
            await socket.send_bytes(message)
        async for message in socket:
            found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


def exec_request(*command, **more):
    return messages.ExecRequest(cmd=command, stdout=True, stderr=True, **more)


async def test_a_command_has_its_streams_and_its_end(node):
    """Input goes in, output comes by its stream, and the exit code last."""
    url = node.server.exec_url(node.sandbox, node.container, exec_request("false", "x", stdin=True))
    found = await messages_of(url, send=[bytes([STDIN]) + b"abc", bytes([CLOSE, STDIN])])
    assert found[STDOUT] == b"false xABC"
    assert found[STDERR] == b"done"
    assert json.loads(found[ERROR])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_a_command_that_cannot_start_says_why(node):
    """The runtime's words are in the status."""
    url = node.server.exec_url(node.sandbox, node.container, exec_request("missing"))
    status = json.loads((await messages_of(url))[ERROR])
    assert status["message"].endswith('exec: "missing": executable file not found in $PATH')


async def test_a_container_is_attached_to(node):
    """The output of its program comes, until either ends."""
    url = node.server.attach_url(node.sandbox, node.container, messages.AttachRequest(stdout=True))
    assert (await messages_of(url))[STDOUT] == b"attached"


async def test_ports_are_forwarded(node):
    """A port's channels begin with its number; one where nobody listens has an error."""
    request = messages.PortForwardRequest(port=[80, 81])
    url = node.server.port_forward_url(node.sandbox, request)
    found = await messages_of(url, "v4.channel.k8s.io", send=[bytes([0]) + b"hello\n\n"])
    assert found[0] == (80).to_bytes(2, "little") + b"HELLO\n\n"
    assert found[3].startswith((81).to_bytes(2, "little") + b"error forwarding port 81 to pod uid")


async def test_a_url_counts_once_and_for_a_minute(node):
    """Whoever comes second, late, with another verb, or without a token finds nothing."""
    urls = [
        node.server.exec_url(node.sandbox, node.container, exec_request(name)) for name in ("a", "b", "c")
    ]
    await messages_of(urls[0])
    others = [urls[0], urls[1].replace("/exec/", "/attach/"), urls[1][:-1], urls[1].rpartition("/")[0]]
    async with aiohttp.ClientSession() as session:
        for url in others:
            async with session.get(url) as answer:
                assert (answer.status, await answer.text()) == (404, "404 page not found"), url
        node.clock.ahead = 60.0
        async with session.get(urls[2]) as answer:
            assert answer.status == 404


async def test_a_request_without_an_upgrade_is_refused(node):
    """The text is upstream's."""
    url = node.server.exec_url(node.sandbox, node.container, exec_request("a"))
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 400
        assert (await answer.text()).startswith("unable to upgrade: missing upgrade headers in request: ")


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (messages.ExecRequest(), "one of stdin, stdout, or stderr must be set"),
        (messages.ExecRequest(tty=True, stdout=True, stderr=True), "tty and stderr cannot both be true"),
    ],
)
async def test_requests_that_make_no_sense(node, request_, text):
    """They get no URL."""
    with pytest.raises(RpcError) as caught:
        node.server.exec_url(node.sandbox, node.container, request_)
    assert (caught.value.code, caught.value.description) == (grpc.StatusCode.INVALID_ARGUMENT, text)


async def test_urls_that_nobody_uses_are_bounded(node, monkeypatch):
    """A kubelet that asks for too many is refused until they have run out."""
    monkeypatch.setattr(streaming, "_MOST", 2)
    for name in ("a", "b"):
        node.server.exec_url(node.sandbox, node.container, exec_request(name))
    with pytest.raises(RpcError, match="maximum number of in-flight requests exceeded"):
        node.server.exec_url(node.sandbox, node.container, exec_request("c"))
    node.clock.ahead = 60.0
    assert node.server.exec_url(node.sandbox, node.container, exec_request("c"))
