import asyncio
import errno
import socket
from collections.abc import AsyncIterator

import pytest
from service_tables import Tables, service

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.process.network_agent import DNS_ADDRESS, NetworkAgent
from kubeskew.kubelet.containers.host.network import dns
from kubeskew.kubelet.containers.host.network.dns_server import NameServer
from kubeskew.kubelet.containers.host.network.endpoints import Endpoint
from kubeskew.kubelet.containers.host.network.service_ports import CLUSTER, MACHINE, Listen, Target
from kubeskew.kubelet.containers.host.network.service_proxy import ServiceProxy

CLIENT, FIRST, SECOND = "10.244.1.3", "10.244.1.2", "10.244.2.2"
WEB, NAMES = Listen(CLUSTER, "10.96.7.7", 80, "TCP"), Listen(CLUSTER, "10.96.7.7", 53, "UDP")


class Program:
    """Answers with its name, then with what it reads, at ports 8080 of TCP and 53 of UDP."""

    def __init__(self, agent: NetworkAgent, pod: str) -> None:
        self.pod = pod
        self._agent = agent

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._agent.listen(self.pod, "", 8080))
        loop, datagrams = asyncio.get_running_loop(), self._agent.listen(self.pod, "", 53, socket.SOCK_DGRAM)
        self._transport, _ = await loop.create_datagram_endpoint(lambda: _Echo(self.pod), sock=datagrams)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.pod.encode() + b" " + await reader.read())
        writer.close()

    def stop(self) -> None:
        self._server.close()
        self._transport.close()


class _Echo(asyncio.DatagramProtocol):
    def __init__(self, name: str) -> None:
        self._name = name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._transport.sendto(self._name.encode() + b" " + data, addr)


def _node_of(address: str) -> str:
    return "node-1" if address == CLIENT else ""


@pytest.fixture
async def proxy(network: NetworkAgent) -> AsyncIterator[ServiceProxy]:
    """The pods `first` and `second` serve, `client` asks."""
    for uid, address in (("client", CLIENT), ("first", FIRST), ("second", SECOND)):
        network.add_pod(uid, address).close()
    programs = [Program(network, "first"), Program(network, "second")]
    for program in programs:
        await program.start()
    found = ServiceProxy(network, _node_of, SystemClock(), SeededEntropy(1))
    yield found
    await found.close()
    for program in programs:
        program.stop()


async def _ask(agent: NetworkAgent, host: str, port: int, pod: str | None = "client") -> str:
    reader, writer = await asyncio.open_connection(sock=await agent.dial(pod, host, port))
    writer.write(b"hello")
    writer.write_eof()
    found = await reader.read()
    writer.close()
    return found.decode()


def _target(*hosts: str, port: int = 8080, **changed: object) -> Target:
    return Target(tuple(Endpoint(host, port, "node-1") for host in hosts), **changed)


async def test_connections(network: NetworkAgent, proxy: ServiceProxy) -> None:
    """Connections to a cluster IP are joined to one of the endpoints, and refused without any."""
    await proxy.sync({WEB: _target(FIRST, SECOND)})
    assert {await _ask(network, "10.96.7.7", 80) for _ in range(30)} == {"first hello", "second hello"}
    await proxy.sync({WEB: _target(SECOND)})
    assert {await _ask(network, "10.96.7.7", 80) for _ in range(10)} == {"second hello"}
    await proxy.sync({})
    with pytest.raises(ConnectionRefusedError):
        await _ask(network, "10.96.7.7", 80)


async def test_external_addresses(network: NetworkAgent, proxy: ServiceProxy) -> None:
    """An external address of a service leads to its endpoints for pods, and goes with its last port."""
    outer = WEB._replace(host="192.0.2.7")
    await proxy.sync({outer: _target(FIRST), outer._replace(port=81): _target(FIRST)})
    assert await _ask(network, "192.0.2.7", 80) == "first hello"
    await proxy.sync({outer: _target(FIRST)})
    assert await _ask(network, "192.0.2.7", 80) == "first hello"
    await proxy.sync({})
    with pytest.raises(OSError, match=f"Errno {errno.ENETUNREACH}"):
        await _ask(network, "192.0.2.7", 80)


