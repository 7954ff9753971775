"""Autoscalers of a cluster that serves no metrics."""

import pytest
from in_process_transport import real_cluster

from kubeskew.apimachinery.client.refs import DEPLOYMENTS, EVENTS, HORIZONTAL_POD_AUTOSCALERS
from kubeskew.controllers.autoscaling.controller import HorizontalController

pytestmark = pytest.mark.asyncio

WHY = (
    "failed to get cpu utilization: unable to get metrics for resource cpu: "
    "unable to fetch metrics from resource metrics API: "
    "the server could not find the requested resource (get pods.metrics.k8s.io)"
)


def autoscaler(**spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"scaleTargetRef": target, "metrics": [{"type": "Resource", "resource": cpu}], **spec},
    }


def deployment(replicas):
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


@pytest.fixture
async def cluster():
    async with real_cluster() as cluster:
        yield cluster


async def conditions(cluster, reason):
    """The autoscaler's status once a condition has that reason."""

    async def conditions_of():
        found = await cluster.client.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")
        status = found.get("status") or {}
        return (
            status
            if any(condition["reason"] == reason for condition in status.get("conditions") or ())
            else None
        )

    return await cluster.until(conditions_of)


async def events(cluster):
    [controller] = [
        controller for controller in cluster.controllers if isinstance(controller, HorizontalController)
    ]
    await controller.recorder.flush()
    items = (await cluster.client.list(EVENTS, "default"))["items"]
    ours = [value for value in items if value["involvedObject"]["kind"] == "HorizontalPodAutoscaler"]
    return {(our["type"], our["reason"], our["message"]) for our in ours}


async def test_what_is_missing_is_reported(cluster):
    """An autoscaler without metrics reports their absence as upstream does, and the current size."""
    await cluster.client.create(DEPLOYMENTS, deployment(2))
    await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(maxReplicas=3))

    status = await conditions(cluster, "FailedGetResourceMetric")

    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 0)
    assert [
        (condition["type"], condition["status"], condition["message"]) for condition in status["conditions"]
    ] == [
        ("AbleToScale", "True", "the HPA controller was able to get the target's current scale"),
        ("ScalingActive", "False", f"the HPA was unable to compute the replica count: {WHY}"),
    ]
    summary = f"failed to get cpu resource metric value: {WHY}"
    assert await events(cluster) == {
        ("Warning", "FailedGetResourceMetric", WHY),
        (
            "Warning",
            "FailedComputeMetricsReplicas",
            f"invalid metrics (1 invalid out of 1), first error is: {summary}",
        ),
    }


@pytest.mark.parametrize(
    ("before", "limits", "after", "why"),
    [
        (5, {"maxReplicas": 3}, 3, "Current number of replicas above Spec.MaxReplicas"),
        (1, {"minReplicas": 2, "maxReplicas": 3}, 2, "Current number of replicas below Spec.MinReplicas"),
    ],
)
async def test_the_limits_are_kept(cluster, before, limits, after, why):
    """An autoscaler keeps its limits without any metrics."""
    await cluster.client.create(DEPLOYMENTS, deployment(before))
    await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(**limits))

    status = await conditions(cluster, "SucceededRescale")

    assert status["desiredReplicas"] == after
    assert (await cluster.client.get(DEPLOYMENTS, "web", "default"))["spec"]["replicas"] == after
    assert ("Normal", "SuccessfulRescale", f"New size: {after}; reason: {why}") in await events(cluster)


async def test_a_target_that_is_not_there_is_reported(cluster):
    """With the words of the server."""
    await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(maxReplicas=3))

    status = await conditions(cluster, "FailedGetScale")

    why = 'deployments.apps "web" not found'
    message = f"the HPA controller was unable to get the target's current scale: {why}"
    assert [
        (condition["type"], condition["status"], condition["message"]) for condition in status["conditions"]
    ] == [("AbleToScale", "False", message)]
    assert await events(cluster) == {("Warning", "FailedGetScale", why)}
