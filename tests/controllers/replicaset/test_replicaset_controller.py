"""Replica sets: how many pods, whose pods, and what they say when it does not work; in virtual time."""

import asyncio

import pytest
from loop_clock import LoopClock

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import EVENTS, PODS, REPLICA_SETS
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.framework.base import Key
from kubeskew.controllers.framework.pod_control import slow_start
from kubeskew.controllers.framework.pod_controller import (
    TIMEOUT_SECONDS,
    Expectations,
    OwnWrites,
    StaleCacheError,
)
from kubeskew.controllers.replicaset.controller import ReplicaSetController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


def replica_set(replicas=3, name="rs"):
    labels = {"app": "web"}
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}},
        },
    }


def pod(name, labels=None):
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": labels or {"app": "web"}},
        "spec": {"containers": [{"name": "c"}]},
    }


async def listed(cluster):
    return (await cluster.client.list(PODS, "ns"))["items"]


async def the_set(cluster):
    return await cluster.client.get(REPLICA_SETS, "rs", "ns")


@pytest.fixture
async def running(cluster):
    """The controller runs, and pods become ready."""
    await cluster.start(ReplicaSetController)
    cluster.run_pods()
    return cluster


async def test_pods_are_made_and_counted(running):
    """Owner, labels, generated names, and a status that adds up."""
    made = await running.client.create(REPLICA_SETS, replica_set())
    await running.quiet(1)
    found = await listed(running)
    status = (await the_set(running))["status"]

    assert len(found) == 3
    for one in found:
        assert one["metadata"]["name"].startswith("rs-")
        assert one["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "rs",
                "uid": made["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    assert status == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }


async def test_a_refused_pod_is_reported_and_not_tried_a_hundred_times(cluster):
    """FailedCreate as event and condition after one try of the first batch; all is well once it works."""
    tries = []

    def refuse(request):
        if request.method != "POST" or not request.target.endswith("/pods"):
            return None
        tries.append(request)
        return StatusError(403, "Forbidden", "exceeded quota")

    cluster.server.outage = refuse
    (controller,) = await cluster.start(ReplicaSetController)
    await cluster.client.create(REPLICA_SETS, replica_set(100))
    await asyncio.sleep(0.002)

    assert 1 <= len(tries) <= 3

    await asyncio.sleep(1)
    await controller.recorder.flush()
    failure = find_condition(await the_set(cluster), "ReplicaFailure")
    events = (await cluster.client.list(EVENTS, "ns"))["items"]

    assert (failure["status"], failure["reason"], failure["message"]) == (
        "True",
        "FailedCreate",
        "exceeded quota",
    )
    assert {(event["type"], event["reason"], event["message"]) for event in events} == {
        ("Warning", "FailedCreate", "Error creating: exceeded quota")
    }

    cluster.server.outage = None
    await asyncio.sleep(60)

    assert len(await listed(cluster)) == 100
    assert find_condition(await the_set(cluster), "ReplicaFailure") is None


async def test_a_namespace_that_goes_is_no_failure(cluster):
    """Pods that cannot be made because the namespace ends are not reported."""

    def refuse(request):
        causes = {"causes": [{"reason": "NamespaceTerminating"}]}
        creates_pod = request.method == "POST" and request.target.endswith("/pods")
        return StatusError(403, "Forbidden", "terminating", causes) if creates_pod else None

    cluster.server.outage = refuse
    await cluster.start(ReplicaSetController)
    await cluster.client.create(REPLICA_SETS, replica_set())
    await cluster.quiet(2)

    assert find_condition(await the_set(cluster), "ReplicaFailure") is None
    assert (await cluster.client.list(EVENTS, "ns"))["items"] == []


async def test_matching_orphans_are_adopted(running):
    """Adopted orphans count, so that only the rest is made."""
    await running.client.create(PODS, pod("orphan"))
    await running.client.create(PODS, pod("stranger", {"app": "other"}))
    made = await running.client.create(REPLICA_SETS, replica_set(2))
    await running.quiet(1)
    owners = {
        one["metadata"]["name"]: [owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()]
        for one in await listed(running)
    }

    assert owners["orphan"] == [made["metadata"]["uid"]]
    assert owners["stranger"] == []
    assert len(owners) == 3


async def test_a_pod_whose_labels_change_is_released_and_replaced(running):
    """A pod relabelled, as one taken out of service for a look, is released and replaced."""
    await running.client.create(REPLICA_SETS, replica_set(2))
    await running.quiet(1)
    taken = (await listed(running))[0]["metadata"]["name"]
    await running.client.patch(PODS, taken, "ns", {"metadata": {"labels": {"app": "debug"}}})
    await running.quiet(1)
    found = {pod["metadata"]["name"]: pod for pod in await listed(running)}

    assert len(found) == 3
    assert found[taken]["metadata"]["ownerReferences"] == []


async def test_scaling_down_takes_the_least_wanted(running):
    """The pod with the lowest deletion cost goes; events show it."""
    await running.client.create(REPLICA_SETS, replica_set(3))
    await running.quiet(1)
    first, second, third = (one["metadata"]["name"] for one in await listed(running))
    for name, cost in ((first, "5"), (second, "-1"), (third, "0")):
        note = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}}
        await running.client.patch(PODS, name, "ns", note)
    await running.quiet(1)
    await running.client.patch(REPLICA_SETS, "rs", "ns", {"spec": {"replicas": 2}})
    await running.quiet(1)
    events = (await running.client.list(EVENTS, "ns"))["items"]

    assert {pod["metadata"]["name"] for pod in await listed(running)} == {first, third}
    assert f"Deleted pod: {second}" in {event["message"] for event in events}


