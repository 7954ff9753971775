"""Binding volumes to claims: which volume fits, and what both say then; in virtual time."""

import pytest
from workloads import events_of

from kubeskew.apimachinery import volume_matching as matching
from kubeskew.apimachinery.client.refs import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from kubeskew.apimachinery.periods import QUICK, REAL
from kubeskew.controllers.volumes.binder import PersistentVolumeController


def volume(name, size="5Gi", modes=("ReadWriteOnce",), phase="Available", labels=None, **spec):
    metadata = {"name": name, "labels": labels or {}}
    spec = {"capacity": {"storage": size}, "accessModes": list(modes), **spec}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def claim(size="2Gi", modes=("ReadWriteOnce",), **spec):
    metadata = {"name": "data", "namespace": "ns", "uid": "u"}
    spec = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec}
    return {"metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("volumes", "wanted", "expected"),
    [
        ([volume("big", "10Gi"), volume("small", "3Gi")], claim(), "small"),
        ([volume("tiny", "1Gi")], claim(), None),
        ([volume("a", modes=["ReadOnlyMany"])], claim(), None),
        ([volume("a", modes=["ReadOnlyMany", "ReadWriteOnce"])], claim(), "a"),
        ([volume("a", storageClassName="fast")], claim(), None),
        ([volume("a", storageClassName="fast")], claim(storageClassName="fast"), "a"),
        ([volume("a", volumeMode="Block")], claim(), None),
        ([volume("a", phase="Released")], claim(), None),
        ([volume("a"), volume("b", labels={"x": "y"})], claim(selector={"matchLabels": {"x": "y"}}), "b"),
        ([volume("a", claimRef={"namespace": "ns", "name": "other"})], claim(), None),
        ([volume("a"), volume("z", "9Gi", claimRef={"namespace": "ns", "name": "data"})], claim(), "z"),
        ([volume("z", claimRef={"namespace": "ns", "name": "data", "uid": "v"})], claim(), None),
    ],
)
def test_which_volume_fits(volumes, wanted, expected):
    """The one that names the claim, else the smallest free one of its class, modes and labels."""
    found = matching.best(volumes, wanted, delayed=False)

    assert (found and found["metadata"]["name"]) == expected


def test_a_claim_that_waits_takes_only_its_own():
    """WaitForFirstConsumer leaves free volumes to the scheduler."""
    assert matching.best([volume("a")], claim(), delayed=True) is None


