"""The pod resources API: what it says of device plugins' devices and of claims, over a real socket."""

import asyncio
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet import podresources
from kubeskew.kubelet.deviceplugins.pod_devices import Allocation
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.plugin import PreparedDevice
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.podresources import Lister, PodResourcesServer, v1, v1alpha1
from kubeskew.kubelet.protocols import grpc_calls
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import (
    ContainerAllocateResponse,
    Device,
    NUMANode,
    TopologyInfo,
)

GPU, NIC = "example.com/gpu", "example.com/nic"
RESPONSE = ContainerAllocateResponse()


def pod(name, *, uid="", inits=(), claims=(), uses=(), status=None):
    main = {"name": "main", "resources": {"claims": [{"name": use} for use in uses]}}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": uid or name},
        "spec": {
            "initContainers": list(inits),
            "containers": [main, {"name": "side"}],
            "resourceClaims": [{"name": claim, "resourceClaimName": f"the-{claim}"} for claim in claims],
        },
        "status": status or {},
    }


PODS = [
    pod("later", claims=["a", "b"], uses=["b", "a"]),
    pod(
        "early",
        inits=[{"name": "init"}, {"name": "sidecar", "restartPolicy": "Always"}],
        status={
            "extendedResourceClaimStatus": {
                "resourceClaimName": "special",
                "requestMappings": [
                    {"containerName": "side", "resourceName": GPU, "requestName": "container-1-request-0"},
                    {"containerName": "side", "resourceName": NIC, "requestName": "container-1-request-1"},
                ],
            }
        },
    ),
    pod("over"),
]
DEVICES = {
    ("early", "main"): {
        GPU: Allocation({-1: ("gpu-1",), 0: ("gpu-0",), 1: ("gpu-0",)}, RESPONSE),
        NIC: Allocation({-1: ("nic-0",)}, RESPONSE),
    },
    ("early", "sidecar"): {NIC: Allocation({-1: ("nic-1",)}, RESPONSE)},
}
CLAIMS = {
    "the-a": {"d.example.com": [PreparedDevice("p", "d0", ("r",), ("v/c=0",), "share")]},
    "the-b": {
        "d.example.com": [
            PreparedDevice("p", "d1", ("r",), ("v/c=1",)),
            PreparedDevice("p", "d2", ("r",), ("v/c=2",)),
        ]
    },
    "special": {"gpu.example.com": [PreparedDevice("node", "gpu-7", ("container-1-request-0",))]},
}


class Plugged:
    """The device plugins' side."""

    def collect(self):
        """Nothing is stale."""

    def devices_of(self, pod_uid, container):
        return DEVICES.get((pod_uid, container), {})

    def healthy_devices(self):
        near = TopologyInfo(nodes=[NUMANode(ID=1)])
        return {GPU: [Device(ID="gpu-0", topology=near), Device(ID="gpu-1")]}


class Managed:
    """The side of the managers of CPUs and memory: of pod `early`."""

    def cpus_of(self, pod, container):
        return {("early", "main"): [1, 2]}.get((pod, container), [])

    def memory_of(self, pod, container):
        mine = [{"numaAffinity": [0], "type": "memory", "size": 64}]
        return {("early", "main"): mine}.get((pod, container), [])

    def allocatable_cpus(self):
        return [1, 2, 3]

    def allocatable_memory(self):
        return [{"numaAffinity": [0], "type": "memory", "size": 1024}]


def find_claim(namespace, name):
    devices = CLAIMS.get(name)
    return None if devices is None else ClaimInfo(namespace, name, "uid", devices=devices)


async def test_cpus_and_memory_of_containers_are_listed(open_server):
    """Containers have what is theirs alone, with its NUMA node, and the node has what there is for all."""
    channel, _ = await open_server()
    answer = await podresources.LIST.call(channel, v1.ListPodResourcesRequest(), timeout=5)
    found = {container.name: container for pod in answer.pod_resources[:1] for container in pod.containers}
    assert [*found["main"].cpu_ids] == [1, 2]
    (block,) = found["main"].memory
    assert (block.memory_type, block.size, [node.ID for node in block.topology.nodes]) == ("memory", 64, [0])
    assert ([*found["sidecar"].cpu_ids], [*found["sidecar"].memory]) == ([], [])
    there = await podresources.GET_ALLOCATABLE.call(channel, v1.AllocatableResourcesRequest(), timeout=5)
    assert [*there.cpu_ids] == [1, 2, 3]
    assert [block.size for block in there.memory] == [1024]


@pytest.fixture
async def open_server():
    """A server of a version with gates, and a channel to it."""
    opened = []

    async def start(version="1.36", gates=""):
        parsed = Version.parse(version)
        features = KubeletFeatures.of(FeatureGates.parse(parsed, gates))
        directory = tempfile.TemporaryDirectory(prefix="ks")
        registry = CollectorRegistry()
        clock = SimpleNamespace(monotonic=lambda: 0.0)
        pods = SimpleNamespace(pods=lambda: PODS, active_pods=lambda: PODS[:2])
        server = PodResourcesServer(
            Path(directory.name),
            pods,
            Lister(features, Plugged(), find_claim, Managed()),
            features,
            clock,
            KubeletMetrics(registry),
        )
        await server.start()
        channel = grpc_calls.channel_to(Path(directory.name) / "kubelet.sock")
        opened.append((server, channel, directory))
        return channel, registry

    yield start
    for server, channel, directory in opened:
        await channel.close()
        await server.stop()
        directory.cleanup()


async def listed(channel):
    answer = await podresources.LIST.call(channel, v1.ListPodResourcesRequest(), timeout=5)
    return {pod.name: {c.name: c for c in pod.containers} for pod in answer.pod_resources}


