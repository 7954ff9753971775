"""DRA on a node: plugins that come and go, slices that are wiped, pods with devices, restarts, gates."""

import asyncio
import os
import stat

import pytest

from kubeskew.apimachinery.client.refs import EVENTS, PODS, dra_refs
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.dra.health import HealthMonitor
from kubeskew.kubelet.dra.node import NodeDRA
from kubeskew.kubelet.dra.plugin import PreparedDevice
from kubeskew.kubelet.drivers.claims import PreparedClaims
from kubeskew.kubelet.plugins import registration

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

DRIVER = "gpu.example.com"
ON = "DRAExtendedResource=true"


class DirectPlugin:
    """The example driver's plugin, called without a socket: gRPC does not follow virtual time."""

    driver, connected, channel = DRIVER, True, None

    def __init__(self, node):
        self._node = node
        directory = node.root / "node-1"
        self._claims = PreparedClaims(DRIVER, directory / "prepared.json", directory / "cdi")

    async def node_prepare_resources(self, claims):
        refs = dra_refs(self._node.server.version).claims
        return {
            ref.uid: [
                PreparedDevice(
                    device["pool"],
                    device["device"],
                    tuple(device["requests"]),
                    tuple(device["cdiIDs"]),
                    device["shareID"],
                )
                for device in self._claims.prepare(
                    ref, await self._node.client.get(refs, ref.name, ref.namespace)
                )
            ]
            for ref in claims
        }

    async def node_unprepare_resources(self, claims):
        for ref in claims:
            self._claims.unprepare(ref)
        return dict.fromkeys(ref.uid for ref in claims)

    async def follow_connection(self, changed):
        await asyncio.Event().wait()

    async def close(self):
        return


async def nothing(*_arguments):
    """Health of no interest."""


@pytest.fixture
async def node(node, monkeypatch):
    """A node whose kubelet finds the driver's socket in the registry."""

    async def register(path, handlers, added):
        handler = handlers["DRAPlugin"]
        added(registration.Registered(DRIVER, path, handler))
        await handler.register(DRIVER, path, ["v1.DRAPlugin", "v1beta1.DRAPlugin", "1.0.0"])

    monkeypatch.setattr(registration, "register", register)
    monkeypatch.setattr(NodeDRA, "_connect", lambda *_: DirectPlugin(node))
    monkeypatch.setattr(HealthMonitor, "follow", nothing)
    show(node)
    return node


def registry(node):
    directory = node.root / "node-1" / "kubelet" / "plugins_registry"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / "gpu.example.com-reg.sock"


def show(node):
    """The driver comes."""
    os.mknod(registry(node), stat.S_IFSOCK | 0o600)


def hide(node):
    """The driver goes."""
    registry(node).unlink()


async def slices(node, minor=36):
    return (await node.client.list(dra_refs(Version(minor)).slices))["items"]


async def publish(node, name="slice"):
    """Publishes what a driver leaves at the API server."""
    spec = {"driver": DRIVER, "nodeName": "node-1", "pool": {"name": "node-1", "generation": 1}}
    made = {"metadata": {"name": name}, "spec": spec}
    return await node.client.create(dra_refs(Version(36)).slices, made)


async def registered(node):
    await node.until(lambda: node.agent.plugins() == [DRIVER])


