"""Deployments rolled over by the real loops of both controllers, in virtual time."""

import asyncio

import pytest

from kubeskew.apimachinery.client.refs import DEPLOYMENTS, EVENTS, PODS, REPLICA_SETS
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.deployment.controller import DeploymentController
from kubeskew.controllers.replicaset.controller import ReplicaSetController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

REVISION = "deployment.kubernetes.io/revision"


def deployment(replicas=3, image="img:1", **spec):
    return {
        "metadata": {"name": "web", "namespace": "ns", "labels": {"app": "web"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            **spec,
        },
    }


async def web(cluster):
    return await cluster.client.get(DEPLOYMENTS, "web", "ns")


async def change(cluster, **spec):
    return await cluster.client.patch(DEPLOYMENTS, "web", "ns", {"spec": spec})


async def set_image(cluster, image):
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    return await change(cluster, template=template)


async def complete(cluster, replicas=3):
    """The rollout is done, as `kubectl rollout status` sees it."""

    async def done():
        found = await web(cluster)
        status = found.get("status", {})
        counts = [status.get(name) for name in ("replicas", "updatedReplicas", "availableReplicas")]
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return found if current and counts == [replicas] * 3 else None

    return await cluster.until(done)


def image_of(one):
    return one["spec"]["template"]["spec"]["containers"][0]["image"]


async def sizes(cluster):
    """Replicas by image."""
    found = (await cluster.client.list(REPLICA_SETS, "ns"))["items"]
    return {
        one["spec"]["template"]["spec"]["containers"][0]["image"]: one["spec"]["replicas"] for one in found
    }


@pytest.fixture
async def rolling(cluster):
    """A cluster whose controllers run and whose pods become ready."""
    await cluster.start(DeploymentController, ReplicaSetController)
    cluster.run_pods()
    return cluster


async def test_a_new_deployment_gets_its_pods(rolling):
    """One replica set with the hash label, revision 1, and the conditions of a finished rollout."""
    await rolling.client.create(DEPLOYMENTS, deployment())
    found = await complete(rolling)
    (one,) = (await rolling.client.list(REPLICA_SETS, "ns"))["items"]
    text = one["metadata"]["labels"]["pod-template-hash"]
    pods = (await rolling.client.list(PODS, "ns"))["items"]

    assert one["metadata"]["name"] == f"web-{text}"
    assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in pods} == {text}
    assert found["metadata"]["annotations"][REVISION] == "1"
    assert one["metadata"]["annotations"] == {
        REVISION: "1",
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
    }
    assert find_condition(found, "Available")["reason"] == "MinimumReplicasAvailable"
    assert find_condition(found, "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert (
        find_condition(found, "Progressing")["message"]
        == f'ReplicaSet "web-{text}" has successfully progressed.'
    )
    assert found["status"]["terminatingReplicas"] == 0


