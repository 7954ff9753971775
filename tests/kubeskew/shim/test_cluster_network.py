"""The addresses that a real API server dials, and where they lead, by the objects in etcd's keys."""

import json

import pytest
from loop_clock import LoopClock

from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apiserver.storage.etcd.memory_backing import MemoryBacking
from kubeskew.apiserver.storage.etcd.messages.rpc_pb2 import PutRequest
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.webhooks.endpoints import ResolutionError
from kubeskew.shim.cluster_network import ClusterNetwork


def service(name, ip, annotations=None, **spec):
    metadata = {"name": name, "namespace": "ns", "annotations": annotations or {}}
    body = {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"port": 443, "name": "https"}], **spec}
    return f"services/specs/ns/{name}", {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": body,
    }


LOCAL = {"apiserver.kubeskew.io/local-address": "127.0.0.1:7000"}
OBJECTS = [
    service("annotated", "10.96.0.1", LOCAL),
    service("plain", "10.96.0.2"),
    service("given", "10.96.0.3"),
    service("dual", "10.96.0.4", LOCAL, clusterIPs=["10.96.0.4", "fd00::4"]),
    service("sliced", "10.96.0.5"),
    service("named", "", clusterIPs=[], type="ExternalName", externalName="hook.example.com"),
    service("mentions", "10.96.0.7", {"note": "see 10.96.0.8"}),
    (
        "endpointslices/ns/sliced-x",
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "sliced-x",
                "namespace": "ns",
                "labels": {"kubernetes.io/service-name": "sliced"},
            },
            "ports": [{"name": "https", "port": 9443}],
            "endpoints": [{"addresses": ["127.0.0.9"], "conditions": {"ready": True}}],
        },
    ),
    (
        "minions/node-1",
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-1"},
            "status": {"addresses": [{"type": "InternalIP", "address": "127.54.0.1"}]},
        },
    ),
]  # fmt: skip


async def network(objects):
    etcd = await EtcdServer.open(MemoryBacking(), LoopClock(), SeededEntropy(1))
    for key, obj in objects:
        value = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        await etcd.put(PutRequest(key=b"/registry/" + key.encode(), value=value).SerializeToString())
    return etcd, ClusterNetwork(etcd, {"ns/given": "127.0.0.2:4443"})


@pytest.mark.parametrize(
    ("host", "port", "leads"),
    [
        ("10.96.0.1", 443, "127.0.0.1:7000"),
        ("10.96.0.1", 8443, "127.0.0.1:7000"),
        ("10.96.0.3", 443, "127.0.0.2:4443"),
        ("fd00::4", 443, "127.0.0.1:7000"),
        ("10.96.0.5", 443, "127.0.0.9:9443"),
        ("hook.example.com", 8443, "hook.example.com:8443"),
        ("127.54.0.1", 10250, "127.54.0.1:10250"),
        ("127.54.0.1", 9100, "127.54.0.1:9100"),
    ],
)
async def test_addresses_that_lead_somewhere(host, port, leads):
    """A cluster IP leads where an emulated server would go for the Service; nodes and external names are
    dialled as they are.
    """
    etcd, made = await network(OBJECTS)
    found = await made.find(host, port)
    await etcd.close()
    assert f"{found.host}:{found.port}" == leads


@pytest.mark.parametrize(
    ("host", "port", "why"),
    [
        ("10.96.0.2", 443, "dial tcp 10.96.0.2:443: connect: connection refused"),
        ("10.96.0.2", 80, 'no service port 80 found for service "plain"'),
        ("10.96.0.8", 443, "dial tcp 10.96.0.8:443: connect: connection refused"),
        ("10.151.0.3", 80, "dial tcp 10.151.0.3:80: connect: connection refused"),
        ("fd00::9", 80, "dial tcp [fd00::9]:80: connect: connection refused"),
        ("127.0.0.1", 22, "dial tcp 127.0.0.1:22: connect: connection refused"),
        ("example.com", 443, "dial tcp example.com:443: connect: connection refused"),
    ],
)
async def test_addresses_that_lead_nowhere(host, port, why):
    """A Service without anybody behind it, what an object only mentions, and this machine's own addresses."""
    etcd, made = await network(OBJECTS)
    with pytest.raises(ResolutionError) as refused:
        await made.find(host, port)
    await etcd.close()
    assert str(refused.value) == why


async def test_what_is_created_later_is_found(caplog):
    """Objects are looked up at each connection, and those that cannot be read are in nobody's way."""
    etcd, made = await network([("services/specs/ns/broken", b"k8s\0 10.96.0.1")])
    with pytest.raises(ResolutionError):
        await made.find("10.96.0.1", 443)
    key, obj = OBJECTS[0]
    await etcd.put(
        PutRequest(key=f"/registry/{key}".encode(), value=json.dumps(obj).encode()).SerializeToString()
    )
    assert (await made.find("10.96.0.1", 443)).port == 7000
    await etcd.close()
