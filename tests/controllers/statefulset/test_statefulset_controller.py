"""Stateful sets: order, identity, claims, revisions; in virtual time."""

import asyncio
import copy

import fake_cluster
import pytest
from workloads import events_of, pod_names, pods_by_name, template, workload

from kubeskew.apimachinery.client.refs import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
)
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.statefulset.controller import StatefulSetController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


def stateful_set(replicas=3, **spec):
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    defaults = {"replicas": replicas, "serviceName": "svc", "updateStrategy": rolling}
    return workload(STATEFUL_SETS, "web", **{**defaults, **spec})


def with_claims(**spec):
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    return stateful_set(2, volumeClaimTemplates=[claim], **spec)


async def the_set(cluster):
    return await cluster.client.get(STATEFUL_SETS, "web", "ns")


async def change(cluster, spec):
    return await cluster.client.patch(STATEFUL_SETS, "web", "ns", {"spec": spec})


async def created(cluster, obj):
    await cluster.client.create(STATEFUL_SETS, obj)
    await cluster.quiet(2)
    return await pods_by_name(cluster)


@pytest.fixture
async def running(cluster):
    """The controller runs, and pods become ready."""
    await cluster.start(StatefulSetController)
    cluster.run_pods()
    return cluster


async def test_pods_have_identities(running):
    """Names by ordinal, labels, host name, subdomain, the revision; a status that adds up."""
    found = await created(running, stateful_set(ordinals={"start": 5}))
    (revision,) = (await running.client.list(CONTROLLER_REVISIONS, "ns"))["items"]
    name = revision["metadata"]["name"]
    one = found["web-6"]

    assert list(found) == ["web-5", "web-6", "web-7"]
    assert one["metadata"]["labels"] == {
        "app": "web",
        "apps.kubernetes.io/pod-index": "6",
        "controller-revision-hash": name,
        "statefulset.kubernetes.io/pod-name": "web-6",
    }
    assert one["metadata"]["generateName"] == "web-"
    assert (one["spec"]["hostname"], one["spec"]["subdomain"]) == ("web-6", "svc")
    assert (await the_set(running))["status"] == {
        "observedGeneration": 1,
        "replicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
        "currentRevision": name,
        "updateRevision": name,
        "collisionCount": 0,
    }


async def test_a_pod_waits_for_the_one_before(cluster):
    """OrderedReady makes one pod at a time; Parallel does not wait."""
    await cluster.start(StatefulSetController)

    assert list(await created(cluster, stateful_set())) == ["web-0"]

    await cluster.client.delete(STATEFUL_SETS, "web", "ns")
    await cluster.client.delete(PODS, "web-0", "ns")

    assert list(await created(cluster, stateful_set(podManagementPolicy="Parallel"))) == [
        "web-0",
        "web-1",
        "web-2",
    ]


async def test_scaling_down_takes_the_highest_first(running):
    """One at a time, and the events say what was done."""
    await created(running, stateful_set())
    gone = []

    async def watch():
        async for kind, pod in running.client.watch(PODS, resource_version=""):
            if kind == "DELETED":
                gone.append(pod["metadata"]["name"])

    running.tasks.append(asyncio.create_task(watch()))
    await running.quiet()
    await change(running, {"replicas": 1})
    await running.quiet(2)

    assert gone == ["web-2", "web-1"]
    assert await pod_names(running) == ["web-0"]
    assert ("Normal", "SuccessfulDelete", "Delete Pod web-2 in StatefulSet web successful") in (
        await events_of(running, running.controllers[0])
    )


