import asyncio
import os
import shutil
from contextlib import suppress

import pytest

from kubeskew.apimachinery.process.network_agent import NetworkAgent, NetworkAgentError
from kubeskew.kubelet.containers.host.network import nftables
from kubeskew.kubelet.containers.host.network.endpoints import Endpoint
from kubeskew.kubelet.containers.host.network.policies import Allowed, PodRules, Ports
from kubeskew.kubelet.containers.host.network.service_ports import CLUSTER, MACHINE, Listen, Node, Target

CLIENT, FIRST, SECOND = "10.244.1.3", "10.244.1.2", "10.244.2.2"
WEB = Listen(CLUSTER, "10.96.7.7", 80, "TCP")
PLACES = nftables.nodes_by_place([Node("node-1", "127.9.8.7")])
ENDPOINT = (Endpoint(FIRST, 8080),)
SERVED = {
    "a cluster IP": (WEB, Target(ENDPOINT), WEB),
    "datagrams": (WEB._replace(protocol="UDP"), Target(ENDPOINT), None),
    "affinity": (WEB, Target(ENDPOINT, affinity_seconds=1), None),
    "a client's node": (WEB, Target(ENDPOINT, local_only=True), None),
    "outside": (WEB, Target(ENDPOINT, is_outside=True), None),
    "the machine": (Listen(MACHINE, "127.0.0.1", 30080, "TCP"), Target(ENDPOINT), None),
    "a node": (
        Listen("node:node-1", "", 30080, "TCP"),
        Target(ENDPOINT),
        Listen("node:node-1", "127.9.8.7", 30080, "TCP"),
    ),
    "a node's loopback": (Listen("node:node-1", "127.0.0.1", 80, "TCP"), Target(ENDPOINT), None),
}


@pytest.mark.parametrize("case", SERVED)
def test_ports_for_the_kernel(case: str) -> None:
    """The kernel serves ports of TCP whose endpoint is a matter of chance alone."""
    listen, target, expected = SERVED[case]
    assert [*nftables.by_kernel({listen: target}, PLACES)] == ([] if expected is None else [expected])


RULES = [
    PodRules(FIRST, (Allowed((CLIENT,), ports=(Ports("TCP", 8080, 8080), Ports("UDP"))),), None),
    PodRules(
        SECOND,
        None,
        (Allowed(("10.0.0.0/8",), ("10.2.0.0/16", "10.2.3.0/24"), (Ports("TCP", 1, 9),)), Allowed()),
    ),
]


TEXT = """\
add table ip kubeskew
delete table ip kubeskew
table ip kubeskew {
  chain service-0 {
    ip protocol tcp dnat ip to numgen random mod 2 map { 0 : 10.244.1.2 . 8080, 1 : 10.244.2.2 . 8080 }
  }
  map services {
    type ipv4_addr . inet_service : verdict
    elements = { 10.96.7.7 . 80 : goto service-0 }
  }
  set hairpins {
    type ipv4_addr . ipv4_addr
    elements = { 10.244.1.2 . 10.244.1.2, 10.244.2.2 . 10.244.2.2 }
  }
  chain prerouting {
    type nat hook prerouting priority -100; policy accept;
    ip daddr . tcp dport vmap @services
  }
  chain output {
    type nat hook output priority -100; policy accept;
    ip daddr . tcp dport vmap @services
  }
  chain postrouting {
    type nat hook postrouting priority 100; policy accept;
    ct status dnat ip saddr . ip daddr @hairpins masquerade
    ct status dnat ip saddr 10.96.0.0/16 masquerade
  }
  chain egress-0 {
    ip daddr { 10.0.0.0/8 } ip daddr != 10.2.0.0/16 ip daddr != 10.2.3.0/24 tcp dport 1-9 return
    return
    drop
  }
  chain ingress-0 {
    ip saddr { 10.244.1.3 } tcp dport 8080 return
    ip saddr { 10.244.1.3 } meta l4proto udp return
    drop
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    ct state established,related accept
    ip saddr vmap { 10.244.2.2 : jump egress-0 }
    ip daddr vmap { 10.244.1.2 : jump ingress-0 }
  }
}
"""


def test_text_of_rules() -> None:
    """Services become maps, and policies chains that a pod's packets have to return from: nft 1.0.6 takes
    this text, and the kernel does by it what `test_rules_in_the_kernel` says.
    """
    endpoints = (Endpoint(FIRST, 8080), Endpoint(SECOND, 8080))
    assert nftables.script({WEB: Target(endpoints)}, RULES) == TEXT
    assert "chain forward {" not in nftables.script({}, [])


async def _peer(agent: NetworkAgent, listener: object, pod: str | None, host: str, port: int) -> str:
    """The client's address as the endpoint sees it; empty if the connection does not come to be."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0.3):
            dialed = await agent.dial(pod, host, port)
            accepted, (peer, _) = await asyncio.get_running_loop().sock_accept(listener)
            accepted.close()
            dialed.close()
            return str(peer)
    return ""


async def test_rules_in_the_kernel(network: NetworkAgent) -> None:
    """With nft, endpoints see their clients' addresses, refusals are theirs, and policies hold; without it
    the agent says so.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    if shutil.which("nft", path=path) is None:
        with pytest.raises(NetworkAgentError, match="nft is not installed"):
            network.load_rules(nftables.PROBE)
        return
    for uid, address in (("client", CLIENT), ("first", FIRST), ("second", SECOND)):
        network.add_pod(uid, address).close()
    network.add_node("node-1", "127.9.8.7").close()
    node_port = Listen("node:node-1", "127.9.8.7", 30080, "TCP")
    network.load_rules(nftables.script({WEB: Target(ENDPOINT), node_port: Target(ENDPOINT)}, []))
    with network.listen("first", "", 8080) as listener:
        assert await _peer(network, listener, "client", "10.96.7.7", 80) == CLIENT
        assert await _peer(network, listener, "client", "127.9.8.7", 30080) == CLIENT
        assert await _peer(network, listener, "first", "10.96.7.7", 80) == "10.244.1.1"
        assert await _peer(network, listener, None, "10.96.7.7", 80) == "10.244.1.1"
        network.load_rules(nftables.script({WEB: Target(ENDPOINT)}, RULES))
        assert await _peer(network, listener, "client", "10.96.7.7", 80) == CLIENT
        assert await _peer(network, listener, "second", "10.96.7.7", 80) == ""
        assert await _peer(network, listener, None, FIRST, 8080) == "10.244.1.1"
    with pytest.raises(ConnectionRefusedError):
        await network.dial("client", "10.96.7.7", 80)
    with pytest.raises(NetworkAgentError, match="syntax error"):
        network.load_rules("no rules")