async def test_events_show_the_scaling(rolling):
    """Deployment and replica set say what they did, in upstream's words."""
    await rolling.client.create(DEPLOYMENTS, deployment(2))
    await complete(rolling, 2)
    await rolling.quiet(1)
    events = (await rolling.client.list(EVENTS, "ns"))["items"]
    (one,) = (await rolling.client.list(REPLICA_SETS, "ns"))["items"]
    pods = (await rolling.client.list(PODS, "ns"))["items"]
    recorded = {(event["source"]["component"], event["reason"], event["message"]) for event in events}

    assert recorded == {
        (
            "deployment-controller",
            "ScalingReplicaSet",
            f"Scaled up replica set {one['metadata']['name']} from 0 to 2",
        ),
        *(
            ("replicaset-controller", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
            for pod in pods
        ),
    }


async def test_a_rolling_update_keeps_its_bounds(rolling):
    """Never fewer than replicas - maxUnavailable available, never more than replicas + maxSurge."""
    await rolling.client.create(DEPLOYMENTS, deployment())
    await complete(rolling)
    informer, totals = rolling.context.informer(REPLICA_SETS), []

    def note(*_):
        found = informer.list()
        wanted = sum(one["spec"]["replicas"] for one in found)
        totals.append((wanted, sum(one.get("status", {}).get("availableReplicas", 0) for one in found)))

    informer.add_handler(None, note)
    await set_image(rolling, "img:2")
    found = await complete(rolling)

    assert await sizes(rolling) == {"img:1": 0, "img:2": 3}
    assert max(wanted for wanted, _ in totals) == 4
    assert min(available for _, available in totals) >= 3
    assert found["metadata"]["annotations"][REVISION] == "2"


async def test_undo_makes_the_old_replica_set_the_newest_revision(rolling):
    """A template that was there before gets the next revision and remembers the former one."""
    await rolling.client.create(DEPLOYMENTS, deployment())
    await complete(rolling)
    await set_image(rolling, "img:2")
    await complete(rolling)
    await set_image(rolling, "img:1")
    await complete(rolling)
    found = (await rolling.client.list(REPLICA_SETS, "ns"))["items"]
    revisions = {image_of(one): one["metadata"]["annotations"][REVISION] for one in found}
    first = next(one for one in found if one["spec"]["replicas"] == 3)

    assert revisions == {"img:1": "3", "img:2": "2"}
    assert first["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


async def test_paused_deployments_scale_but_do_not_roll(rolling):
    """Pause and resume set their reasons; the change waits for the resume."""
    await rolling.client.create(DEPLOYMENTS, deployment())
    await complete(rolling)
    await change(rolling, paused=True)
    await set_image(rolling, "img:2")
    await change(rolling, replicas=5)
    await rolling.quiet(5)
    found = await web(rolling)

    assert await sizes(rolling) == {"img:1": 5}
    # A finished rollout's condition is replaced while paused, as upstream does.
    assert find_condition(found, "Progressing")["reason"] == "DeploymentPaused"

    await change(rolling, paused=False)
    await complete(rolling, 5)

    assert await sizes(rolling) == {"img:1": 0, "img:2": 5}


async def test_recreate_ends_the_old_pods_first(cluster):
    """With strategy Recreate no old and new pods run at the same time."""
    await cluster.start(DeploymentController, ReplicaSetController)
    cluster.run_pods()
    await cluster.client.create(DEPLOYMENTS, deployment(2, strategy={"type": "Recreate"}))
    await complete(cluster, 2)
    informer, together = cluster.context.informer(PODS), []

    def note(*_):
        together.append({pod["spec"]["containers"][0]["image"] for pod in informer.list()})

    informer.add_handler(note, note, note)
    await set_image(cluster, "img:2")
    await complete(cluster, 2)

    assert {"img:1", "img:2"} not in together
    assert together[-1] == {"img:2"}


async def test_a_rollout_that_hangs_misses_its_deadline(cluster):
    """Without ready pods the Progressing condition turns False after the deadline."""
    await cluster.start(DeploymentController, ReplicaSetController)
    cluster.run_pods(ready=False)
    await cluster.client.create(DEPLOYMENTS, deployment(1, progressDeadlineSeconds=30))
    await asyncio.sleep(20)

    assert find_condition(await web(cluster), "Progressing")["status"] == "True"

    await asyncio.sleep(15)
    found = find_condition(await web(cluster), "Progressing")

    assert (found["status"], found["reason"]) == ("False", "ProgressDeadlineExceeded")


async def test_history_is_kept_within_the_limit(rolling):
    """Old replica sets beyond revisionHistoryLimit are deleted, oldest first."""
    await rolling.client.create(DEPLOYMENTS, deployment(1, revisionHistoryLimit=1))
    await complete(rolling, 1)
    for image in ("img:2", "img:3"):
        await set_image(rolling, image)
        await complete(rolling, 1)
    await rolling.quiet(2)

    assert await sizes(rolling) == {"img:2": 0, "img:3": 1}


async def test_minimum_ready_seconds_delay_availability(rolling):
    """A ready pod counts as available only after minReadySeconds."""
    await rolling.client.create(DEPLOYMENTS, deployment(1, minReadySeconds=30))
    await asyncio.sleep(20)

    assert (await web(rolling))["status"]["readyReplicas"] == 1
    assert (await web(rolling))["status"]["availableReplicas"] == 0

    await asyncio.sleep(15)

    assert (await web(rolling))["status"]["availableReplicas"] == 1


async def test_a_deployment_adopts_replica_sets_and_they_adopt_pods(rolling):
    """Orphans with matching labels (kubectl delete --cascade=orphan) are taken over by a new deployment."""
    made = await rolling.client.create(DEPLOYMENTS, deployment(2))
    await complete(rolling, 2)
    (one,) = (await rolling.client.list(REPLICA_SETS, "ns"))["items"]
    pods = {pod["metadata"]["name"] for pod in (await rolling.client.list(PODS, "ns"))["items"]}
    await rolling.client.delete(DEPLOYMENTS, "web", "ns")
    one["metadata"].pop("ownerReferences")
    await rolling.client.update(REPLICA_SETS, one)
    again = await rolling.client.create(DEPLOYMENTS, deployment(2))
    await complete(rolling, 2)
    (adopted,) = (await rolling.client.list(REPLICA_SETS, "ns"))["items"]

    assert made["metadata"]["uid"] != again["metadata"]["uid"]
    assert [owner["uid"] for owner in adopted["metadata"]["ownerReferences"]] == [again["metadata"]["uid"]]
    assert pods == {pod["metadata"]["name"] for pod in (await rolling.client.list(PODS, "ns"))["items"]}


async def test_older_versions_speak_and_report_as_they_did(make_cluster):
    """1.31 words its scaling events the other way round and does not count terminating pods."""
    cluster = make_cluster(Version(31))
    await cluster.start(DeploymentController, ReplicaSetController)
    cluster.run_pods()
    await cluster.client.create(DEPLOYMENTS, deployment(1))
    await complete(cluster, 1)
    await change(cluster, replicas=2)
    found = await complete(cluster, 2)
    await cluster.quiet(1)
    events = (await cluster.client.list(EVENTS, "ns"))["items"]
    texts = [event["message"].split(" ", 5)[-1] for event in events if event["reason"] == "ScalingReplicaSet"]

    assert texts == ["to 1", "to 2 from 1"]
    assert "terminatingReplicas" not in found["status"]
