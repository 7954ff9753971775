"""The scheduler as a component: it leads, says that it is ready, and gives its lease back."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from apimachinery.client.fake import FakeServer
from apimachinery.client.refs import LEASES, NODES, PODS
from apimachinery.clock import SeededEntropy, SystemClock
from apimachinery.component import ComponentContext, ComponentOptions, Health, World
from apimachinery.gates import FeatureGates
from apimachinery.versions import Version
from scheduler.cli import main
from scheduler.configuration.settings import SchedulerSettings

pytestmark = pytest.mark.looptime


def _context(server, *, leader_elect=True):
    version = Version(36)
    gates = FeatureGates(version)
    return ComponentContext(
        name="scheduler",
        world=World(version, gates, SystemClock(), SeededEntropy(3)),
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
    assert ctx.health.failing() == ["leading and informers synced: not ready"]
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
