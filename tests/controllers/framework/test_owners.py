"""Owners: what controllers compare of owner references, by release, and what follows; in virtual time."""

import pytest
from workloads import template, workload

from kubeskew.apimachinery.client.refs import (
    DAEMON_SETS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from kubeskew.apimachinery.errors import GroupResource, not_found
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.daemonset.controller import DaemonSetController
from kubeskew.controllers.daemonset.features import DaemonSetFeatures
from kubeskew.controllers.framework.base import SyncError
from kubeskew.controllers.framework.owner_references import ControllerRefManager, OwnerMatch
from kubeskew.controllers.job.controller import JobController
from kubeskew.controllers.job.features import JobFeatures
from kubeskew.controllers.replicaset.controller import ReplicaSetController, ReplicationManager
from kubeskew.controllers.replicaset.features import ReplicaSetFeatures
from kubeskew.controllers.statefulset.controller import StatefulSetController
from kubeskew.controllers.statefulset.features import StatefulSetFeatures

LABELS = {"app": "web"}
LISTED, BY_UID, WHOLE = OwnerMatch.UID_IN_NAMESPACE, OwnerMatch.UID, OwnerMatch.WHOLE_REFERENCE


@pytest.mark.parametrize(
    ("release", "daemon_sets", "others"),
    [
        ("1.26", LISTED, LISTED),
        ("1.32", LISTED, LISTED),
        ("1.33.5", BY_UID, LISTED),
        ("1.33.6", WHOLE, LISTED),
        ("1.34.1", BY_UID, BY_UID),
        ("1.34.2", WHOLE, WHOLE),
        ("1.35.0", WHOLE, WHOLE),
        ("1.37", WHOLE, WHOLE),
    ],
)
def test_what_is_compared_by_release(release, daemon_sets, others):
    """Pods were listed in the namespace, then found by an index of UIDs (134654), then by one of the whole
    reference: those of daemon sets first."""
    version = Version.parse(release)
    gates = FeatureGates(version, {})
    kinds = (ReplicaSetFeatures, StatefulSetFeatures, JobFeatures)
    assert DaemonSetFeatures.of(gates).owner_match is daemon_sets
    assert {kind.of(gates).owner_match for kind in kinds} == {others}


def pod(name, uid, *, namespace="ns", kind="Foo", owner="foo", labels=LABELS):
    reference = {"apiVersion": "example.com/v1", "kind": kind, "name": owner, "uid": uid, "controller": True}
    metadata = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [reference]}
    return {"metadata": metadata, "spec": template()["spec"]}


async def left(cluster, namespace="ns"):
    """Returns the names of the pods that are not being deleted."""
    found = (await cluster.client.list(PODS, namespace))["items"]
    return sorted(one["metadata"]["name"] for one in found if not one["metadata"].get("deletionTimestamp"))


async def poke(cluster, ref, name):
    await cluster.client.patch(ref, name, "ns", {"metadata": {"annotations": {"poke": "1"}}})
    await cluster.quiet(2)


