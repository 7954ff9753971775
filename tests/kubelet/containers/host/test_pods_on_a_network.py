"""Containers as processes on the network of their cluster."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_node import PYTHON, HostNode, NodeMaker
from until import until

from kubeskew.apimachinery.process.network_agent import NetworkAgent
from kubeskew.kubelet.containers.host.network import keeper_process
from kubeskew.kubelet.containers.host.node_runtime import pod_range
from kubeskew.kubelet.containers.host.shim_client import ShimClient, ShimGoneError
from kubeskew.kubelet.containers.host.shim_record import RECORD
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[NetworkAgent]:
    agent = NetworkAgent(tmp_path / "network.sock")
    try:
        keeper_process.ensure(agent)
    except keeper_process.KeeperError as error:
        pytest.skip(str(error))
    yield agent
    agent.end()


async def networked(make_node: NodeMaker, agent: NetworkAgent) -> HostNode:
    return await make_node(networks=agent, addresses=pod_range("node-1"), node_address="127.5.6.7")


SERVER = (
    "import socket; s = socket.create_server(('', 80)); print('ready', flush=True); "
    "c, (peer, _) = s.accept(); c.sendall(peer.encode()); c.close()"
)
CLIENT = "import socket, sys; print(socket.create_connection((sys.argv[1], 80)).recv(99).decode())"


async def test_pods_reach_each_other(make_node: NodeMaker, agent: NetworkAgent):
    """A pod, or one in its node's network, reaches another one; each has the address that it shows."""
    node = await networked(make_node, agent)
    served = await node.pod("served", sysctls={"net.ipv4.ip_forward": "1", "kernel.shm_rmid_forced": "1"})
    assert served.ip.startswith(str(pod_range("node-1").network_address).removesuffix(".0"))
    for uid, options in (("other", {}), ("of-node", {"host_network": True})):
        server = await node.start(served, PYTHON, "-c", SERVER)
        await node.says(served, server, "ready")
        sandbox = await node.pod(uid, **options)
        client = await node.start(sandbox, PYTHON, "-c", CLIENT, served.ip)
        assert await node.ended(client) == 0
        assert node.log(sandbox, client) == f"{sandbox.ip}\n"
        assert await node.ended(server) == 0
    assert node.runtime.sandbox("of-node").ip == "127.5.6.7"
    values = await node.output(served, "cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/shm_rmid_forced")
    assert values.split() == ["1", "1"]


async def test_a_node_waits_for_a_network_that_starts_with_it(make_node: NodeMaker, agent: NetworkAgent):
    """A runtime is loaded once the network's agent answers, and its pods have addresses then."""
    asked = 0

    class LateAgent(NetworkAgent):
        def is_there(self) -> bool:
            nonlocal asked
            asked += 1
            return asked > 2 and super().is_there()

    late = LateAgent(agent.path)
    node = await networked(make_node, late)
    assert asked == 3
    assert (await node.pod("a")).ip
    late.close()


async def test_addresses_in_use_are_passed_over(make_node: NodeMaker, agent: NetworkAgent):
    """An address that a pod of another node has is not given out again."""
    node = await networked(make_node, agent)
    first = str(pod_range("node-1")[2])
    agent.add_pod("elsewhere", first).close()
    used = {(await node.pod(f"uid-{number}")).ip for number in range(3)}
    assert first not in used
    assert len(used) == 3


async def test_a_sandbox_is_made_again(make_node: NodeMaker, agent: NetworkAgent):
    """A pod whose sandbox ended gets another one on the network."""
    node = await networked(make_node, agent)
    before = await node.pod()
    await node.runtime.stop_pod_sandbox(before)
    again = await node.pod()
    assert again.ready
    assert await node.output(again, "echo fine") == "fine\n"


async def test_a_sandbox_that_failed_is_tried_again(
    make_node: NodeMaker, agent: NetworkAgent, monkeypatch: pytest.MonkeyPatch
):
    """A pod whose sandbox failed after its network was made gets one at the next try."""
    node = await networked(make_node, agent)

    async def gone(*_arguments: object, **_body: object) -> None:
        raise ShimGoneError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(ShimClient, "call", gone)
        with pytest.raises(ContainerRuntimeError, match="gone"):
            await node.pod()
    assert (await node.pod()).ready


async def test_a_pod_whose_sandbox_ended_leaves_the_network(make_node: NodeMaker, agent: NetworkAgent):
    """A pod is removed from the network also if its sandbox has ended with the parent of its containers."""
    node = await networked(make_node, agent)
    sandbox = await node.pod()
    assert [*agent.pods()] == ["uid-1"]
    os.kill(json.loads((node.state / "node" / RECORD).read_text())["pid"], signal.SIGKILL)
    await until(lambda: not sandbox.ready)
    await node.runtime.remove_pod_sandbox("uid-1")
    assert [*agent.pods()] == []
