"""The component as a whole, against a server of objects alone."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fake_server import FakeServer
from prometheus_client import CollectorRegistry
from service_tables import endpoint, endpoint_slice, service
from until import until

from kubeskew.apimachinery.client.refs import ENDPOINT_SLICES, NODES, SERVICES
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.component import ComponentContext, ComponentOptions
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.process.network_agent import NetworkAgent
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.containers.host.network.component import NetworkComponent

NODE = {
    "metadata": {"name": "node-1"},
    "status": {"addresses": [{"type": "InternalIP", "address": "127.9.8.7"}]},
}


class Component:
    def __init__(self, directory: Path, path: Path, server: FakeServer) -> None:
        version = Version(36)
        gates = FeatureGates(version)
        self.ctx = ComponentContext(
            name="network",
            environment=Environment(version, gates, SystemClock(), SeededEntropy(1)),
            client=server.client(),
            health=Health(CollectorRegistry()),
            stop=asyncio.Event(),
            options=ComponentOptions(directory, version, gates, "127.0.0.1", 0, False, 0),
            identity="test",
        )
        self._task = asyncio.create_task(NetworkComponent(self.ctx, path, {}).run())

    async def ready(self) -> None:
        await until(lambda: self._task.done() or not self.ctx.health.failing())
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        self.ctx.stop.set()
        await self._task
        await self.ctx.client.close()


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    found = FakeServer(SystemClock(), SeededEntropy(2))
    client = found.client()
    await client.create(NODES, NODE)
    await client.close()
    yield found
    await found.close()


async def _greeted(agent: NetworkAgent, host: str, port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection(sock=await agent.dial("client", host, port))
    except OSError:
        return False
    found = await reader.read()
    writer.close()
    return found == b"hello"


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()


async def test_cluster_with_a_network(
    namespaces: None, socket_path: Path, tmp_path: Path, server: FakeServer
) -> None:
    """Nodes are joined and services served as the API has them. A component that is started again finds
    pods as they were; so it does after a kill of the process that keeps them.
    """
    agent, client = NetworkAgent(socket_path), server.client()
    first = Component(tmp_path, socket_path, server)
    await first.ready()
    assert agent.pods().keys() == {"node:node-1"}
    agent.add_pod("client", "10.244.1.3").close()
    agent.add_pod("web", "10.244.1.2").close()
    serving = await asyncio.start_server(_greet, sock=agent.listen("web", "", 8080))
    await client.create(SERVICES, service("web"), namespace="ns")
    await client.create(ENDPOINT_SLICES, endpoint_slice("web", endpoint("10.244.1.2")), namespace="ns")
    await until(lambda: _greeted(agent, "10.96.7.7", 80))
    await first.stop()
    second = Component(tmp_path, socket_path, server)
    await second.ready()
    assert await _greeted(agent, "10.96.7.7", 80)
    keeper = agent.pid()
    os.kill(keeper, signal.SIGKILL)
    await until(lambda: agent.is_there() and agent.pid() != keeper)
    assert agent.pods().keys() == {"node:node-1", "client", "web"}
    assert await _greeted(agent, "10.96.7.7", 80)
    await client.delete(NODES, "node-1")
    await until(lambda: agent.pods().keys() == {"client", "web"})
    await second.stop()
    serving.close()
    await client.close()
    agent.end()


NFT = """#!/bin/sh
cat > "$0.given"
if grep -q 10.96.7.8 "$0.given"; then echo refused >&2; exit 1; fi
cp "$0.given" "$0.loaded"
"""


async def test_refused_rules(
    namespaces: None,
    socket_path: Path,
    tmp_path: Path,
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refused rules leave those before in place, and what they do not serve is served in user space."""
    program = tmp_path / "nft"
    program.write_text(NFT)
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    agent, client = NetworkAgent(socket_path), server.client()
    component = Component(tmp_path, socket_path, server)
    await component.ready()
    agent.add_pod("client", "10.244.1.3").close()
    agent.add_pod("web", "10.244.1.2").close()
    serving = await asyncio.start_server(_greet, sock=agent.listen("web", "", 8080))
    loaded = tmp_path / "nft.loaded"
    for name, address in (("web", "10.96.7.7"), ("more", "10.96.7.8")):
        await client.create(SERVICES, service(name, address), namespace="ns")
        await client.create(ENDPOINT_SLICES, endpoint_slice(name, endpoint("10.244.1.2")), namespace="ns")
        await until(lambda: "10.96.7.7 . 80" in loaded.read_text())
    await until(lambda: _greeted(agent, "10.96.7.8", 80))
    assert "10.96.7.7 . 80" in loaded.read_text()
    await component.stop()
    serving.close()
    await client.close()
    agent.end()
