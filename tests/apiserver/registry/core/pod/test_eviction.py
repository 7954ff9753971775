"""Evictions: what budgets forbid, in which words, and what an eviction leaves behind."""

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.versions import Version

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"app": "web"}},
    "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
}
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def budget(name="b", **spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}, **spec},
    }


async def running(api, *, ready=True):
    """A pod that runs on a node."""
    await api.post(PODS, POD)
    condition = {"type": "Ready", "status": str(ready)}
    status = {"phase": "Running", "conditions": [condition]}
    assert (await api.patch(f"{PODS}/p/status", {"status": status})).status == 200


async def guard(api, name="b", *, allowed=0, observed=1, healthy=1, desired=1, **spec):
    """A budget with the status that the controller would have given it."""
    assert (await api.post(BUDGETS, budget(name, **spec))).status == 201
    status = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired}
    status |= {"observedGeneration": observed, "expectedPods": 1}
    assert (await api.patch(f"{BUDGETS}/{name}/status", {"status": status})).status == 200


async def evict(api, query="", **fields):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, **fields}
    return await api.post(f"{PODS}/p/eviction{query}", body)


async def status_of(api, name="b"):
    return (await api.get(f"{BUDGETS}/{name}")).body["status"]


async def test_without_a_budget_the_pod_goes(api):
    """Marked as a target of a disruption, and deleted gracefully."""
    await running(api)
    answer = await evict(api)
    pod = (await api.get(f"{PODS}/p")).body
    target = next(
        condition for condition in pod["status"]["conditions"] if condition["type"] == "DisruptionTarget"
    )

    assert (answer.status, answer.body["status"]) == (201, "Success")
    assert (target["status"], target["reason"], target["message"]) == (
        "True",
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )
    assert pod["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("status", "cause", "retry"),
    [
        ({}, "The disruption budget b needs 1 healthy pods and has 1 currently", None),
        ({"observed": 0}, "The disruption budget b is still being processed by the server.", 10),
    ],
)
async def test_a_budget_without_disruptions_refuses(api, status, cause, retry):
    """429 with the cause; a budget that nobody has looked at asks to come back."""
    await running(api)
    await guard(api, **status)
    answer = await evict(api)

    assert answer.status == 429
    assert answer.body["message"] == REFUSED
    assert answer.body["reason"] == "TooManyRequests"
    assert answer.body["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
    assert answer.body["details"].get("retryAfterSeconds") == retry
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/p")).body["metadata"]


async def test_an_eviction_uses_up_a_disruption(api):
    """The pod is noted; a dry run changes nothing."""
    await running(api)
    await guard(api, allowed=1)

    assert (await evict(api, "?dryRun=All")).status == 201
    assert (await evict(api, deleteOptions={"dryRun": ["All"]})).status == 201
    assert (await status_of(api))["disruptionsAllowed"] == 1

    assert (await evict(api)).status == 201
    status = await status_of(api)

    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]
    assert [
        (condition["type"], condition["status"], condition["reason"]) for condition in status["conditions"]
    ] == [("DisruptionAllowed", "False", "InsufficientPods")]


async def test_a_dry_run_is_refused_as_well(api):
    """A dry run of an eviction asks the budget without taking anything."""
    await running(api)
    await guard(api)

    assert (await evict(api, "?dryRun=All")).status == 429


async def test_two_budgets_are_too_many(api):
    """500, without a reason, as upstream says it."""
    await running(api)
    await guard(api, "a", allowed=1)
    await guard(api, "b", allowed=1)
    answer = await evict(api)

    assert answer.status == 500
    assert answer.body["message"] == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )
    assert "reason" not in answer.body


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"healthy": 1, "desired": 1}, 201),
        ({"healthy": 0, "desired": 1}, 429),
        ({"healthy": 0, "desired": 0}, 429),
        ({"healthy": 0, "desired": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, 201),
        ({"healthy": 0, "desired": 1, "unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 429),
    ],
)
async def test_unhealthy_pods(api, status, code):
    """Unhealthy pods may be evicted while the others suffice, or always, as the budget's policy says."""
    await running(api, ready=False)
    await guard(api, **status)

    assert (await evict(api)).status == code
    assert (await status_of(api))["disruptionsAllowed"] == 0


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_pods_that_do_not_run_need_no_budget(api, phase):
    """Nothing is disrupted."""
    await api.post(PODS, POD)
    await api.patch(f"{PODS}/p/status", {"status": {"phase": phase}})
    await guard(api)

    another = await evict(api, deleteOptions={"preconditions": {"uid": "other"}})
    assert (another.status, another.body["reason"]) == (409, "Conflict")
    assert (await evict(api)).status == 201


async def test_bad_evictions(api):
    """Another name, another state than the one meant, options that make no sense, no pod."""
    assert (await evict(api)).status == 404

    await running(api)
    other = await evict(api, metadata={"name": "q"})
    stale = await evict(api, deleteOptions={"preconditions": {"resourceVersion": "1"}})
    unsafe = {"ignoreStoreReadErrorWithClusterBreakingPotential": True}
    refused = await evict(api, deleteOptions=unsafe)

    assert (other.status, other.body["message"]) == (
        400,
        "name in URL does not match name in Eviction object",
    )
    assert stale.status == 409
    assert (refused.status, refused.body["details"]["causes"][0]["field"]) == (
        422,
        "deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential",
    )


async def test_an_empty_selector_guards_every_pod(api):
    """Of the namespace; a budget without a selector guards none."""
    await running(api)
    await guard(api, selector={})

    assert (await evict(api)).status == 429


@pytest.mark.parametrize(("version", "status"), [("1.27.6", 201), ("1.27.7", 429), ("1.28.2", 201)])
async def test_a_release_overlooks_empty_selectors(version: str, status: int):
    """A budget with an empty selector guards no pod where known bug 119732 is."""
    server = await open_server(Version.parse(version))
    try:
        api = Caller(server)
        await running(api)
        await guard(api, selector={})

        assert (await evict(api)).status == status
    finally:
        await close_server(server)


@pytest.mark.parametrize(("version", "careless"), [("1.26.3", True), ("1.26.4", False)])
async def test_a_release_marks_pods_once_too_often(version: str, careless: bool):
    """An eviction in a dry run marks the pod, and one at a revision is refused, where bug 116554 is."""
    server = await open_server(Version.parse(version))
    try:
        api = Caller(server)
        await running(api)
        assert (await evict(api, "?dryRun=All")).status == 201
        pod = (await api.get(f"{PODS}/p")).body
        marked = [each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"]
        assert bool(marked) is careless

        await api.patch(f"{PODS}/p/status", {"status": {"conditions": None}})
        pod = (await api.get(f"{PODS}/p")).body
        pinned = {"preconditions": {"resourceVersion": pod["metadata"]["resourceVersion"]}}
        assert (await evict(api, deleteOptions=pinned)).status == (409 if careless else 201)
    finally:
        await close_server(server)