async def test_session_affinity(network: NetworkAgent, proxy: ServiceProxy) -> None:
    """With affinity a client stays with its endpoint."""
    await proxy.sync({WEB: _target(FIRST, SECOND, affinity_seconds=60)})
    assert len({await _ask(network, "10.96.7.7", 80) for _ in range(20)}) == 1


async def test_client_s_node(network: NetworkAgent, proxy: ServiceProxy) -> None:
    """A client on a node without endpoints is cut off, if only those of its node are to be used."""
    await proxy.sync({WEB: _target(FIRST, local_only=True)})
    assert await _ask(network, "10.96.7.7", 80) == "first hello"
    with pytest.raises(ConnectionResetError):
        await _ask(network, "10.96.7.7", 80, "second")


async def test_datagrams_of_a_service(network: NetworkAgent, proxy: ServiceProxy) -> None:
    """Datagrams of one client go to one endpoint, and answers come back; another is chosen when it goes."""
    loop = asyncio.get_running_loop()
    await proxy.sync({NAMES: _target(FIRST, port=53)})
    with await network.dial("client", "10.96.7.7", 53, socket.SOCK_DGRAM) as asking:
        for question in (b"one", b"two"):
            await loop.sock_sendall(asking, question)
            assert await loop.sock_recv(asking, 100) == b"first " + question
        await proxy.sync({NAMES: _target(SECOND, port=53)})
        await loop.sock_sendall(asking, b"three")
        assert await loop.sock_recv(asking, 100) == b"second three"


async def test_ports_of_the_machine(network: NetworkAgent, proxy: ServiceProxy) -> None:
    """Node ports lead from the machine's loopback into the cluster, and services of the machine out of it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = Listen(MACHINE, "127.0.0.1", 0, "TCP")
        refused = Listen(MACHINE, "127.0.0.1", taken.getsockname()[1], "TCP")
        await proxy.sync({free: _target(FIRST), refused: _target(FIRST)})
        assert proxy.served == [free]
    async with await asyncio.start_server(_greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        outside = Target((Endpoint("127.0.0.1", port),), is_outside=True)
        await proxy.sync({WEB: outside})
        assert await _ask(network, "10.96.7.7", 80) == "outside"


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"outside")
    writer.close()


async def test_endpoint_that_does_not_listen(network: NetworkAgent, proxy: ServiceProxy) -> None:
    """A connection whose endpoint refuses it breaks off."""
    await proxy.sync({WEB: _target(FIRST, port=9)})
    with pytest.raises(OSError, match=r".*") as failure:
        await _ask(network, "10.96.7.7", 80)
    assert failure.value.errno in {errno.ECONNRESET, errno.EPIPE}


async def test_name_server(network: NetworkAgent) -> None:
    """Names are answered at the cluster's DNS address, by datagrams and by connections."""
    network.add_pod("client", CLIENT).close()
    server, loop = NameServer(Tables([service("web")])), asyncio.get_running_loop()
    await server.start(network)
    query = b"\0\7\1\0\0\1\0\0\0\0\0\0" + dns.encoded("web.ns.svc.cluster.local") + b"\0\1\0\1"
    with await network.dial("client", DNS_ADDRESS, 53, socket.SOCK_DGRAM) as asking:
        await loop.sock_sendall(asking, query)
        assert (await loop.sock_recv(asking, 512)).endswith(b"\0\4\x0a\x60\7\7")
    reader, writer = await asyncio.open_connection(sock=await network.dial("client", DNS_ADDRESS, 53))
    for _ in range(2):
        writer.write(len(query).to_bytes(2, "big") + query)
        length = int.from_bytes(await reader.readexactly(2), "big")
        assert (await reader.readexactly(length)).endswith(b"\0\4\x0a\x60\7\7")
    writer.close()
    await server.stop()
