"""The metrics server and autoscalers in a simulation: usage that annotations say, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from kubeskew.apimachinery.client.refs import (
    DEPLOYMENTS,
    EVENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    PODS,
    Ref,
)
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.simulation.pytest_plugin import MakesClusters
from kubeskew.simulation.simulated_cluster import SimulatedCluster

T = TypeVar("T")

USAGE = "kubelet.kubeskew.io/cpu-usage"
POD_METRICS = Ref("metrics.k8s.io", "v1beta1", "pods", True, "PodMetrics")
NODE_METRICS = Ref("metrics.k8s.io", "v1beta1", "nodes", False, "NodeMetrics")
API_SERVICES = Ref("apiregistration.k8s.io", "v1", "apiservices", False, "APIService")


def deployment(replicas: int, usage: str) -> dict[str, Any]:
    """A deployment whose pods request 100m of processor time and use so much."""
    container = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {USAGE: usage}},
        "spec": {"containers": [container]},
    }
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def autoscaler(**more: Any) -> dict[str, Any]:
    """An autoscaler that wants half of what pods request to be used."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    metrics = [{"type": "Resource", "resource": cpu}]
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 6, "metrics": metrics, **more}
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}


async def until(check: Callable[[], Awaitable[T]], seconds: float = 600.0) -> T:
    """Returns what `check` returns once that is true; raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while True:
            found = await check()
            if found:
                return found
            await asyncio.sleep(1)


async def replicas(cluster: SimulatedCluster) -> int:
    found: int = (await cluster.client.get(DEPLOYMENTS, "web", "default"))["spec"]["replicas"]
    return found


async def use(cluster: SimulatedCluster, usage: str) -> None:
    """Has all pods use so much from now on, and those that come."""
    body: dict[str, Any] = {"metadata": {"annotations": {USAGE: usage}}}
    for pod in (await cluster.client.list(PODS, "default"))["items"]:
        await cluster.client.patch(PODS, pod["metadata"]["name"], "default", body)


def up_and_down(cluster: SimulatedCluster) -> list[tuple[int, str]]:
    """Has an autoscaler see more usage, then less; returns when it changed the size, and to what."""
    changes: list[tuple[int, str]] = []

    async def scaled(to: int) -> bool:
        return await replicas(cluster) == to

    async def story() -> None:
        await cluster.client.create(DEPLOYMENTS, deployment(2, "90m"))
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler())
        await until(lambda: scaled(6))
        quiet = asyncio.get_running_loop().time()
        await use(cluster, "10m")
        await until(lambda: scaled(2))
        assert asyncio.get_running_loop().time() - quiet > 270  # higher recommendations count for 5 minutes
        events = (await cluster.client.list(EVENTS, "default"))["items"]
        ours = [event for event in events if event["reason"] == "SuccessfulRescale"]
        changes.extend((event["count"], event["message"]) for event in ours)

    cluster.run(story())
    return changes


def test_an_autoscaler_follows_what_pods_use(simulated_cluster: MakesClusters):
    """It adds replicas while usage is above the target, as fast as it may, and takes them away when that has
    been low for a while; the same seed gives the same log."""
    clusters = [simulated_cluster(seed=3, metricsServer=True) for _ in range(2)]
    changes = [up_and_down(cluster) for cluster in clusters]

    above = "cpu resource utilization (percentage of request) above target"
    assert changes[0] == [
        (1, f"New size: 4; reason: {above}"),
        (1, f"New size: 6; reason: {above}"),
        (1, "New size: 2; reason: All metrics below target"),
    ]
    assert clusters[0].log_hash == clusters[1].log_hash


def test_metrics_come_from_the_kubelets(simulated_cluster: MakesClusters):
    """Nodes have what their pods use, and 120m of the system's; labels and names select; what is not known is
    not found."""
    cluster = simulated_cluster(
        metricsServer=True, nodes=[{"name": "a"}, {"name": "b", "labels": {"of": "b"}}]
    )

    async def story() -> None:
        client = cluster.client
        await client.create(DEPLOYMENTS, deployment(2, "300m"))

        async def measured() -> list[dict[str, Any]]:
            found = (await client.list(POD_METRICS, "default", "app=web"))["items"]
            return found if len(found) == 2 else []

        pods = await until(measured)
        assert [pod["containers"][0]["name"] for pod in pods] == ["web", "web"]
        used = [Quantity.parse(pod["containers"][0]["usage"]["cpu"]) for pod in pods]
        assert [amount.milli_value() for amount in used] == [300, 300]
        assert all(pod["metadata"]["labels"]["app"] == "web" for pod in pods)

        await asyncio.sleep(30)  # until no pod began within the time that is measured
        nodes = {item["metadata"]["name"]: item for item in (await client.list(NODE_METRICS))["items"]}
        assert sorted(nodes) == ["a", "b"]
        assert [
            each["metadata"]["name"] for each in (await client.list(NODE_METRICS, "", "of=b"))["items"]
        ] == ["b"]
        placed = {
            pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in (await client.list(PODS))["items"]
        }
        everywhere = (await client.list(POD_METRICS))["items"]
        for name, node in nodes.items():
            used = sum(
                cores(pod["containers"][0]) for pod in everywhere if placed[pod["metadata"]["name"]] == name
            )
            assert cores(node) == pytest.approx(0.12 + used, abs=0.002)

        await client.create(PODS, pod_named("late"))
        await until(lambda: running(cluster, "late"))
        for ref, name, why in (
            (POD_METRICS, "late", 'podmetrics.metrics.k8s.io "default/late" not found'),
            (POD_METRICS, "none", 'pods "none" not found'),
            (NODE_METRICS, "c", 'node "c" not found'),
        ):
            with pytest.raises(StatusError) as raised:
                await client.get(ref, name, "default")
            assert (raised.value.code, raised.value.message) == (404, why)

    cluster.run(story())


def pod_named(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}


def cores(item: dict[str, Any]) -> float:
    """The processor time that a node or a container used."""
    return float(Quantity.parse(item["usage"]["cpu"]).decimal())


async def running(cluster: SimulatedCluster, name: str) -> bool:
    pod = await cluster.client.get(PODS, name, "default")
    return bool(pod["status"]["phase"] == "Running")


def test_metrics_go_on_with_another_server(simulated_cluster: MakesClusters):
    """With two API servers either asks the metrics server; without that the API is unavailable, which the
    autoscaler shows, until it is there again."""
    cluster = simulated_cluster(metricsServer=True, ha=2, version="1.35")

    async def story() -> None:
        client = cluster.client

        async def known() -> bool:
            return bool((await client.list(POD_METRICS))["items"])

        async def available() -> str:
            found = await client.get(API_SERVICES, "v1beta1.metrics.k8s.io")
            status: str = found["status"]["conditions"][0]["status"]
            return status

        await until(known)
        await cluster.kill("apiserver-1")
        other = APIClient.from_kubeconfig(cluster.kubeconfig, "test", context="apiserver-2")
        assert len((await other.list(NODE_METRICS))["items"]) == 1
        await other.close()
        await cluster.restart("apiserver-1")
        await cluster.upgrade("1.36")
        assert await available() == "True"
        await until(known)
        await cluster.kill("metrics-server")
        await until(lambda: _is(available, "False"))
        await client.create(DEPLOYMENTS, deployment(1, "1m"))
        await client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler())
        why = "the server is currently unable to handle the request (get pods.metrics.k8s.io)"
        active = await until(lambda: condition(cluster, "ScalingActive"))
        assert (active["reason"], active["message"].rpartition("API: ")[2]) == (
            "FailedGetResourceMetric",
            why,
        )
        await cluster.restart("metrics-server")
        await until(lambda: _is(available, "True"))
        await until(known)

    cluster.run(story())


async def _is(ask: Callable[[], Awaitable[str]], wanted: str) -> bool:
    return await ask() == wanted


async def condition(cluster: SimulatedCluster, kind: str) -> dict[str, Any]:
    found = await cluster.client.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})
