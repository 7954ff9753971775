"""CONNECT at the socket of a shim, with plain sockets, on both event loops that shims and tests run on."""

import asyncio
import json
import shutil
import socket
from pathlib import Path
from unittest.mock import Mock

import pytest
import uvloop

from kubeskew.apimachinery.streaming.splicing import End
from kubeskew.apiserver.webhooks.endpoints import Address, ResolutionError
from kubeskew.cluster.platform import make_runtime_dir
from kubeskew.shim.egress import Egress, egress_selection

MANY = 1 << 22  # bytes, more than fit into the buffers of sockets and transports
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    """Runs a coroutine to its end."""
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield lambda coroutine: runner.run(asyncio.wait_for(coroutine, 20))


@pytest.fixture
def path():
    directory = Path(make_runtime_dir())
    yield directory / "egress"
    shutil.rmtree(directory)


class Target:
    """A server behind the egress: what it is sent, and `serve` of a test."""

    def __init__(self, serve):
        self.server, self.serve, self.port = None, serve, 0
        self.ended = asyncio.Event()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._served, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def _served(self, reader, writer):
        try:
            await self.serve(reader, writer)
        finally:
            writer.close()
            self.ended.set()

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()


class Network:
    """Leads every address to one port, and keeps what was asked for."""

    def __init__(self, port=0, refusal=""):
        self.port, self.refusal, self.asked = port, refusal, []

    async def find(self, host, port):
        self.asked.append((host, port))
        if self.refusal:
            raise ResolutionError(self.refusal)
        return Address("127.0.0.1", self.port)


async def connected(path, target="10.96.0.9:443", more=b""):
    """A connection on which the request has been sent, with the answer's head."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() + more)
    return reader, writer, await reader.readuntil(b"\r\n\r\n")


async def upper(reader, writer):
    """Answers once the other side has sent all."""
    writer.write((await reader.read()).upper())


async def echo(reader, writer):
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


def test_a_half_closed_connection_still_brings_the_answer(run, path):
    """The end of what a client sends is passed on, and what the target sends after that comes back, then its
    end; early bytes of the client are kept."""

    async def talk():
        async with Target(upper) as target:
            network = Network(target.port)
            egress = await Egress.open(path, network.find)
            reader, writer, head = await connected(path, more=b"early ")
            writer.write(b"and late")
            writer.write_eof()
            answer = await reader.read()
            await target.ended.wait()
            writer.close()
            await egress.close()
            return head, answer, network.asked

    assert run(talk()) == (ESTABLISHED, b"EARLY AND LATE", [("10.96.0.9", 443)])


def test_many_bytes_go_both_ways(run, path):
    """A client that sends before it reads gets everything back, in order."""
    sent = bytes(range(256)) * (MANY // 256)

    async def talk():
        async with Target(echo) as target:
            egress = await Egress.open(path, Network(target.port).find)
            reader, writer, _ = await connected(path)
            sending = asyncio.create_task(_send(writer, sent))
            answer = await reader.read()
            await sending
            writer.close()
            await egress.close()
            return answer

    assert run(talk()) == sent


async def _send(writer, data):
    writer.write(data)
    await writer.drain()
    writer.write_eof()


def test_a_slow_side_holds_up_the_other():
    """While one side takes no more, the other is not read."""
    ends = {}
    slow, fast = End(ends), End(ends)
    for end in (slow, fast):
        end.connection_made(Mock(asyncio.Transport))
    slow.connect(fast)
    fast.connect(slow)
    slow.pause_writing()
    fast.transport.pause_reading.assert_called_once_with()
    slow.resume_writing()
    fast.transport.resume_reading.assert_called_once_with()


def test_the_loss_of_one_side_ends_the_other(run, path):
    """A client that goes takes the connection to the target with it."""

    async def talk():
        async with Target(echo) as target:
            egress = await Egress.open(path, Network(target.port).find)
            _, writer, _ = await connected(path, more=b"a")
            writer.transport.abort()
            await target.ended.wait()
            await egress.close()

    run(talk())


def test_what_leads_nowhere_is_refused_with_the_reason(run, path):
    """The status line has it, whatever line ends are in it, and the connection ends."""

    async def talk():
        network = Network(refusal="dial tcp: address a\r\nb: missing port in address")
        egress = await Egress.open(path, network.find)
        reader, writer, head = await connected(path)
        rest = await reader.read()
        writer.close()
        await egress.close()
        return head.split(b"\r\n")[0], rest

    assert run(talk()) == (b"HTTP/1.1 502 dial tcp: address a b: missing port in address", b"")


def test_a_port_that_nobody_listens_at_is_refused(run, path):
    """The reason is the dialer's, with the address that was dialled."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]

        async def talk():
            egress = await Egress.open(path, Network(port).find)
            _, writer, head = await connected(path)
            writer.close()
            await egress.close()
            return head.split(b"\r\n")[0].decode()

        assert run(talk()) == f"HTTP/1.1 502 dial tcp 127.0.0.1:{port}: connect: connection refused"


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET http://a/ HTTP/1.1", b"405 only CONNECT is served here"),
        (b"CONNECT a:443", b"400 malformed HTTP request"),
        (b"\x16\x03\x01", b"400 malformed HTTP request"),
        (b"CONNECT 10.0.0.1 HTTP/1.1", b"400 the target is no HOST:PORT"),
        (b"CONNECT 10.0.0.1:65536 HTTP/1.1", b"400 the target is no HOST:PORT"),
        (b"CONNECT fd00::1:443 HTTP/1.1", b"400 the target is no HOST:PORT"),
        (b"CONNECT a:443 HTTP/1.1\r\nX: " + b"x" * (1 << 14), b"400 malformed HTTP request"),
    ],
)
async def test_malformed_requests_are_refused(path, request_line, status):
    """Nothing is dialled."""
    network = Network()
    egress = await Egress.open(path, network.find)
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request_line + b"\r\n\r\n")
    answer = await reader.readuntil(b"\r\n")
    writer.close()
    await egress.close()
    assert answer == b"HTTP/1.1 " + status + b"\r\n"
    assert network.asked == []


async def test_an_address_of_ipv6_has_brackets(path):
    """They are no part of the host."""
    network = Network(refusal="no")
    egress = await Egress.open(path, network.find)
    _, writer, _ = await connected(path, "[fd00::1]:8443")
    writer.close()
    await egress.close()
    assert network.asked == [("fd00::1", 8443)]


async def test_a_client_that_ends_before_it_asks_is_gone(path):
    """Its connection is closed, also in the middle of a request."""
    egress = await Egress.open(path, Network().find)
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"CONNECT a:1 HT")
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await egress.close()


def test_the_selection_is_upstreams():
    """Connections into the cluster go to the socket by HTTP CONNECT; all others stay direct."""
    assert json.loads(egress_selection(Path("/run/egress"))) == {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [
            {
                "name": "cluster",
                "connection": {
                    "proxyProtocol": "HTTPConnect",
                    "transport": {"uds": {"udsName": "/run/egress"}},
                },
            }
        ],
    }
