"""The scheduler as a component: it leads, says that it is ready, and gives its lease back."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from fake_server import FakeServer
from prometheus_client import CollectorRegistry, generate_latest

from kubeskew.apimachinery.client.leader import LeaseTiming
from kubeskew.apimachinery.client.refs import EVENTS, LEASES, NODES, PODS
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.component import ComponentContext, ComponentOptions
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.process.listeners import answer
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.cli import main
from kubeskew.scheduler.settings import LeaderElection, SchedulerSettings

pytestmark = pytest.mark.looptime


def _context(server, *, leader_elect=True):
    version = Version(36)
    gates = FeatureGates(version)
    return ComponentContext(
        name="scheduler",
        environment=Environment(version, gates, SystemClock(), SeededEntropy(3)),
        client=server.client(),
        health=Health(CollectorRegistry()),
        stop=asyncio.Event(),
        options=ComponentOptions(Path("kubeconfig"), version, gates, "127.0.0.1", 0, leader_elect, 0),
        identity="host_uid",
    )


@pytest.mark.parametrize("leader_elect", [True, False])
async def test_component_schedules_until_stopped(leader_elect):
    """Ready once it leads; after a stop the lease has no holder."""
    server = FakeServer(SystemClock(), SeededEntropy(5))
    client = server.client()
    ctx = _context(server, leader_elect=leader_elect)
    running = asyncio.create_task(main(SchedulerSettings(), ctx))
    await asyncio.sleep(0)
    assert ctx.health.failing() == ["informers: not ready", "leading: not leading"]
    await client.create(
        NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
    )
    spec = {"containers": [{"name": "c"}]}
    await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
    await asyncio.sleep(5)

    assert ctx.health.failing() == []
    assert (await client.get(PODS, "p", "default"))["spec"]["nodeName"] == "n"
    ctx.stop.set()
    await running
    leases = (await client.list(LEASES))["items"]
    assert [lease["spec"]["holderIdentity"] for lease in leases] == [""] * leader_elect
    events = [event for event in (await client.list(EVENTS))["items"] if event["reason"] == "LeaderElection"]
    assert [event["source"] for event in events] == [{"component": "default-scheduler"}] * leader_elect


async def test_metrics_of_a_rejected_pod():
    """A pod that fits nowhere is counted under the plugin that rejected it."""
    server = FakeServer(SystemClock(), SeededEntropy(5))
    client = server.client()
    ctx = _context(server, leader_elect=False)
    running = asyncio.create_task(main(SchedulerSettings(), ctx))
    await client.create(
        NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
    )
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}
    await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
    await asyncio.sleep(5)
    text = generate_latest(ctx.health.registry).decode()

    assert 'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1.0' in text
    assert 'extension_point="PostFilter",profile="default-scheduler",status="Unschedulable"' in text
    await client.delete(PODS, "p", "default")
    await asyncio.sleep(1)
    text = generate_latest(ctx.health.registry).decode()
    assert 'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 0.0' in text
    ctx.stop.set()
    await running


async def test_resource_metrics():
    """Requests and limits of every pod that is not over, in the units of Prometheus."""
    server = FakeServer(SystemClock(), SeededEntropy(5))
    client = server.client()
    ctx = _context(server, leader_elect=False)
    running = asyncio.create_task(main(SchedulerSettings(), ctx))
    resources = {"requests": {"cpu": "500m", "example.com/x": "2"}, "limits": {"memory": "1Ki"}}
    spec = {"containers": [{"name": "c", "resources": resources}], "priority": 7, "schedulerName": "s"}
    await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
    over = {"spec": {**spec, "nodeName": "n"}, "status": {"phase": "Failed"}}
    await client.create(PODS, {"metadata": {"name": "over"}, **over}, "default")
    await asyncio.sleep(1)
    text = answer(ctx.health, "/metrics/resources").body.decode()

    labels = 'namespace="default",node="",pod="p",priority="7",resource="{}",scheduler="s",unit="{}"'
    series = [line for line in text.splitlines() if not line.startswith("#")]
    assert series == [
        f"kube_pod_resource_limit{{{labels.format('memory', 'bytes')}}} 1024",
        f"kube_pod_resource_request{{{labels.format('cpu', 'cores')}}} 0.5",
        f"kube_pod_resource_request{{{labels.format('example.com/x', '')}}} 2",
    ]
    ctx.stop.set()
    await running


async def test_another_scheduler_takes_over():
    """Of two with one lease, one schedules; when it is gone without giving the lease back, the other does."""
    server = FakeServer(SystemClock(), SeededEntropy(5))
    client = server.client()
    first, second = _context(server), _context(server)
    election = LeaderElection(resource_name="mine", timing=LeaseTiming(5.0, 4.0, 1.0))
    settings = SchedulerSettings(leader_election=election)
    tasks = [
        asyncio.create_task(main(settings, replace(each, identity=name)))
        for name, each in (("first", first), ("second", second))
    ]
    await client.create(
        NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
    )
    await asyncio.sleep(3)
    assert [bool(each.health.failing()) for each in (first, second)] == [False, True]
    holder = (await client.list(LEASES))["items"][0]
    assert (holder["metadata"]["name"], holder["spec"]["holderIdentity"]) == ("mine", "first")

    tasks[0].cancel()  # no chance to give anything back
    await asyncio.gather(tasks[0], return_exceptions=True)
    await client.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}, "default")
    await asyncio.sleep(10)

    assert (await client.get(PODS, "p", "default"))["spec"]["nodeName"] == "n"
    assert second.health.failing() == []
    second.stop.set()
    await tasks[1]
