"""The plugins' part of the cluster autoscaler: pods bound and evicted on a snapshot, never on the server."""

import pytest
from dynamic_cluster import CLAIM, one_node
from scheduling_cluster import RESOURCE, extended
from simulated_cluster import pending, snapshot_of, template

from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.pod_info import PodInfo

pytestmark = pytest.mark.looptime

VERSIONS = ["1.32", "1.33", "1.34", "1.35", "1.36", "1.37"]


async def two_pods(version="1.36", devices=1):
    """Two pods with a claim each, a node with some devices."""
    gates = {"DynamicResourceAllocation": True} if version < "1.34" else {}
    cluster = await one_node(version, devices, **gates)
    for number in range(2):
        await cluster.claim(f"c{number}")
        await cluster.pod(f"p{number}", resourceClaims=[{"name": "x", "resourceClaimName": f"c{number}"}])
    return cluster


def dynamic(cluster):
    """Returns the plugin, and a cycle state with the simulation."""
    (profile,) = cluster.service.scheduler.profiles.values()
    (plugin,) = profile.autoscaled
    state = CycleState()
    assert plugin.start_simulation(state).is_success
    return plugin, state


def fits(plugin, state, pod, node):
    """Runs PreFilter and Filter with copies of the state, as the autoscaler does."""
    attempt = state.attempt()
    result = plugin.pre_filter(attempt, pod, [node])
    if result.status.is_success:
        return plugin.filter(attempt, pod, node)
    return result.status


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_bound_pod_has_its_devices_until_it_is_evicted(version):
    """Devices of a pod are in use for PreFilter and Filter from SimulateBindPod until SimulateEvictPod."""
    cluster = await two_pods(version)
    async with snapshot_of(cluster):
        plugin, state = dynamic(cluster)
        first, second = pending(cluster)
        node = cluster.service.cache.node("n0")

        assert fits(plugin, state, first, node).is_success
        assert plugin.simulate_bind_pod(state, first, node).is_success
        assert fits(plugin, state, second, node).message == "cannot allocate all claims"
        assert plugin.simulate_evict_pod(state, first, "n0").is_success
        assert fits(plugin, state, second, node).is_success


async def test_the_live_state_knows_nothing_of_a_simulation():
    """Attempts without a simulation in their state decide from the informers, and ignore what was
    simulated."""
    cluster = await two_pods()
    async with snapshot_of(cluster):
        plugin, state = dynamic(cluster)
        first, second = pending(cluster)
        node = cluster.service.cache.node("n0")
        plugin.simulate_bind_pod(state, first, node)

        assert fits(plugin, CycleState(), second, node).is_success
    assert all(not claim.get("status") for claim in await cluster.claims())


async def test_a_snapshot_does_not_follow_the_informers():
    """Claims that come after StartSimulation are not there."""
    cluster = await one_node()
    async with snapshot_of(cluster):
        plugin, state = dynamic(cluster)
        await cluster.claim()
        pod = PodInfo(await cluster.pod(resourceClaims=CLAIM))
        node = cluster.service.cache.node("n0")

        assert fits(plugin, state, pod, node).message == 'could not find ResourceClaim "default/c0"'


async def test_a_claim_of_two_pods_is_free_when_the_last_is_evicted():
    """A shared claim keeps its devices, and its node, as long as one of its pods has it."""
    cluster = await one_node(devices=1)
    await cluster.node("n1", devices=1)
    await cluster.claim()
    for name in ("p0", "p1"):
        await cluster.pod(name, resourceClaims=CLAIM)
    async with snapshot_of(cluster):
        plugin, state = dynamic(cluster)
        first, second = pending(cluster)
        n0, n1 = cluster.service.cache.nodes()
        for pod in (first, second):
            assert plugin.simulate_bind_pod(state, pod, n0).is_success

        plugin.simulate_evict_pod(state, first, "n0")
        assert fits(plugin, state, first, n1).message == "resourceclaim not available on the node"
        plugin.simulate_evict_pod(state, second, "n0")
        assert fits(plugin, state, first, n1).is_success


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36", "1.37"])
async def test_extended_resources_are_simulated(version):
    """Pods that get devices for an extended resource take and free them, without any claim on the server."""
    cluster = await extended(version, DRAExtendedResource=True)
    for number in range(3):
        await cluster.pod(f"p{number}", requests={RESOURCE: "1"})
    async with snapshot_of(cluster) as snapshot:
        first, second, third = pending(cluster)

        assert snapshot.schedule(first, "n0").is_success
        assert snapshot.schedule(second, "n0").is_success
        assert snapshot.schedule(third, "n0").message == "cannot allocate all claims"
        snapshot.evict(first, "n0")
        assert snapshot.schedule(third, "n0").is_success
    assert await cluster.claims() == []


async def test_a_fictional_node_has_a_copy_of_its_origins_slices():
    """Nodes with the annotation are detected in Filter; each has devices of its own."""
    cluster = await two_pods(devices=0)
    made = await template(cluster, devices=1)
    async with snapshot_of(cluster) as snapshot:
        first, second = pending(cluster)
        for name in ("x1", "x2"):
            snapshot.add_node(made.fresh_node(name))

        assert snapshot.schedule(first, "x1").is_success
        assert snapshot.schedule(second, "x1").message == "cannot allocate all claims"
        assert snapshot.schedule(second, "x2").is_success


async def test_a_reverted_fork_leaves_nothing():
    """Nodes, pods, claims and slices are as they were before the fork."""
    cluster = await two_pods(devices=0)
    made = await template(cluster, devices=1)
    async with snapshot_of(cluster) as snapshot:
        first, second = pending(cluster)
        for _ in range(2):
            snapshot.fork()
            snapshot.add_node(made.fresh_node("x1"))
            assert snapshot.schedule(first, "x1").is_success
            snapshot.revert()
        assert snapshot.node("x1") is None
        assert snapshot.schedule(second, "x1").message == "there is no such node"

        snapshot.fork()
        snapshot.add_node(made.fresh_node("x1"))
        snapshot.commit()
        assert snapshot.schedule(second, "x1").is_success


async def test_a_claim_that_a_controller_allocates_cannot_be_simulated():
    """In 1.31 pods whose claims a driver's controller has yet to allocate are refused with the reason."""
    cluster = await one_node("1.31", DynamicResourceAllocation=True, DRAControlPlaneController=True)
    spec = {"controller": "driver", "devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}
    await cluster.client.create(cluster.refs.claims, {"metadata": {"name": "c0"}, "spec": spec}, "default")
    await cluster.pod(resourceClaims=CLAIM)
    async with snapshot_of(cluster) as snapshot:
        (pod,) = pending(cluster)

        assert "controller of its driver, which cannot be simulated" in snapshot.check(pod, "n0").message