def plain(container):
    """(resource, device, NUMA nodes) of each entry."""
    return [
        (device.resource_name, *device.device_ids, *[node.ID for node in device.topology.nodes])
        for device in container.devices
    ]


async def test_devices_are_reported_one_by_one(open_server):
    """Each device has an entry, one for each of its NUMA nodes; sidecars are listed, other inits are not."""
    channel, _ = await open_server()
    found = await listed(channel)
    assert [*found] == ["early", "later"]
    assert [*found["early"]] == ["sidecar", "main", "side"]
    assert plain(found["early"]["main"]) == [
        (GPU, "gpu-0", 0), (GPU, "gpu-0", 1), (GPU, "gpu-1"), (NIC, "nic-0"),
    ]  # fmt: skip
    assert plain(found["early"]["sidecar"]) == [(NIC, "nic-1")]
    assert plain(found["early"]["side"]) == []


async def test_claims_are_reported_with_driver_pool_and_device(open_server):
    """In the order of the pod's claims, and the extended resource claim of extended resources once."""
    channel, _ = await open_server()
    found = await listed(channel)
    shown = [
        (
            claim.claim_name,
            r.driver_name,
            r.pool_name,
            r.device_name,
            [c.name for c in r.cdi_devices],
            r.share_id,
        )
        for claim in found["later"]["main"].dynamic_resources
        for r in claim.claim_resources
    ]
    assert shown == [
        ("the-a", "d.example.com", "p", "d0", ["v/c=0"], "share"),
        ("the-b", "d.example.com", "p", "d1", ["v/c=1"], ""),
        ("the-b", "d.example.com", "p", "d2", ["v/c=1", "v/c=2"], ""),  # upstream's list grows
    ]
    [special] = found["early"]["side"].dynamic_resources
    assert (special.claim_name, special.claim_namespace) == ("special", "ns")
    assert special.claim_resources[0].device_name == "gpu-7"
    assert not found["early"]["main"].dynamic_resources


@pytest.mark.parametrize(
    ("version", "gates", "pods", "claims", "sidecar"),
    [
        ("1.27", "", 3, False, False),
        ("1.29", "KubeletPodResourcesDynamicResources=true", 3, True, False),
        ("1.30", "KubeletPodResourcesDynamicResources=true", 3, True, True),
        ("1.33", "", 3, False, True),
        ("1.34", "", 2, True, True),
        ("1.34", "KubeletPodResourcesListUseActivePods=false", 3, True, True),
    ],
)
async def test_what_is_reported_depends_on_the_minor(open_server, version, gates, pods, claims, sidecar):
    """Dynamic resources and sidecars came, pods that ended went."""
    channel, _ = await open_server(version, gates)
    found = await listed(channel)
    assert len(found) == pods
    assert bool(found["later"]["main"].dynamic_resources) == claims
    assert ("sidecar" in found["early"]) == sidecar


async def test_allocatable_devices_are_the_healthy_ones(open_server):
    """With their NUMA nodes; CPUs and memory are nobody's."""
    channel, registry = await open_server()
    request = v1.AllocatableResourcesRequest()
    answer = await podresources.GET_ALLOCATABLE.call(channel, request, timeout=5)
    assert plain(answer) == [(GPU, "gpu-0", 1), (GPU, "gpu-1")]
    labels = {"server_api_version": "v1"}
    assert registry.get_sample_value("kubelet_pod_resources_endpoint_requests_total", labels) == 1
    assert (
        registry.get_sample_value("kubelet_pod_resources_endpoint_requests_get_allocatable_total", labels)
        == 1
    )


async def test_one_pod_is_reported_by_name(open_server):
    """A pod that is not there, and a kubelet without the method, are refused and counted."""
    channel, registry = await open_server()

    async def get(name, on=channel):
        request = v1.GetPodResourcesRequest(pod_name=name, pod_namespace="ns")
        return (await podresources.GET.call(on, request, timeout=5)).pod_resources

    assert (await get("over")).name == "over"
    with pytest.raises(RpcError, match="code = Unknown desc = pod nobody in namespace ns not found"):
        await get("nobody")
    errors = "kubelet_pod_resources_endpoint_errors_get_total"  # as the library calls every counter
    assert registry.get_sample_value(errors, {"server_api_version": "v1"}) == 1
    older, _ = await open_server("1.33")
    with pytest.raises(RpcError, match="PodResources API Get method disabled"):
        await get("over", older)


async def test_the_first_version_knows_devices_only(open_server):
    """All pods, regular containers, no NUMA nodes."""
    channel, _ = await open_server()
    request = v1alpha1.ListPodResourcesRequest()
    answer = await podresources.LIST_V1ALPHA1.call(channel, request, timeout=5)
    assert [pod.name for pod in answer.pod_resources] == ["early", "later", "over"]
    [main, side] = answer.pod_resources[0].containers
    assert [(device.resource_name, *device.device_ids) for device in main.devices] == [
        (GPU, "gpu-0"), (GPU, "gpu-0"), (GPU, "gpu-1"), (NIC, "nic-0"),
    ]  # fmt: skip
    assert (side.name, len(side.devices)) == ("side", 0)


async def test_too_many_calls_are_refused(open_server):
    """Ten at once, since 1.27; the clock of this test stands still."""
    channel, _ = await open_server()
    calls = (listed(channel) for _ in range(12))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [str(answer) for answer in answers if isinstance(answer, RpcError)]
    assert refused == ["rpc error: code = ResourceExhausted desc = rejected by rate limit"] * 2
    unlimited, _ = await open_server("1.26")
    await asyncio.gather(*(listed(unlimited) for _ in range(12)))
