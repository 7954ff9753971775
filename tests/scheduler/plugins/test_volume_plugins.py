"""Pods with volumes: where they can go, and what is said of claims that are not ready."""

import asyncio

import pytest
from plugin_bench import Bench, pod
from scheduling_cluster import Cluster, running

from kubeskew.apimachinery.client.refs import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from kubeskew.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from kubeskew.scheduler.plugins.volume_binding import VolumeBinding
from kubeskew.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kubeskew.scheduler.plugins.volume_zone import VolumeZone

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
ON_A = {
    "required": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    }
}
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"


def _claim(name="c", volume="", storage_class="", annotations=None, modes=("ReadWriteOnce",), **metadata):
    spec = {"accessModes": [*modes], "resources": {"requests": {"storage": "1Gi"}}}
    spec |= {"storageClassName": storage_class} | ({"volumeName": volume} if volume else {})
    metadata = {"namespace": "default", "name": name, "uid": name, "resourceVersion": "1", **metadata}
    return {"metadata": {**metadata, "annotations": annotations or {}}, "spec": spec, "status": {}}


def _volume(name="v", storage_class="", affinity=None, labels=None, **spec):
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec}
    spec |= {"storageClassName": storage_class} | ({"nodeAffinity": affinity} if affinity else {})
    metadata = {"name": name, "labels": labels or {}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Available"}}


def _class(name="wait", provisioner="kubernetes.io/no-provisioner", **rest):
    mode = {"volumeBindingMode": "WaitForFirstConsumer"}
    return {"metadata": {"name": name}, "provisioner": provisioner, **mode, **rest}


def _bench(claims=(), volumes=(), classes=(), **objects):
    kinds = {"PersistentVolumeClaim": [*claims], "PersistentVolume": [*volumes], "StorageClass": [*classes]}
    bench = Bench(objects=kinds | objects)
    bench.node("na", zone="a")
    bench.node("nb", zone="b")
    return bench


def _user(name="p", claim="c"):
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


@pytest.mark.parametrize(
    ("claims", "volumes", "said"),
    [
        pytest.param([], [], 'persistentvolumeclaim "c" not found', id="missing"),
        pytest.param([_claim()], [], "pod has unbound immediate PersistentVolumeClaims", id="immediate"),
        pytest.param(
            [_claim(deletionTimestamp="x")], [], 'persistentvolumeclaim "c" is being deleted', id="deleted"
        ),
        pytest.param(
            [{**_claim(volume="v"), "status": {"phase": "Lost"}}],
            [],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="lost",
        ),
        pytest.param([_claim(volume="v", annotations=BOUND)], [_volume()], {"na": "", "nb": ""}, id="bound"),
        pytest.param(
            [_claim(volume="v", annotations=BOUND)],
            [_volume(affinity=ON_A)],
            {"na": "", "nb": NODE_CONFLICT},
            id="elsewhere",
        ),
        pytest.param(
            [_claim(storage_class="wait")],
            [_volume(storage_class="wait", affinity=ON_A)],
            {"na": "", "nb": BIND_CONFLICT},
            id="waiting",
        ),
        pytest.param(
            [_claim(storage_class="wait")], [], {"na": BIND_CONFLICT, "nb": BIND_CONFLICT}, id="none-free"
        ),
        pytest.param([_claim(storage_class="made")], [], {"na": "", "nb": ""}, id="provisioned"),
    ],
)
def test_volume_binding(claims, volumes, said):
    """Upstream's words for each state of a claim."""
    bench = _bench(claims, volumes, [_class(), _class("made", "example.com/csi")])

    assert bench.filtered(VolumeBinding(bench.handle, {}), _user()) == said


def test_ephemeral_claims_are_waited_for():
    """The claim of an ephemeral volume is made by a controller, and must be the pod's own."""
    bench = _bench()
    made = pod("p", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}])
    assert bench.filtered(VolumeBinding(bench.handle, {}), made) == (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"'
    )
    bench = _bench([_claim("p-v")])
    assert bench.filtered(VolumeBinding(bench.handle, {}), made) == (
        "PVC default/p-v was not created for pod default/p (pod is not owner)"
    )


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (_claim(volume="gone", annotations=BOUND), 'persistentvolume "gone" not found'),
        (_claim(), "PersistentVolumeClaim had no pv name and storageClass name"),
        (_claim(storage_class="none"), 'storageclass.storage.k8s.io "none" not found'),
        (_claim(storage_class="now"), "PersistentVolume had no name"),
        (_claim(storage_class="wait"), "Skip"),
    ],
)
def test_the_zones_of_volumes_that_are_not_there(claim, said):
    """A pod whose volume cannot be looked at is refused, unless it is bound once the pod has a node."""
    bench = _bench([claim], [], [_class(), _class("now", volumeBindingMode="Immediate")])

    assert bench.filtered(VolumeZone(bench.handle), _user()) == said