@pytest.mark.parametrize(
    ("policy", "bug", "left"),
    [
        ("Parallel", True, ["web-1", "web-2"]),
        ("Parallel", False, ["web-1"]),
        ("OrderedReady", False, ["web-1", "web-2"]),
    ],
)
async def test_a_set_that_lacks_a_pod_is_scaled_down(make_cluster, policy, bug, left):
    """A parallel set deletes pods first, unless it waits for all that a quota refuses it (141057)."""
    cluster = make_cluster(bugs={"k8s-141057": bug})
    await cluster.start(StatefulSetController)
    cluster.run_pods()
    await created(cluster, stateful_set(podManagementPolicy=policy))
    cluster.server.outage = _without_room_for_pods
    await cluster.client.delete(PODS, "web-0", "ns")
    await change(cluster, {"replicas": 2})
    await cluster.quiet(2)

    assert await pod_names(cluster) == left


def _without_room_for_pods(request):
    if request.method == "POST" and request.target.partition("?")[0].endswith("/pods"):
        return StatusError(403, "Forbidden", 'pods "web-0" is forbidden: exceeded quota: pods')
    return None


async def test_an_update_rolls_down_to_the_partition(running):
    """Pods below it stay at the current revision, even when they are made again."""
    await created(running, stateful_set())
    await change(
        running,
        {
            "template": template("img:2"),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
        },
    )
    await running.quiet(3)
    await running.client.delete(PODS, "web-0", "ns")
    await running.quiet(3)
    images = {
        name: pod["spec"]["containers"][0]["image"] for name, pod in (await pods_by_name(running)).items()
    }
    status = (await the_set(running))["status"]

    assert images == {"web-0": "img:1", "web-1": "img:2", "web-2": "img:2"}
    assert (status["currentReplicas"], status["updatedReplicas"]) == (1, 2)
    assert status["currentRevision"] != status["updateRevision"]

    await change(running, {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}})
    await running.quiet(3)
    status = (await the_set(running))["status"]

    assert status["currentRevision"] == status["updateRevision"]
    assert status["currentReplicas"] == 3


async def test_a_bad_update_stops_and_on_delete_waits(cluster):
    """A pod that does not become ready stops the rollout; OnDelete never begins one."""
    await cluster.start(StatefulSetController)
    cluster.run_pods()
    await created(cluster, stateful_set(updateStrategy={"type": "OnDelete"}))
    await change(cluster, {"template": template("img:2")})
    await cluster.quiet(2)

    assert (await the_set(cluster))["status"]["updatedReplicas"] == 0

    await cluster.client.delete(PODS, "web-1", "ns")
    await cluster.quiet(2)

    assert (await the_set(cluster))["status"]["updatedReplicas"] == 1


async def test_several_pods_may_be_replaced_at_once(make_cluster):
    """maxUnavailable acts with its gate."""
    cluster = make_cluster(Version(36), {"MaxUnavailableStatefulSet": True})
    await cluster.start(StatefulSetController)
    cluster.run_pods()
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}}
    await created(cluster, stateful_set(4, updateStrategy=rolling, podManagementPolicy="Parallel"))
    gone = []

    async def watch():
        async for kind, pod in cluster.client.watch(PODS, resource_version=""):
            gone.append((kind, pod["metadata"]["name"]))

    cluster.tasks.append(asyncio.create_task(watch()))
    await cluster.quiet()
    await change(cluster, {"template": template("img:2")})
    await cluster.quiet(3)

    assert [one for one in gone if one[0] == "DELETED"][:2] == [("DELETED", "web-3"), ("DELETED", "web-2")]
    assert gone[:2] == [("DELETED", "web-3"), ("DELETED", "web-2")]
    assert (await the_set(cluster))["status"]["updatedReplicas"] == 4


@pytest.mark.parametrize(("bug", "replaced"), [(True, []), (False, ["web-3", "web-1"])])
async def test_old_pods_that_are_not_available_are_replaced_first(make_cluster, bug, replaced):
    """With 137666 a parallel set counts them against maxUnavailable; without it they go at once."""
    cluster = make_cluster(Version(36), {"MaxUnavailableStatefulSet": True}, {"k8s-137666": bug})
    await cluster.start(StatefulSetController)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": 1}}
    pods = await created(cluster, stateful_set(4, updateStrategy=rolling, podManagementPolicy="Parallel"))
    for name in ("web-0", "web-2"):
        ready = fake_cluster.running(True, cluster.environment.clock.now())
        await cluster.client.update(PODS, {**pods[name], "status": ready}, "status")
    await cluster.quiet(2)
    gone = []

    async def watch():
        async for kind, pod in cluster.client.watch(PODS, resource_version=""):
            if kind == "DELETED":
                gone.append(pod["metadata"]["name"])

    cluster.tasks.append(asyncio.create_task(watch()))
    await cluster.quiet()
    await change(cluster, {"template": template("img:2")})
    await cluster.quiet(2)

    assert gone == replaced


