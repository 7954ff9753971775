"""A node's server reports metrics of its pods to Prometheus."""

import asyncio
import itertools
import re
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.kubelet.server.metrics import cadvisor_metrics, probe_metrics, resource_metrics
from kubeskew.kubelet.server.stats import NodeView, summary

pytestmark = pytest.mark.looptime

MAIN = {
    "name": "main",
    "image": "nginx",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
    "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5, "initialDelaySeconds": 10},
}
POD = {"namespace": "default", "pod": "pod-1"}


def view_of(node) -> NodeView:
    agent = node.agent
    return NodeView(
        "node-1", node.clock, agent._runtime, agent._pods.pods, agent._features, agent._started_at,
        node.config.capacity, agent._probes,
    )  # fmt: skip


def samples(text: str) -> dict:
    """(name, labels) to value; the page must be one that Prometheus reads."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float:
    """The one sample that has these labels, among others."""
    found = [
        v for (n, having), v in samples(text).items() if n == name and set(labels.items()) <= set(having)
    ]
    assert len(found) == 1, (name, labels, found)
    return found[0]


async def running(node, version="1.36"):
    await node.start(version)
    await node.create(containers=[MAIN])
    await node.until(node.running)
    return view_of(node)


async def test_what_is_used_is_that_of_the_time_shown(node, monkeypatch):
    """However long a page takes to make, its amounts are those of its one time: rates are exact."""
    view = await running(node)
    began, now = view.clock.now(), view.clock.now
    looks = itertools.count()
    monkeypatch.setattr(view.clock, "now", lambda: now() + timedelta(seconds=next(looks) ** 2))
    pages = [resource_metrics(view) for _ in range(2)]
    amounts = [value(page, "container_cpu_usage_seconds_total", container="main", **POD) for page in pages]
    shown = [re.search(r"^container_cpu_usage_seconds_total.* (\d+)$", page, re.M) for page in pages]
    seconds = [int(found[1]) / 1000 - began.timestamp() for found in shown if found]

    container = view.runtime.sandbox(view.pods()[0]["metadata"]["uid"]).running(began)[0]
    assert seconds[1] > seconds[0]
    assert amounts[1] - amounts[0] == pytest.approx(container.cores * (seconds[1] - seconds[0]), abs=1e-6)


@pytest.mark.parametrize(
    ("version", "level", "swap"),
    [("1.27", "ALPHA", False), ("1.28", "ALPHA", True), ("1.29", "STABLE", True), ("1.36", "STABLE", True)],
)
async def test_resource_metrics(node, version, level, swap):
    """Node, pod and container have processor time that grows, memory and a start, stable since 1.29; swap
    since 1.28."""
    view = await running(node, version)
    first = resource_metrics(view)
    await asyncio.sleep(100)
    text = resource_metrics(view)

    assert f"# HELP pod_memory_working_set_bytes [{level}] Current working set of the pod in bytes\n" in text
    assert "# TYPE container_cpu_usage_seconds_total counter\n" in text
    used = value(text, "container_cpu_usage_seconds_total", container="main", **POD)
    before = value(first, "container_cpu_usage_seconds_total", container="main", **POD)
    assert 100 * 0.08 <= used - before <= 100 * 0.12
    assert value(text, "pod_cpu_usage_seconds_total", **POD) == used
    assert value(text, "node_cpu_usage_seconds_total") > used
    memory = value(text, "container_memory_working_set_bytes", container="main", **POD)
    assert 0.4 * (1 << 30) <= memory <= 0.6 * (1 << 30)
    assert value(text, "node_memory_working_set_bytes") > memory
    (container,) = view.runtime.sandbox(view.pods()[0]["metadata"]["uid"]).running(view.clock.now())
    started = value(text, "container_start_time_seconds", container="main", **POD)
    assert started == container.started_at.timestamp()
    assert ("pod_swap_usage_bytes" in text) == swap
    assert ("resource_scrape_error" in text) == (level == "STABLE")


async def test_cadvisor_metrics(node):
    """Cgroups of the node, of the pod, of its sandbox and of its containers have the kubelet's labels."""
    text = cadvisor_metrics(await running(node))
    names = {"container", "id", "image", "name", "namespace", "pod"}
    by_container = {
        dict(labels)["container"]: dict(labels)
        for (name, labels) in samples(text)
        if name == "container_memory_working_set_bytes"
    }

    assert all(set(labels) == names for labels in by_container.values())
    main = by_container["main"]
    assert main["id"].startswith("/kubepods/burstable/pod")
    assert main["image"] == "docker.io/library/nginx:latest"
    assert value(text, "container_cpu_usage_seconds_total", container="main", cpu="total", **POD) >= 0
    assert value(text, "container_spec_memory_limit_bytes", container="main") == 2 << 30
    assert value(text, "container_spec_cpu_quota", container="main") == 200_000
    assert value(text, "container_network_receive_bytes_total", interface="eth0", **POD) >= 0
    assert value(text, "machine_cpu_cores") == 8
    assert value(text, "machine_memory_bytes") == 32 << 30