def test_volume_zones():
    """Labels of old and of today; nodes without any are not asked."""
    labels = {"failure-domain.beta.kubernetes.io/zone": "a__c"}
    bench = _bench([_claim(volume="v", annotations=BOUND)], [_volume(labels=labels)])
    bench.node("z-a", **{"topology.kubernetes.io/zone": "a"})
    bench.node("z-b", **{"topology.kubernetes.io/zone": "b"})

    said = bench.filtered(VolumeZone(bench.handle), _user())

    assert said == {"na": "", "nb": "", "z-a": "", "z-b": "node(s) had no available volume zone"}


def test_claims_for_one_pod_only():
    """ReadWriteOncePod: while another pod uses the claim, no node will do."""
    bench = _bench([_claim(modes=["ReadWriteOncePod"])])
    plugin = VolumeRestrictions(bench.handle)
    assert set(bench.filtered(plugin, _user()).values()) == {""}
    bench.running("na", "other", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])

    taken = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
    )
    taken += "by another pod"
    assert set(bench.filtered(plugin, _user()).values()) == {taken}


@pytest.mark.parametrize(("read_only", "said"), [(True, ""), (False, "node(s) had no available disk")])
def test_disks_for_one_node(read_only, said):
    """Two pods on a node share a disk only if both read."""
    bench = _bench()
    volumes = [{"name": "v", "gcePersistentDisk": {"pdName": "d", "readOnly": read_only}}]
    bench.running("na", "other", volumes=volumes)

    made = pod(volumes=volumes)
    assert bench.filtered(VolumeRestrictions(bench.handle), made) == {"na": said, "nb": ""}


def test_volume_limits():
    """A node takes as many volumes of a driver as its CSINode says; one that is there counts once."""
    volumes = [_volume(name, csi={"driver": "d", "volumeHandle": name}) for name in ("v", "w")]
    claims = [_claim("c", "v", annotations=BOUND), _claim("e", "w", annotations=BOUND)]
    drivers = [{"name": "d", "allocatable": {"count": 1}}]
    bench = _bench(claims, volumes, CSINode=[{"metadata": {"name": "na"}, "spec": {"drivers": drivers}}])
    bench.running("na", "other", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    plugin = NodeVolumeLimits(bench.handle)

    assert bench.filtered(plugin, _user(claim="c")) == {"na": "", "nb": ""}
    assert bench.filtered(plugin, _user(claim="e")) == {"na": "node(s) exceed max volume count", "nb": ""}


@pytest.mark.looptime
async def test_waiting_claim_gets_a_volume_where_the_pod_goes():
    """The scheduler promises the volume, waits for the controller to bind it, and binds the pod."""
    async with running(Cluster()) as cluster:
        await cluster.node("na", labels={"zone": "a"})
        await cluster.node("nb", labels={"zone": "b"})
        await cluster.client.create(STORAGE_CLASSES, _class())
        await cluster.client.create(PERSISTENT_VOLUMES, _volume(storage_class="wait", affinity=ON_A))
        await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, _claim(storage_class="wait"))
        await asyncio.sleep(1)
        await cluster.pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
        await asyncio.sleep(1)

        volume = await cluster.client.get(PERSISTENT_VOLUMES, "v")
        assert volume["spec"]["claimRef"]["name"] == "c"
        assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert "nodeName" not in (await cluster.read())["spec"]
        claim = await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "c", "default")
        claim["metadata"]["annotations"] = BOUND
        claim["spec"]["volumeName"] = "v"
        await cluster.client.update(PERSISTENT_VOLUME_CLAIMS, claim)

        assert await cluster.node_of() == "na"


@pytest.mark.looptime
async def test_pod_is_tried_again_when_its_claim_comes():
    """The condition says what is missing; the claim wakes the pod."""
    async with running(Cluster(DRAExtendedResource=False)) as cluster:
        await cluster.node()
        await cluster.pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
        # PreFilter of DynamicResources, which comes later, has left no state for PostFilter.
        assert (await cluster.message())[1] == (
            '0/1 nodes are available: persistentvolumeclaim "c" not found. not found'
        )
        await cluster.client.create(PERSISTENT_VOLUMES, _volume())
        await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, _claim(volume="v", annotations=BOUND))

        assert await cluster.node_of() == "n0"