@pytest.mark.parametrize(("version", "renews"), [("1.36", False), ("1.37", True)])
async def test_pods_replaced_by_hand_make_the_new_revision_the_current_one(make_cluster, version, renews):
    """OnDelete leaves the old revision as the current one with 136833."""
    cluster = make_cluster(Version.parse(version))
    await cluster.start(StatefulSetController)
    cluster.run_pods()
    await created(cluster, stateful_set(1, updateStrategy={"type": "OnDelete"}))
    await change(cluster, {"template": template("img:2")})
    await cluster.quiet(2)
    await cluster.client.delete(PODS, "web-0", "ns")
    await cluster.quiet(3)
    status = (await the_set(cluster))["status"]

    assert status["updatedReplicas"] == 1
    assert (status["currentRevision"] == status["updateRevision"]) is renews


@pytest.mark.parametrize(
    ("bug", "limit", "before", "panics"),
    [
        (True, -1, 0, "runtime error: slice bounds out of range [:1] with capacity 0"),
        (True, -2, 1, "runtime error: slice bounds out of range [:2] with capacity 1"),
        (True, -1, 1, "runtime error: invalid memory address or nil pointer dereference"),
        (False, -1, 1, None),
    ],
)
async def test_a_negative_limit_keeps_all_revisions(make_cluster, bug, limit, before, panics):
    """The controller with 129301 panics in Go's words, which say how many revisions there had been."""
    cluster = make_cluster(Version(32), {}, {"k8s-129301": bug})
    (controller,) = await cluster.start(StatefulSetController)
    ended = []
    controller._panic = ended.append
    cluster.run_pods()
    await created(cluster, stateful_set(1, revisionHistoryLimit=limit if not before else 5))
    if before:
        await change(cluster, {"revisionHistoryLimit": limit})
        await cluster.quiet(2)

    assert [str(one) for one in ended[:1]] == ([panics] if panics else [])
    assert len((await cluster.client.list(CONTROLLER_REVISIONS, "ns"))["items"]) == 1


async def test_history_is_kept_to_the_limit_and_found_again(running):
    """Going back to an old template takes its revision again, with a new number."""
    await created(running, stateful_set(1, revisionHistoryLimit=1))
    for image in ("img:2", "img:3", "img:2"):
        await change(running, {"template": template(image)})
        await running.quiet(2)
    items = (await running.client.list(CONTROLLER_REVISIONS, "ns"))["items"]
    found = {
        item["data"]["spec"]["template"]["spec"]["containers"][0]["image"]: item["revision"] for item in items
    }

    assert found == {"img:3": 3, "img:2": 4}


@pytest.mark.parametrize(("version", "begins"), [("1.34", "create"), ("1.35", "Create")])
async def test_how_events_begin(make_cluster, version, begins):
    """From 1.35 the messages of events begin with a capital letter."""
    cluster = make_cluster(Version.parse(version))
    await cluster.start(StatefulSetController)
    await created(cluster, with_claims())

    said = {message for _, _, message in await events_of(cluster, cluster.controllers[0])}
    assert f"{begins} Claim data-web-0 Pod web-0 in StatefulSet web success" in said
    assert f"{begins} Pod web-0 in StatefulSet web successful" in said


