"""DRA on a whole node: slices, pods with devices, restarts, gates."""

import asyncio
from dataclasses import replace

import pytest

from apimachinery.client.refs import PODS, dra_refs
from apimachinery.versions import Version
from kubelet.node_config import DriverConfig, NodeConfig

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

DRIVER = "gpu.example.com"
ON = "DRAExtendedResource=true"


@pytest.fixture
async def node(node):
    drivers = (DriverConfig(DRIVER, 8, attributes={"zone": "a", "fast": True, "model": None}),)
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    node.config = NodeConfig("node-1", capacity=capacity, drivers=drivers)
    return node


async def slices(node, minor=36):
    return (await node.client.list(dra_refs(Version(minor)).slices))["items"]


async def extended_pod(node, name="pod-1", device="gpu-3", minor=36):
    """A pod as the scheduler leaves it: bound, with the special claim allocated and mapped."""
    requests = {"example.com/gpu": "1"}
    containers = [
        {"name": "main", "image": "x", "resources": {"requests": requests, "limits": requests}},
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
    """Names of the claims that the node's driver has prepared."""
    return [claim["name"] for claim in node.agent.prepared()[DRIVER]]


async def test_the_driver_publishes_its_devices(node):
    """One slice per 128 devices, in a pool named like the node, owned by the Node object."""
    await node.start()
    (found,) = await slices(node)
    owner = found["metadata"]["ownerReferences"][0]
    device = found["spec"]["devices"][3]

    assert found["spec"]["pool"] == {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Node", "node-1", True)
    assert found["metadata"]["name"].startswith("node-1-gpu.example.com-")
    assert len(found["spec"]["devices"]) == 8
    assert device["name"] == "gpu-3"
    assert device["attributes"]["index"] == {"int": 3}
    assert device["attributes"]["zone"] == {"string": "a"}
    assert device["attributes"]["fast"] == {"bool": True}
    assert device["attributes"]["driverVersion"] == {"version": "1.0.0"}
    assert "model" not in device["attributes"]
    assert device["capacity"] == {"memory": {"value": "80Gi"}}


async def test_an_older_driver_speaks_an_older_version(node):
    """At 1.32 the slice is v1beta1, with each device wrapped in `basic`."""
    await node.start("1.32", "DynamicResourceAllocation=true")
    (found,) = await slices(node, 32)

    assert found["apiVersion"] == "resource.k8s.io/v1beta1"
    assert found["spec"]["devices"][0]["basic"]["capacity"] == {"memory": {"value": "80Gi"}}


async def test_slices_that_vanish_come_back(node):
    """A slice that someone deletes or changes is published again, in a new generation if any is left."""
    await node.start()
    refs = dra_refs(Version(36))
    (first,) = await slices(node)
    await node.client.delete(refs.slices, first["metadata"]["name"])
    await asyncio.sleep(5)
    (second,) = await slices(node)
    await node.client.update(refs.slices, {**second, "spec": {**second["spec"], "devices": []}})
    await asyncio.sleep(5)
    (third,) = await slices(node)

    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert len(third["spec"]["devices"]) == 8
    assert third["spec"]["pool"]["generation"] == 2
    count = len(node.server.requests)
    await asyncio.sleep(5)
    assert [r for r in node.server.requests[count:] if "resourceslices" in r.target] == []


async def test_a_restarted_kubelet_wipes_and_republishes(node):
    """No slice survives the start of a kubelet; the driver publishes anew."""
    await node.start()
    (before,) = await slices(node)
    await node.stop()
    assert len(await slices(node)) == 1
    await node.start()
    (after,) = await slices(node)

    assert before["metadata"]["uid"] != after["metadata"]["uid"]


async def test_slices_of_a_driver_that_left_are_wiped_in_time(node):
    """30 s after a driver went its slices go; a driver that is back sooner keeps them."""
    await node.start()
    (before,) = await slices(node)
    without = replace(node.config, drivers=())
    await node.agent.reconfigure(without)
    await asyncio.sleep(25)
    await node.agent.reconfigure(node.config)
    await asyncio.sleep(60)
    assert await slices(node) == [before]
    await node.agent.reconfigure(without)
    await asyncio.sleep(29)
    assert len(await slices(node)) == 1
    await asyncio.sleep(2)
    assert await slices(node) == []
    await node.agent.reconfigure(node.config)
    await node.until(lambda: node.agent.ready)
    assert len(await slices(node)) == 1


async def test_a_driver_with_other_devices_replaces_the_pool(node):
    """More devices than fit into one slice make two, in a new generation."""
    await node.start()
    await node.agent.reconfigure(replace(node.config, drivers=(DriverConfig(DRIVER, 130),)))
    await node.until(lambda: node.agent.ready)
    found = await slices(node)

    assert sorted(len(item["spec"]["devices"]) for item in found) == [2, 128]
    pool = {"name": "node-1", "generation": 2, "resourceSliceCount": 2}
    assert [item["spec"]["pool"] for item in found] == [pool, pool]


async def test_an_api_without_the_resource_does_not_hold_up_the_node(node, server):
    """Where resource.k8s.io is not served, the node is ready all the same."""
    from apimachinery.errors import unknown_path

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
    """A pod deleted while the gate is off leaves its claim prepared until the reconcile loop comes by."""
    await node.start("1.36")
    await extended_pod(node)
    await node.running()
    await node.stop()
    await node.start("1.36", "DRAExtendedResource=false")
    await asyncio.sleep(10)
    await node.delete()
    await node.gone()
    assert len(prepared(node)) == 1
    await node.until(lambda: prepared(node) == [], seconds=61)


async def test_a_claim_that_is_not_ready_holds_the_pod(node):
    """Without the claim the pod waits, its owner is told why, and it starts once the claim is there."""
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

    await node.running()


async def test_a_kubelet_that_cannot_read_its_checkpoint_does_not_start(node):
    """The node does not become ready, and the reason is told."""
    await node.start("1.36")
    await extended_pod(node)
    await node.running()
    await node.stop()
    await node.start("1.31", "DynamicResourceAllocation=true")

    assert not node.agent.ready
    assert node.agent.state()["error"].endswith("checkpoint is corrupted")