async def phases(cluster):
    claims = (await cluster.client.list(PERSISTENT_VOLUME_CLAIMS, "ns"))["items"]
    volumes = (await cluster.client.list(PERSISTENT_VOLUMES))["items"]
    return [claim["status"]["phase"] for claim in (*claims, *volumes)]


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_volume_and_a_claim_find_each_other(cluster):
    """A volume and a claim refer to each other; a deleted claim releases, a deleted volume loses."""
    (controller,) = await cluster.start(PersistentVolumeController)
    await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, claim())
    await cluster.quiet(1)

    assert await phases(cluster) == ["Pending"]

    await cluster.client.create(PERSISTENT_VOLUMES, volume("pv", phase=""))
    await cluster.quiet(2)
    bound = await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "data", "ns")
    taken = await cluster.client.get(PERSISTENT_VOLUMES, "pv")

    assert await phases(cluster) == ["Bound", "Bound"]
    assert bound["spec"]["volumeName"] == "pv"
    assert bound["status"]["capacity"] == {"storage": "5Gi"}
    assert bound["metadata"]["annotations"] == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    assert taken["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]

    await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, "data", "ns")
    await cluster.quiet(1)

    assert await phases(cluster) == ["Released"]
    assert [reason for _, reason, _ in await events_of(cluster, controller)] == ["FailedBinding"]


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_claim_that_lost_its_volume_says_so(cluster):
    """Lost, with a warning."""
    (controller,) = await cluster.start(PersistentVolumeController)
    await cluster.client.create(PERSISTENT_VOLUMES, volume("pv"))
    await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, claim())
    await cluster.quiet(2)
    await cluster.client.delete(PERSISTENT_VOLUMES, "pv")
    await cluster.quiet(1)

    lost = await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "data", "ns")

    assert lost["status"] == {"phase": "Lost"}
    assert "ClaimLost" in [reason for _, reason, _ in await events_of(cluster, controller)]


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("storage_class", "reason"),
    [
        (None, "ProvisioningFailed"),
        ({"provisioner": "x", "volumeBindingMode": "Immediate"}, "ExternalProvisioning"),
        ({"provisioner": "kubernetes.io/aws-ebs", "volumeBindingMode": "Immediate"}, "ExternalProvisioning"),
        ({"provisioner": "kubernetes.io/no-provisioner"}, "ProvisioningFailed"),
        ({"provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}, "WaitForFirstConsumer"),
    ],
)
async def test_a_claim_of_a_class_waits(cluster, storage_class, reason):
    """For the provisioner, for its first consumer, or for the class."""
    (controller,) = await cluster.start(PersistentVolumeController)
    if storage_class is not None:
        await cluster.client.create(STORAGE_CLASSES, {"metadata": {"name": "fast"}, **storage_class})
        await cluster.quiet()
    pending = {**claim(storageClassName="fast"), "status": {"phase": "Pending"}}
    await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, pending)
    await cluster.quiet(1)

    assert await phases(cluster) == ["Pending"]
    assert {event_reason for _, event_reason, _ in await events_of(cluster, controller)} == {reason}


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_pods_that_wait_for_a_node_are_named(cluster):
    """A claim that waits for its consumer says which pods have to be scheduled first."""
    (controller,) = await cluster.start(PersistentVolumeController)
    storage_class = {"provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
    await cluster.client.create(STORAGE_CLASSES, {"metadata": {"name": "fast"}, **storage_class})
    uses = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    for name, more in (("a", {}), ("b", {}), ("bound", {"nodeName": "n"})):
        metadata = {"name": name, "namespace": "ns"}
        await cluster.client.create(PODS, {"metadata": metadata, "spec": {"volumes": uses, **more}})
    await cluster.quiet()
    await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, claim(storageClassName="fast"))
    await cluster.quiet(1)

    expected = ("Normal", "WaitForPodScheduled", "waiting for pods a,b to be scheduled")
    assert expected in await events_of(cluster, controller)


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(("time", "told"), [(QUICK, 1), (REAL, 3)])
async def test_claims_are_looked_at_again(make_cluster, time, told):
    """With upstream's periods a claim says every fifteen seconds that it waits."""
    cluster = make_cluster(time=time)
    (controller,) = await cluster.start(PersistentVolumeController)
    await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, {**claim(), "status": {"phase": "Pending"}})
    await cluster.quiet(31)
    await controller.recorder.close()

    (event,) = (await cluster.client.list(EVENTS, "ns"))["items"]
    assert (event["reason"], event["count"]) == ("FailedBinding", told)


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_selected_node_takes_no_volume(cluster):
    """The scheduler binds volumes itself; the node asks for one to be provisioned."""
    (controller,) = await cluster.start(PersistentVolumeController)
    storage_class = {"provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
    await cluster.client.create(STORAGE_CLASSES, {"metadata": {"name": "fast"}, **storage_class})
    await cluster.client.create(PERSISTENT_VOLUMES, volume("free", storageClassName="fast"))
    await cluster.quiet()
    selected = {**claim(storageClassName="fast"), "status": {"phase": "Pending"}}
    selected["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n"}
    await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, selected)
    await cluster.quiet(1)

    assert await phases(cluster) == ["Pending", "Available"]
    assert {reason for _, reason, _ in await events_of(cluster, controller)} == {"ExternalProvisioning"}


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(("time", "after"), [(QUICK, "Bound"), (REAL, "Pending")])
async def test_a_new_volume_is_taken_when_claims_are_looked_at(make_cluster, time, after):
    """With upstream's periods a claim that waits hears of no volume; it finds it within fifteen seconds."""
    cluster = make_cluster(time=time)
    await cluster.start(PersistentVolumeController)
    await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, {**claim(), "status": {"phase": "Pending"}})
    await cluster.quiet(1)
    await cluster.client.create(PERSISTENT_VOLUMES, volume("late"))
    await cluster.quiet(1)
    assert (await phases(cluster))[0] == after

    await cluster.quiet(15)
    assert await phases(cluster) == ["Bound", "Bound"]