async def test_a_pod_that_is_gone_leaves_the_pages(node):
    """Once a pod has ended nothing reports it, but for the node."""
    view = await running(node)
    assert [pod["podRef"]["name"] for pod in summary(view)["pods"]] == ["pod-1"]
    await node.delete()
    await node.until(lambda: not view.pods())

    assert summary(view)["pods"] == []
    assert "pod-1" not in cadvisor_metrics(view) + resource_metrics(view) + probe_metrics(view)
    assert summary(view)["node"]["memory"]["workingSetBytes"] > 0


ANNOTATION = "kubelet.kubeskew.io/"


async def annotate(node, view, **annotations):
    """Changes annotations of the pod, and waits until the kubelet knows them."""
    changed = {ANNOTATION + key.replace("_", "-"): value for key, value in annotations.items()}
    body = {"metadata": {"annotations": changed}}
    await node.client.patch(PODS, "pod-1", "default", body)

    def is_known():
        known = view.pods()[0]["metadata"].get("annotations") or {}
        return changed.items() <= known.items()

    await node.until(is_known)
    await asyncio.sleep(0.1)


async def test_annotations_say_what_a_container_uses(node):
    """Both pages show what the pod's annotations have, from the moment they are changed."""
    view = await running(node)
    await asyncio.sleep(100)
    before = value(resource_metrics(view), "container_cpu_usage_seconds_total", container="main", **POD)
    await annotate(node, view, cpu_usage="1500m", memory_usage="64Mi")
    await asyncio.sleep(10)
    text, stats = resource_metrics(view), summary(view)

    used = value(text, "container_cpu_usage_seconds_total", container="main", **POD)
    assert 14.9 <= used - before <= 15.5
    assert value(text, "container_memory_working_set_bytes", container="main", **POD) == 64 << 20
    [pod] = stats["pods"]
    assert pod["cpu"]["usageNanoCores"] == 1_500_000_000
    assert pod["cpu"]["usageCoreNanoSeconds"] == int(used * 1e9)
    assert pod["memory"]["workingSetBytes"] == 64 << 20
    assert stats["node"]["memory"]["workingSetBytes"] == (64 + 420) << 20
    assert value(text, "node_cpu_usage_seconds_total") * 1e9 == pytest.approx(
        stats["node"]["cpu"]["usageCoreNanoSeconds"]
    )


async def test_wrong_annotations_are_reported(node):
    """An amount that is none, and a container that is not there, are reported by an event each, once."""
    view = await running(node)
    usual = summary(view)["pods"][0]["memory"]["workingSetBytes"]
    await annotate(node, view, memory_usage="much")
    await annotate(node, view, **{"cpu_usage.other": "1"})

    wrong = f'annotation {ANNOTATION}memory-usage: "much" is no amount such as 64Mi'
    missing = f"annotation {ANNOTATION}cpu-usage.other: the pod has no container other"

    async def unread():
        return sorted(message for reason, message in await node.events() if reason == "InvalidUsage")

    await node.until(unread)
    await asyncio.sleep(20)
    assert await unread() == sorted([missing, wrong])
    assert summary(view)["pods"][0]["memory"]["workingSetBytes"] == usual


async def test_what_a_node_has_used_never_falls(node):
    """A pod that ends takes nothing away from its node's counter."""
    view = await running(node)
    await annotate(node, view, cpu_usage="4")
    await asyncio.sleep(100)
    before = value(resource_metrics(view), "node_cpu_usage_seconds_total")
    await node.delete()
    await node.until(lambda: not view.pods())

    assert value(resource_metrics(view), "node_cpu_usage_seconds_total") >= before > 400


async def test_probe_metrics(node):
    """A probe is counted from its delay on, once per period."""
    view = await running(node)
    assert probe_metrics(view) == ""
    await asyncio.sleep(32)

    assert value(probe_metrics(view), "prober_probe_total", probe_type="Liveness", result="successful") == 5
