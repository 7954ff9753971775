"""The ports at which load balancers ask nodes for a service's endpoints."""

import asyncio
import json

import pytest
from service_tables import Tables, endpoint, endpoint_slice, service

from kubeskew.kubelet.containers.host.network.health_checks import HealthChecks, checks_of
from kubeskew.kubelet.containers.host.network.service_ports import MACHINE, Listen, Node

NODES = [Node("node-1", "127.9.8.7"), Node("node-2", "192.0.2.9")]
LOCAL = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30999}
TWO_PORTS = [{"name": "http", "port": 80, "nodePort": 30080}]


def counts(*endpoints, **spec):
    given = service("web", ports=TWO_PORTS, **{**LOCAL, **spec})
    found = checks_of([given], Tables([given], [endpoint_slice("web", *endpoints)]), NODES)
    return {check.node.name: count for check, count in found.items()}


def test_ready_endpoints_of_a_node_count():
    """Endpoints count on their own node, and only while they are ready."""
    here, there = endpoint("10.244.1.1"), endpoint("10.244.2.2", node="node-2", ready=False)
    assert counts(here, there) == {"node-1": 1, "node-2": 0}
    assert counts(here, externalTrafficPolicy="Cluster") == {}


async def asked(listen, target):
    reader, writer = await asyncio.open_connection(*target.endpoints[0].at)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.decode().split("\r\n"), json.loads(body)


@pytest.mark.asyncio
async def test_a_node_answers_how_many_it_has():
    """A node with endpoints answers 200, another 503; the number is in a header and in the body. A port that
    is not wanted any more leads nowhere."""
    given = service("web", ports=TWO_PORTS, **LOCAL)
    tables = Tables([given], [endpoint_slice("web", endpoint("10.244.1.1"))])
    checks = HealthChecks()
    ports = await checks.sync(checks_of([given], tables, NODES))
    assert ports.keys() == {
        Listen("node:node-1", "", 30999, "TCP"),
        Listen(MACHINE, "127.9.8.7", 30999, "TCP"),
        Listen("node:node-2", "", 30999, "TCP"),
    }
    found = {listen.place: await asked(listen, target) for listen, target in ports.items()}
    head, body = found[MACHINE]
    assert head[0] == "HTTP/1.1 200 OK"
    assert "X-Load-Balancing-Endpoint-Weight: 1" in head
    named = {"namespace": "ns", "name": "web"}
    assert body == {"service": named, "localEndpoints": 1, "serviceProxyHealthy": True}
    head, body = found["node:node-2"]
    assert (head[0], body["localEndpoints"]) == ("HTTP/1.1 503 Service Unavailable", 0)
    assert await checks.sync({}) == {}
    await checks.close()