KINDS = [
    (REPLICA_SETS, ReplicaSetController),
    (REPLICATION_CONTROLLERS, ReplicationManager),
    (STATEFUL_SETS, StatefulSetController),
]


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("release", "counted", "killed"),
    [("1.32", 2, "web-9"), ("1.34.1", 3, "web-8 web-9"), ("1.34.2", 2, ""), ("1.37", 2, "")],
)
@pytest.mark.parametrize(("ref", "controller"), KINDS)
async def test_others_pods_with_the_uid(make_cluster, ref, controller, release, counted, killed):
    """A pod of another kind's owner is the owner's by its UID up to 1.33; one of another namespace by the
    first index of 1.34. Only a stateful set kills it: the others look for its name in their own namespace."""
    cluster = make_cluster(Version.parse(release))
    await cluster.start(controller)
    cluster.run_pods()
    spec = {"replicas": 2, **({"serviceName": "s"} if ref is STATEFUL_SETS else {})}
    wanted = workload(ref, "web", **spec)
    if ref is REPLICATION_CONTROLLERS:
        wanted["spec"]["selector"] = LABELS
    owner = await cluster.client.create(ref, wanted)
    await cluster.quiet(2)
    own, uid = await left(cluster), owner["metadata"]["uid"]
    await cluster.client.create(PODS, pod("web-8", uid, namespace="elsewhere"))
    await cluster.client.create(PODS, pod("web-9", uid))
    await poke(cluster, ref, "web")
    status = (await cluster.client.get(ref, "web", "ns"))["status"]
    gone = {"web-8", "web-9"} - {*await left(cluster), *await left(cluster, "elsewhere")}

    assert {*own} <= {*await left(cluster)}
    if ref is STATEFUL_SETS:
        assert gone == {*killed.split()}
    else:
        assert gone == {*killed.split()} - {"web-8"}
        assert status["replicas"] == counted


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(("release", "misplaced"), [("1.33.5", 1), ("1.33.6", 0)])
async def test_a_daemon_sets_pod_elsewhere(make_cluster, release, misplaced):
    """A pod of another namespace, on a node that is to have none, was misplaced while UIDs were enough."""
    cluster = make_cluster(Version.parse(release))
    await cluster.start(DaemonSetController)
    cluster.run_pods()
    await cluster.client.create(NODES, {"metadata": {"name": "n", "labels": {}}})
    wanted = workload(DAEMON_SETS, "web")
    wanted["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    owner = await cluster.client.create(DAEMON_SETS, wanted)
    far = pod("far", owner["metadata"]["uid"], namespace="elsewhere")
    far["spec"] = {**far["spec"], "nodeName": "n"}
    await cluster.client.create(PODS, far)
    await poke(cluster, DAEMON_SETS, "web")

    assert (await cluster.client.get(DAEMON_SETS, "web", "ns"))["status"].get(
        "numberMisscheduled", 0
    ) == misplaced
    assert await left(cluster, "elsewhere") == ["far"]


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(("release", "made"), [("1.33", 1), ("1.34.1", 0), ("1.34.2", 1)])
async def test_a_jobs_pod_elsewhere(make_cluster, release, made):
    """A pod of another namespace was the job's active one while UIDs were enough."""
    cluster = make_cluster(Version.parse(release))
    await cluster.start(JobController)
    cluster.run_pods()
    wanted = workload(JOBS, "web", parallelism=1, completions=1, suspend=True)
    owner = await cluster.client.create(JOBS, wanted)
    await cluster.client.create(PODS, pod("far", owner["metadata"]["uid"], namespace="elsewhere"))
    await cluster.client.patch(JOBS, "web", "ns", {"spec": {"suspend": False}})
    await cluster.quiet(3)

    assert len(await left(cluster)) == made
    assert await left(cluster, "elsewhere") == ["far"]


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_an_ended_pod_is_not_released(cluster):
    """A replica set gives up pods that match no more, but not those that end."""
    await cluster.start(ReplicaSetController)
    owner = await cluster.client.create(REPLICA_SETS, workload(REPLICA_SETS, "web", replicas=0))
    uid = owner["metadata"]["uid"]
    for name, phase in (("ended", "Succeeded"), ("active", "Running")):
        one = pod(name, uid, kind="ReplicaSet", owner="web", labels={"app": "other"})
        made = await cluster.client.create(PODS, one)
        await cluster.client.update(PODS, {**made, "status": {"phase": phase}}, "status")
    await poke(cluster, REPLICA_SETS, "web")
    found = (await cluster.client.list(PODS, "ns"))["items"]

    assert {one["metadata"]["name"]: len(one["metadata"].get("ownerReferences") or ()) for one in found} == {
        "active": 0,
        "ended": 1,
    }


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_stateful_set_releases_what_is_not_a_member(cluster):
    """A pod that the set controls, and whose name is none of the set's, is given up."""
    await cluster.start(StatefulSetController)
    wanted = workload(STATEFUL_SETS, "web", replicas=0, serviceName="s")
    owner = await cluster.client.create(STATEFUL_SETS, wanted)
    await cluster.client.create(PODS, pod("stray", owner["metadata"]["uid"], kind="StatefulSet", owner="web"))
    await poke(cluster, STATEFUL_SETS, "web")
    (stray,) = (await cluster.client.list(PODS, "ns"))["items"]

    assert not stray["metadata"].get("ownerReferences")


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"uid": "new"}, "original ReplicaSet ns/web is gone: got uid new, wanted old"),
        (
            {"uid": "old", "deletionTimestamp": "2020-01-02T03:04:05Z"},
            "ns/web has just been deleted at 2020-01-02 03:04:05 +0000 UTC",
        ),
        (None, 'replicasets.apps "web" not found'),
    ],
)
async def test_nothing_is_adopted_for_an_owner_that_goes(cluster, metadata, why):
    """An owner that is gone, or goes, as the server says, fails the sync; pods of other namespaces are no
    orphans of its."""

    async def fresh():
        if metadata is None:
            raise not_found(GroupResource("apps", "replicasets"), "web")
        return {"metadata": metadata}

    owner = {"metadata": {"name": "web", "namespace": "ns", "uid": "old"}}
    manager = ControllerRefManager(cluster.client, owner, REPLICA_SETS, PODS, lambda _: True, fresh)
    orphan = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
    far = {"metadata": {"name": "p", "namespace": "elsewhere", "uid": "u"}}

    assert await manager.claim([far]) == []
    with pytest.raises(SyncError) as refused:
        await manager.claim([orphan])
    assert str(refused.value) == f"can't adopt Pod ns/p (u): {why}"
