"""Disruption budgets: what they allow, and why they allow nothing; in virtual time."""

import copy

import pytest
from workloads import LABELS, events_of, pods_by_name, template, workload

from kubeskew.apimachinery.client.refs import POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.controllers.disruption import controller
from kubeskew.controllers.disruption.controller import DisruptionController
from kubeskew.controllers.replicaset.controller import ReplicaSetController

NOW = parse_timestamp("2026-01-01T00:10:00Z")


def budget(status=None, **spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "ns", "generation": 1},
        "spec": {"selector": {"matchLabels": LABELS}, **spec},
        "status": status or {},
    }


@pytest.mark.parametrize(
    ("spec", "found", "expected", "result"),
    [
        ({"minAvailable": 2}, 3, 0, (2, 3)),
        ({"minAvailable": "50%"}, 3, 5, (3, 5)),
        ({"maxUnavailable": 1}, 3, 5, (4, 5)),
        ({"maxUnavailable": "30%"}, 3, 5, (3, 5)),
        ({"maxUnavailable": 9}, 3, 5, (0, 5)),
        ({"maxUnavailable": 0}, 3, 5, (5, 5)),
    ],
)
def test_how_many_have_to_be_healthy(spec, found, expected, result):
    """Percentages round up, of what the owners ask for."""
    assert controller.desired_healthy(budget(**spec), found, expected) == result


