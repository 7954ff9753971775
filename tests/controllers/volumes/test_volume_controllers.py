"""Claims and volumes that are in use, claims of pods, and jobs whose time is over; in virtual time."""

import pytest

from kubeskew.apimachinery.client.refs import (
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    attributes_classes_ref,
    pod_groups_ref,
)
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.controllers.job.ttl import TTLAfterFinishedController
from kubeskew.controllers.volumes.ephemeral import EphemeralVolumeController
from kubeskew.controllers.volumes.protection import (
    GROUP_FINALIZER,
    AttributesClassProtectionController,
    ClaimProtectionController,
    PodGroupProtectionController,
    VolumeProtectionController,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

CLAIM = {"metadata": {"name": "data", "namespace": "ns"}, "spec": {}}


def pod(**volume):
    return {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": "n", "volumes": [{"name": "v", **volume}]},
    }


async def is_there(cluster, ref, name, namespace="ns"):
    try:
        await cluster.client.get(ref, name, namespace)
    except StatusError as error:
        return error.code != 404
    return True


async def test_a_claim_in_use_stays_until_the_pod_goes(cluster):
    """A volume claim in use stays as long as its pod exists, whether or not the pod still runs."""
    await cluster.start(ClaimProtectionController)
    await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, CLAIM)
    await cluster.client.create(PODS, pod(persistentVolumeClaim={"claimName": "data"}))
    await cluster.quiet(1)
    found = await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "data", "ns")

    assert found["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]

    await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, "data", "ns")
    await cluster.quiet(1)

    assert await is_there(cluster, PERSISTENT_VOLUME_CLAIMS, "data")

    await cluster.client.delete(PODS, "p", "ns")
    await cluster.quiet(1)

    assert not await is_there(cluster, PERSISTENT_VOLUME_CLAIMS, "data")


async def test_a_bound_volume_stays(cluster):
    """Until it is released."""
    await cluster.start(VolumeProtectionController)
    made = await cluster.client.create(PERSISTENT_VOLUMES, {"metadata": {"name": "pv"}, "spec": {}})
    await cluster.quiet(1)
    made = await cluster.client.get(PERSISTENT_VOLUMES, "pv")
    made = await cluster.client.update(PERSISTENT_VOLUMES, {**made, "status": {"phase": "Bound"}}, "status")
    await cluster.client.delete(PERSISTENT_VOLUMES, "pv")
    await cluster.quiet(1)

    assert await is_there(cluster, PERSISTENT_VOLUMES, "pv", "")

    made = await cluster.client.get(PERSISTENT_VOLUMES, "pv")
    await cluster.client.update(PERSISTENT_VOLUMES, {**made, "status": {"phase": "Released"}}, "status")
    await cluster.quiet(1)

    assert not await is_there(cluster, PERSISTENT_VOLUMES, "pv", "")


async def test_a_class_that_a_claim_or_volume_names_stays(cluster):
    """A VolumeAttributesClass goes when the last claim and volume that named it has another one."""
    await cluster.start(AttributesClassProtectionController)
    classes = attributes_classes_ref(cluster.environment.version)
    await cluster.client.create(classes, {"metadata": {"name": "fast"}, "driverName": "d"})
    claim = {**CLAIM, "spec": {"volumeAttributesClassName": "fast"}}
    claim = await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, claim)
    await cluster.quiet(1)
    await cluster.client.delete(classes, "fast")
    await cluster.quiet(1)

    assert await is_there(cluster, classes, "fast", "")

    status = {"currentVolumeAttributesClassName": "fast"}
    changed = await cluster.client.update(PERSISTENT_VOLUME_CLAIMS, {**claim, "status": status}, "status")
    changed = {**changed, "spec": {"volumeAttributesClassName": "slow"}}
    changed = await cluster.client.update(PERSISTENT_VOLUME_CLAIMS, changed)
    await cluster.quiet(1)

    assert await is_there(cluster, classes, "fast", "")

    await cluster.client.update(PERSISTENT_VOLUME_CLAIMS, {**changed, "status": {}}, "status")
    await cluster.quiet(1)

    assert not await is_there(cluster, classes, "fast", "")


async def test_a_group_stays_until_its_pods_have_ended(cluster):
    """A PodGroup with its finalizer goes when its last pod has ended."""
    await cluster.start(PodGroupProtectionController)
    groups = pod_groups_ref(cluster.environment.version)
    metadata = {"name": "g", "namespace": "ns", "finalizers": [GROUP_FINALIZER]}
    await cluster.client.create(groups, {"metadata": metadata})
    spec = {"schedulingGroup": {"podGroupName": "g"}}
    made = await cluster.client.create(PODS, {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})
    await cluster.quiet(1)
    await cluster.client.delete(groups, "g", "ns")
    await cluster.quiet(1)

    assert await is_there(cluster, groups, "g")

    await cluster.client.update(PODS, {**made, "status": {"phase": "Succeeded"}}, "status")
    await cluster.quiet(1)

    assert not await is_there(cluster, groups, "g")


async def test_ephemeral_volumes_get_claims(cluster):
    """Named after pod and volume, owned by the pod, made again when deleted."""
    await cluster.start(EphemeralVolumeController)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    owner = await cluster.client.create(PODS, pod(ephemeral={"volumeClaimTemplate": template}))
    await cluster.quiet(1)
    await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, "p-v", "ns")
    await cluster.quiet(1)
    found = await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "p-v", "ns")

    assert found["spec"] == template["spec"]
    assert found["metadata"]["labels"] == {"a": "b"}
    assert found["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]


async def test_finished_jobs_go_when_their_time_is_over(cluster):
    """Counted from the condition that ended them."""
    await cluster.start(TTLAfterFinishedController)
    spec = {"ttlSecondsAfterFinished": 60}
    made = await cluster.client.create(JOBS, {"metadata": {"name": "j", "namespace": "ns"}, "spec": spec})
    now = timestamp(cluster.environment.clock.now())
    status = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": now}]}
    await cluster.client.update(JOBS, {**made, "status": status}, "status")
    await cluster.quiet(58)
    found = await cluster.client.get(JOBS, "j", "ns")

    assert "deletionTimestamp" not in found["metadata"]

    await cluster.quiet(3)
    found = await cluster.client.get(JOBS, "j", "ns")

    assert found["metadata"]["finalizers"] == ["foregroundDeletion"]