async def extended_pod(node, name="pod-1", device="gpu-3", minor=36, **main):
    """A pod as the scheduler leaves it: bound, with the extended resource claim allocated and mapped."""
    requests = {"example.com/gpu": "1"}
    containers = [
        {"name": "main", "image": "x", "resources": {"requests": requests, "limits": requests}, **main},
        {"name": "other", "image": "x"},
    ]
    claims = dra_refs(Version(minor)).claims
    claim_name = f"{name}-extended-resources-abcde"
    mapping = {
        "containerName": "main",
        "resourceName": "example.com/gpu",
        "requestName": "container-0-request-0",
    }
    status = {"resourceClaimName": claim_name, "requestMappings": [mapping]}
    made = await node.create(
        name, containers=containers, nodeName="", status={"extendedResourceClaimStatus": status}
    )
    result = {"driver": DRIVER, "pool": "node-1", "device": device, "request": "container-0-request-0"}
    claim = {
        "metadata": {"name": claim_name, "namespace": "default"},
        "status": {
            "reservedFor": [{"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}],
            "allocation": {"devices": {"results": [result], "config": []}},
        },
    }
    await node.client.create(claims, claim)
    body = {"target": {"name": "node-1"}}
    await node.client.create(PODS, body, "default", name=name, subresource="binding")
    return made


def container(node, name="main", pod="pod-1"):
    found = [c for c in node.agent.containers() if c["container"] == name and c["pod"] == pod]
    return found[-1]


def prepared(node):
    """Names of the claims that the kubelet holds prepared."""
    return [claim["name"] for claim in node.agent.prepared().get(DRIVER, [])]


async def test_the_start_of_a_kubelet_wipes_slices(node):
    """Better to offer nothing than pods that wait for a driver in vain; what comes later stays."""
    await publish(node)
    await node.start()
    assert await slices(node) == []
    await publish(node)
    await node.stop()
    assert len(await slices(node)) == 1


async def test_slices_of_a_driver_that_left_are_wiped_in_time(node):
    """30 s after a driver went its slices go; a driver that is back sooner keeps them."""
    await node.start()
    await registered(node)
    before = await publish(node)
    hide(node)
    await asyncio.sleep(25)
    assert node.agent.plugins() == []
    show(node)
    await asyncio.sleep(60)
    assert [slice_["metadata"] for slice_ in await slices(node)] == [before["metadata"]]
    hide(node)
    await asyncio.sleep(29)
    assert len(await slices(node)) == 1
    await asyncio.sleep(3)
    assert await slices(node) == []


async def test_a_kubelet_without_dra_takes_no_drivers(node):
    """With the gate off nobody registers, and nothing is wiped."""
    await publish(node)
    await node.start("1.33")
    await asyncio.sleep(5)

    assert node.agent.plugins() is None
    assert len(await slices(node)) == 1


async def test_an_api_without_the_resource_does_not_hold_up_the_node(node, server):
    """A node becomes ready even if resource.k8s.io is not served."""
    from kubeskew.apimachinery.errors import unknown_path

    server.outage = lambda request: unknown_path() if "resourceslices" in request.target else None
    await node.start()

    assert node.agent.ready


async def test_devices_reach_the_container_that_asked(node):
    """The extended resource's device is in the environment of its container, and of no other."""
    await node.start("1.35", ON)
    await extended_pod(node)
    await node.running()

    env = container(node)["env"]
    assert env["container_0_request_0"] == "true"
    assert env["gpu_example_com_container_0_request_0"] == "gpu-3"
    assert container(node, "other")["env"] == {}
    assert container(node, "other")["cdiDevices"] == []


async def test_a_deleted_pod_gives_its_devices_back(node):
    """After the deletion nothing is prepared and no CDI spec is left."""
    await node.start()
    await extended_pod(node)
    await node.running()
    assert prepared(node) == ["pod-1-extended-resources-abcde"]
    assert len(list((node.root / "node-1" / "cdi").glob("*.json"))) == 1
    await node.delete()
    await node.gone()

    assert prepared(node) == []
    assert list((node.root / "node-1" / "cdi").glob("*.json")) == []


async def test_without_an_api_server_containers_restart_with_their_devices(node, server):
    """The kubelet needs no answer to start a container again: it knows the pod, and the claim is prepared."""
    await node.start("1.36")
    await extended_pod(node, command=["sh", "-c", "sleep 20; exit 1"])
    await node.running()
    before = container(node)
    server.outage = lambda request: StatusError(503, "ServiceUnavailable", "out of order")
    await node.until(lambda: container(node)["id"] != before["id"], seconds=60)

    assert container(node)["env"]["container_0_request_0"] == "true"
    assert container(node)["cdiDevices"] == before["cdiDevices"] != []


@pytest.mark.parametrize("way", ["stop", "kill"])
async def test_an_upgrade_leaves_pods_with_devices_undisturbed(node, way):
    """Same container, same devices, still prepared, after 1.35 → 1.36 → 1.35; then all is given back."""
    await node.start("1.35", ON)
    await extended_pod(node)
    before = await node.running()
    running = container(node)
    for version, gates in (("1.36", ""), ("1.35", ON)):
        await getattr(node, way)()
        await asyncio.sleep(45)
        await node.start(version, gates)
        await asyncio.sleep(90)
        after = await node.running()
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        assert container(node) == running
        assert len(prepared(node)) == 1
    await node.delete()
    await node.gone()
    assert prepared(node) == []


async def test_with_the_gate_off_reconciling_frees_what_is_left(node):
    """A pod deleted while the gate is off stays, with its claim prepared, until the reconcile loop runs."""
    await node.start("1.36")
    await extended_pod(node)
    await node.running()
    await node.stop()
    await node.start("1.36", "DRAExtendedResource=false")
    await asyncio.sleep(10)
    await node.delete()
    await asyncio.sleep(30)
    status = (await node.pod())["status"]
    assert status["phase"] == "Running"
    assert "terminated" in status["containerStatuses"][0]["state"]
    assert len(prepared(node)) == 1
    await node.until(lambda: prepared(node) == [], seconds=61)
    await asyncio.sleep(10)  # in which statuses are compared with the server's
    await node.gone()


async def test_a_claim_that_is_not_ready_holds_the_pod(node):
    """Without the claim the pod waits, its owner is informed why, and it starts once the claim is there."""
    await node.start("1.36")
    refs = dra_refs(Version(36))
    made = await node.create(resourceClaims=[{"name": "gpu", "resourceClaimName": "late"}])
    await asyncio.sleep(5)
    pod = await node.pod()
    assert pod["status"]["phase"] == "Pending"
    assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
    expected = (
        "Failed to prepare dynamic resources: prepare dynamic resources: fetch ResourceClaim late: "
        'resourceclaims.resource.k8s.io "late" not found'
    )
    assert ("FailedPrepareDynamicResources", expected) in await node.events()
    result = {"driver": DRIVER, "pool": "node-1", "device": "gpu-0", "request": "r"}
    claim = {
        "metadata": {"name": "late", "namespace": "default"},
        "status": {
            "reservedFor": [{"resource": "pods", "name": "pod-1", "uid": made["metadata"]["uid"]}],
            "allocation": {"devices": {"results": [result]}},
        },
    }
    await node.client.create(refs.claims, claim)
    began = node.clock.now()

    await node.running()
    assert 50 < (node.clock.now() - began).total_seconds() < 90


async def test_a_changed_pod_is_synced_at_once(node):
    """After a failed preparation of its claims the kubelet leaves a pod alone, whatever is written into its
    status, until somebody changes the pod itself."""

    async def failures():
        events = (await node.client.list(EVENTS))["items"]
        return sum(event["count"] for event in events if event["reason"] == "FailedPrepareDynamicResources")

    await node.start("1.36")
    await node.create(resourceClaims=[{"name": "gpu", "resourceClaimName": "late"}])
    await node.until(failures)
    await asyncio.sleep(5)
    pod = await node.pod()
    condition = {"type": "example.com/gate", "status": "True"}
    pod["status"]["conditions"] = [*pod["status"]["conditions"], condition]
    await node.client.update(PODS, pod, subresource="status")
    await asyncio.sleep(5)
    assert await failures() == 1
    pod = await node.pod()
    pod["metadata"]["annotations"] = {"example.com/again": "1"}
    await node.client.update(PODS, pod)
    await asyncio.sleep(1)
    assert await failures() == 2


async def test_a_kubelet_that_stops_gives_nothing_back(node):
    """However long its pods take to be let go of: their claims are in use still."""
    await node.start("1.36")
    await extended_pod(node)
    await node.running()
    agent, stop_pods = node.agent, node.agent._pods.stop

    async def slowly():
        await stop_pods()
        await asyncio.sleep(120)

    agent._pods.stop = slowly
    await node.stop()
    assert len(agent.prepared()[DRIVER]) == 1


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_a_pod_that_is_over_leaves_claims_alone(node, phase):
    """A pod that was rejected, or was over before the kubelet started again, leaves claims alone."""
    await node.start("1.36")
    await extended_pod(node)
    await node.running()
    resources = {"requests": {"cpu": "99" if phase == "Failed" else "1"}}
    containers = [{"name": "main", "image": "x", "command": ["true"], "resources": resources}]
    await node.create("pod-2", containers=containers, restartPolicy="Never")
    await node.until_pod(lambda status: status.get("phase") == phase, "pod-2")
    await node.stop()
    pod = await node.pod("pod-2")
    pod["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "pod-1-extended-resources-abcde"}]
    await node.client.update(PODS, pod)
    await node.start("1.36")
    await node.delete("pod-2")
    await node.gone("pod-2")
    assert len(node.agent.prepared()[DRIVER]) == 1


async def test_a_kubelet_that_cannot_read_its_checkpoint_does_not_start(node):
    """The node does not become ready, and the reason is reported."""
    await node.start("1.36")
    await extended_pod(node)
    await node.running()
    await node.stop()
    await node.start("1.30", "DynamicResourceAllocation=true")

    assert not node.agent.ready
    assert node.agent.state()["error"].endswith("checkpoint is corrupted")


async def test_health_that_nobody_shows_any_more_is_not_reported_for_long(node):
    """Within a minute after a device was last reported, its pods say that nothing is known."""
    await node.start("1.36")
    await extended_pod(node)
    pod = await node.running()
    woken = []
    node.agent._dra._health_changed = woken.append
    await asyncio.sleep(61)
    assert woken == [{pod["metadata"]["uid"]}]