@pytest.mark.parametrize(
    ("current", "desired", "expected", "allowed", "reason"),
    [
        (3, 2, 3, 1, "SufficientPods"),
        (2, 2, 3, 0, "InsufficientPods"),
        (1, 2, 3, 0, "InsufficientPods"),
        (0, 0, 0, 0, "InsufficientPods"),
    ],
)
def test_what_is_allowed(current, desired, expected, allowed, reason):
    """Healthy pods beyond those needed; none if there should be no pods at all."""
    status = controller.status_of(budget(), current, desired, expected, {}, NOW)

    assert status["disruptionsAllowed"] == allowed
    assert status["conditions"] == [
        {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:10:00Z",
            "reason": reason,
            "message": "",
        }
    ]


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("current", [3, 2])
def test_what_becomes_of_conditions(current, forgets):
    """The conditions of others stay; a controller with bug 122056 drops them once anything else changes."""
    before = controller.status_of(budget(), 3, 2, 3, {}, parse_timestamp("2026-01-01T00:00:00Z"))
    other = {"type": "example.com/Reviewed", "status": "True"}
    had = budget(before | {"conditions": [*before["conditions"], other]})
    status = controller.status_of(had, current, 2, 3, {}, NOW, forgets_conditions=forgets)

    if current == 3:
        assert status == had["status"]
    else:
        assert (other in status["conditions"]) is not forgets
        assert status["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:10:00Z"


def test_evicted_pods_count_again_when_they_stay():
    """For two minutes they are taken for gone."""
    pod = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    fresh = budget({"disruptedPods": {"a": "2026-01-01T00:09:00Z"}})
    old = budget({"disruptedPods": {"a": "2026-01-01T00:07:00Z"}})

    assert controller.still_disrupted(fresh, [pod], NOW) == ({"a": "2026-01-01T00:09:00Z"}, [], 60.0)
    assert controller.still_disrupted(old, [pod], NOW) == ({}, [pod], None)
    assert controller.healthy([pod], {"a": "2026-01-01T00:09:00Z"}, NOW) == 0


async def status_of(cluster):
    return (await cluster.client.get(POD_DISRUPTION_BUDGETS, "pdb", "ns"))["status"]


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_budget_follows_its_pods(cluster):
    """The owners' replicas are what there should be."""
    await cluster.start(DisruptionController, ReplicaSetController)
    cluster.run_pods()
    await cluster.client.create(REPLICA_SETS, workload(REPLICA_SETS, "rs", replicas=3))
    await cluster.client.create(POD_DISRUPTION_BUDGETS, budget(maxUnavailable=1))
    await cluster.quiet(2)
    status = await status_of(cluster)
    counts = [
        status[name] for name in ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    ]

    assert counts == [3, 3, 2, 1]

    one = copy.deepcopy(next(iter((await pods_by_name(cluster)).values())))
    one["status"]["conditions"][0]["status"] = "False"
    await cluster.client.update(PODS, one, "status")
    await cluster.quiet(2)

    assert (await status_of(cluster))["disruptionsAllowed"] == 0


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_an_owner_without_a_scale_allows_nothing(cluster):
    """Pods of a job: the sync fails, and the condition says why."""
    (controller,) = await cluster.start(DisruptionController)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    pod = {"metadata": {"name": "p", "namespace": "ns", "labels": LABELS, "ownerReferences": [owner]}}
    await cluster.client.create(PODS, {**pod, "spec": template()["spec"]})
    await cluster.client.create(POD_DISRUPTION_BUDGETS, budget(maxUnavailable=1))
    await cluster.quiet(1)
    status = await status_of(cluster)
    text = "jobs.batch does not implement the scale subresource"

    assert status["disruptionsAllowed"] == 0
    assert [
        (condition["status"], condition["reason"], condition["message"]) for condition in status["conditions"]
    ] == [("False", "SyncFailed", text)]
    assert (
        "Warning",
        "CalculateExpectedPodCountFailed",
        f"Failed to calculate the number of expected pods: {text}",
    ) in await events_of(cluster, controller)


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_pod_that_leaves_by_its_labels_is_not_noticed(cluster):
    """The status counts it until another change of a pod, or of the budget."""
    await cluster.start(DisruptionController)
    pod = {"metadata": {"name": "p", "namespace": "ns", "labels": LABELS}, "spec": template()["spec"]}
    await cluster.client.create(PODS, pod)
    await cluster.client.create(POD_DISRUPTION_BUDGETS, budget(minAvailable=1))
    await cluster.quiet(1)
    await cluster.client.patch(PODS, "p", "ns", {"metadata": {"labels": {"app": "other"}}})
    await cluster.quiet(1)
    assert (await status_of(cluster))["expectedPods"] == 1

    await cluster.client.patch(POD_DISRUPTION_BUDGETS, "pdb", "ns", {"metadata": {"labels": {"a": "b"}}})
    await cluster.quiet(1)
    assert (await status_of(cluster))["expectedPods"] == 0


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(("spec", "says"), [({"maxUnavailable": 1}, True), ({"minAvailable": 1}, False)])
async def test_pods_without_an_owner_are_reported(cluster, spec, says):
    """A budget that counts owners says so of pods that have none; one with a number needs no owners."""
    (controller,) = await cluster.start(DisruptionController)
    pod = {"metadata": {"name": "p", "namespace": "ns", "labels": LABELS}, "spec": template()["spec"]}
    await cluster.client.create(PODS, pod)
    await cluster.client.create(POD_DISRUPTION_BUDGETS, budget(**spec))
    await cluster.quiet(1)

    said = [text for _, reason, text in await events_of(cluster, controller) if reason == "UnmanagedPods"]
    text = (
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{"
    )
    text += "app: web,},MatchExpressions:[]LabelSelectorRequirement{},}"
    assert [each.partition(")")[0] for each in said] == [text] * says


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_target_that_stays_is_no_target(cluster):
    """DisruptionTarget becomes False after two minutes."""
    await cluster.start(DisruptionController)
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {}}
    made = await cluster.client.create(PODS, pod)
    target = {"type": "DisruptionTarget", "status": "True"}
    target["lastTransitionTime"] = timestamp(cluster.environment.clock.now())
    await cluster.client.update(PODS, {**made, "status": {"conditions": [target]}}, "status")
    await cluster.quiet(125)
    (found,) = (await cluster.client.get(PODS, "p", "ns"))["status"]["conditions"]

    assert found["status"] == "False"