async def test_a_replica_set_that_is_deleted_makes_no_pods(cluster):
    """While it waits for a finalizer, nothing is replaced."""
    await cluster.start(ReplicaSetController)
    await cluster.client.create(REPLICA_SETS, replica_set(1))
    await cluster.quiet(1)
    await cluster.client.delete(REPLICA_SETS, "rs", "ns", propagation="Foreground")
    await cluster.client.delete_collection(PODS, "ns")
    await cluster.quiet(1)

    assert await listed(cluster) == []


@pytest.mark.parametrize(
    ("count", "failing_from", "expected", "calls"),
    [
        pytest.param(10, None, (10, 0), 10, id="all-well"),
        pytest.param(10, 0, (0, 1), 1, id="first-fails"),
        pytest.param(10, 3, (3, 4), 7, id="third-batch-fails"),
        pytest.param(0, None, (0, 0), 0, id="nothing-to-do"),
    ],
)
async def test_batches_double_until_one_fails(count, failing_from, expected, calls):
    """1, 2, 4, …: the number of successes and of failures."""
    done = []

    async def action():
        done.append(None)
        if failing_from is not None and len(done) > failing_from:
            raise RuntimeError

    successes, failures = await slow_start(count, 1, action)

    assert (successes, len(failures)) == expected
    assert len(done) == calls


async def test_expectations_hold_back_until_seen_or_too_old():
    """Creations are counted, deletions remembered by object; after five minutes nobody waits any more."""
    expectations = Expectations(LoopClock())
    expectations.expect_creations("a", 2)
    expectations.creation_seen("a")

    assert not expectations.satisfied("a")

    expectations.creation_seen("a")

    assert expectations.satisfied("a")

    expectations.expect_deletions("a", ["x"])
    expectations.deletion_seen("a", "y")

    assert not expectations.satisfied("a")

    expectations.deletion_seen("a", "x")

    assert expectations.satisfied("a")

    expectations.expect_creations("a", 1)
    await asyncio.sleep(TIMEOUT_SECONDS + 1)

    assert expectations.satisfied("a")


async def test_nobody_acts_before_it_has_seen_what_it_wrote():
    """From 1.36 on a key waits until both informers show the newest write for it; older releases do not."""
    informers = {ref: Informer(None, ref, LoopClock()) for ref in (REPLICA_SETS, PODS)}
    writes = OwnWrites(informers, enabled=True)
    key = Key("ns", "rs")
    for revision in ("8", "7"):
        writes.note(key, PODS, {"metadata": {"resourceVersion": revision}})
    with pytest.raises(StaleCacheError, match="cache of pods is at revision 0, and 8 was written"):
        writes.ensure_seen(key)
    writes.ensure_seen(Key("ns", "other"))
    writes.forget(key)
    writes.ensure_seen(key)
    writes = OwnWrites(informers, enabled=False)
    writes.note(key, PODS, {"metadata": {"resourceVersion": "8"}})
    writes.ensure_seen(key)


@pytest.mark.parametrize(("version", "pods"), [("1.35", 6), ("1.36", 3)])
async def test_pods_that_nobody_saw_are_made_again_until_1_35(make_cluster, version, pods):
    """With a watch of pods that stands still, expectations run out; only from 1.36 on that makes no more
    pods (issue 129795)."""
    cluster = make_cluster(Version.parse(version))
    (controller,) = await cluster.start(ReplicaSetController)
    await controller.pods.stop()
    await cluster.client.create(REPLICA_SETS, replica_set())
    await asyncio.sleep(TIMEOUT_SECONDS + 1)
    controller.queue.add(Key("ns", "rs"))
    await cluster.quiet(60)
    assert len(await listed(cluster)) == pods