async def test_claims_are_made_and_kept(running):
    """One per pod and template; the set's selector labels them; scaling down keeps them."""
    found = await created(running, with_claims())
    await change(running, {"replicas": 0})
    await running.quiet(2)
    claims = (await running.client.list(PERSISTENT_VOLUME_CLAIMS, "ns"))["items"]

    assert found["web-1"]["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}
    ]
    assert [claim["metadata"]["name"] for claim in claims] == ["data-web-0", "data-web-1"]
    assert claims[0]["metadata"]["labels"] == {"app": "web"}
    assert "ownerReferences" not in claims[0]["metadata"]
    assert ("Normal", "SuccessfulCreate", "Create Claim data-web-0 Pod web-0 in StatefulSet web success") in (
        await events_of(running, running.controllers[0])
    )


@pytest.mark.parametrize(("minor", "waits"), [(35, False), (36, True)])
async def test_a_set_waits_for_the_claims_that_it_wrote(make_cluster, minor, waits):
    """From 1.36 on a set is not looked at before the informer of claims has seen those made for it."""
    cluster = make_cluster(Version(minor))
    await cluster.start(StatefulSetController)
    cluster.run_pods()
    await cluster.context.informer(PERSISTENT_VOLUME_CLAIMS).stop()
    found = await created(cluster, with_claims())

    assert (len(found) < 2) == waits


async def test_retention_makes_owners(running):
    """whenDeleted: the set owns the claims; whenScaled: the pod that goes does."""
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    found = await created(running, with_claims(persistentVolumeClaimRetentionPolicy=policy))
    claim = await running.client.get(PERSISTENT_VOLUME_CLAIMS, "data-web-1", "ns")

    assert [reference["kind"] for reference in claim["metadata"]["ownerReferences"]] == ["StatefulSet"]

    await change(running, {"replicas": 1})
    await running.quiet(2)
    claim = await running.client.get(PERSISTENT_VOLUME_CLAIMS, "data-web-1", "ns")

    assert [reference["uid"] for reference in claim["metadata"]["ownerReferences"]] == [
        found["web-1"]["metadata"]["uid"]
    ]

    # The claim's owner is gone: a new pod of that name waits until the claim is collected.
    await change(running, {"replicas": 2})
    await running.quiet(2)

    assert await pod_names(running) == ["web-0"]

    await running.client.delete(PERSISTENT_VOLUME_CLAIMS, "data-web-1", "ns")
    await running.client.delete(PODS, "web-0", "ns")
    await running.quiet(3)

    assert await pod_names(running) == ["web-0", "web-1"]


@pytest.mark.parametrize(("minor", "recreates"), [(27, True), (28, False)])
async def test_a_failed_pod_is_made_again(make_cluster, minor, recreates):
    """A failed pod is deleted, up to 1.27 with an event, and comes back under its name."""
    cluster = make_cluster(Version(minor))
    await cluster.start(StatefulSetController)
    cluster.run_pods()
    found = await created(cluster, stateful_set(1))
    failed = copy.deepcopy(found["web-0"])
    failed["status"]["phase"] = "Failed"
    await cluster.client.update(PODS, failed, "status")
    await cluster.quiet(2)
    again = (await pods_by_name(cluster))["web-0"]
    events = await events_of(cluster, cluster.controllers[0])

    assert again["metadata"]["uid"] != failed["metadata"]["uid"]
    assert (
        ("Warning", "RecreatingFailedPod", "StatefulSet ns/web is recreating failed Pod web-0") in events
    ) == recreates


async def test_orphans_of_its_name_are_adopted_and_corrected(running):
    """An orphan whose name is not of the set stays alone; a taken label comes back."""
    labels = {"app": "web"}
    for name in ("web-0", "other"):
        pod = {"metadata": {"name": name, "namespace": "ns", "labels": labels}, "spec": {"containers": []}}
        await running.client.create(PODS, pod)
    found = await created(running, stateful_set(1))

    assert found["web-0"]["metadata"]["ownerReferences"][0]["name"] == "web"
    assert found["web-0"]["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-0"
    assert "ownerReferences" not in found["other"]["metadata"]
