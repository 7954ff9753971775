"""Semantic parameters while something goes wrong or changes between decision and write."""

import asyncio
import contextlib

import pytest
from prometheus_client import CollectorRegistry
from scheduling_cluster import running
from semantic_cluster import (
    CARDS,
    FINALIZER,
    VENDORS,
    card,
    cluster_of,
    required,
)

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.scheduler.scheduler import SchedulerService

pytestmark = pytest.mark.looptime

CLAIM, STATUS = "/resourceclaims/c0", "/resourceclaims/c0/status"


class Gate:
    """Holds the scheduler's writes to one path until it is opened."""

    def __init__(self, cluster, path=STATUS, method="PUT"):
        self._opened, self._reached = asyncio.Event(), asyncio.Event()
        self._send = cluster.connection._transport
        self._what = method, path
        cluster.connection._transport = self

    async def __call__(self, request):
        if request.method == self._what[0] and request.target.partition("?")[0].endswith(self._what[1]):
            self._reached.set()
            await self._opened.wait()
        return await self._send(request)

    async def reached(self):
        """Waits until a write is held: the decision is made, and nothing of it is stored."""
        await asyncio.wait_for(self._reached.wait(), 60)

    def open(self):
        self._opened.set()


@contextlib.asynccontextmanager
async def dying(cluster, gate):
    """Runs a scheduler that is killed at the end: from then on it reaches the server no more."""
    async with running(cluster):
        yield
        cluster.server.outage = lambda _: ConnectionError()
        gate.open()
    cluster.server.outage = None


@contextlib.asynccontextmanager
async def another(cluster):
    """Runs a second scheduler, as after the end of the first."""
    cluster.connection, cluster.registry = cluster.server.client(), CollectorRegistry()
    cluster.service = SchedulerService(cluster.environment, cluster.connection, cluster.registry)
    async with running(cluster):
        yield cluster


async def vendors_cluster():
    """Returns a cluster with a claim for 6 of a card's memory, as a vendor's object says."""
    cluster = await cluster_of()
    await cluster.define()
    vendors = await cluster.card_parameters(requirements={"RAM": 6})
    await cluster.translated(vendors, "generated", required("RAM", 6))
    await cluster.card_claim("c0", {**VENDORS, "name": "my-parameters"})
    return cluster, vendors


async def test_the_decision_is_what_is_written():
    """Amount and snapshot are those of the decision, though the vendor's object has another generation."""
    cluster, vendors = await vendors_cluster()
    gate = Gate(cluster)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await gate.reached()
        newer = await cluster.client.update(CARDS, {**vendors, "spec": {"requirements": {"RAM": 7}}})
        generated = await cluster.client.get(cluster.parameters_ref, "generated", "default")
        origin = {**generated["generatedFrom"], "generation": newer["metadata"]["generation"]}
        changed = {**generated, "generatedFrom": origin, "parameters": [required("RAM", 7)]}
        await cluster.client.update(cluster.parameters_ref, changed)
        await asyncio.sleep(1)
        gate.open()
        await cluster.node_of()

    assert await cluster.taken() == [("CardA", "RAM", 6)]
    snapshot = (await cluster.handle())["claimParameters"]
    assert snapshot["metadata"]["generation"] == 1
    assert snapshot["spec"] == {"requirements": {"RAM": 6}}


async def test_an_attempt_after_a_change_decides_again():
    """The write that failed is forgotten, with its parameters."""
    cluster, vendors = await vendors_cluster()
    async with running(cluster):
        cluster.fail("PUT", STATUS)
        await cluster.claiming_pod("c0")
        assert "out of order" in (await cluster.message())[1]
        newer = await cluster.client.update(CARDS, {**vendors, "spec": {"requirements": {"RAM": 7}}})
        await cluster.translated(newer, "newer", required("RAM", 7))
        await cluster.node_of()

    assert await cluster.taken() == [("CardA", "RAM", 7)]


async def test_a_claim_stays_usable_when_all_that_led_to_it_is_gone():
    """Another pod shares it without parameters, class, definition and slices."""
    cluster = await cluster_of("n0", "n1")
    await cluster.asking("w", required("RAM", 6), shareable=True)
    await cluster.card_claims("c0")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        node = await cluster.node_of()
        await cluster.client.delete(cluster.parameters_ref, "w", "default")
        await cluster.client.delete(cluster.refs.device_classes, "cards")
        for name in ("n0", "n1"):
            await cluster.client.delete(cluster.refs.slices, f"{name}-cards.dra.example.com")
        await asyncio.sleep(1)
        await cluster.claiming_pod("c0", name="p1")

        assert await cluster.node_of("p1") == node
    assert (await cluster.handle())["claimParameters"]["metadata"]["name"] == "w"


async def test_capacity_that_shrinks_leaves_allocations_alone():
    """More is taken than there is: nothing more fits, until enough has come back."""
    cluster = await cluster_of()
    await cluster.asking("w", required("RAM", 6))
    await cluster.asking("little", required("RAM", 1))
    await cluster.card_claims("c0")
    await cluster.card_claims("c1", parameters="little")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.node_of()
        await cluster.publish("n0", card(ram=3))
        await cluster.claiming_pod("c1", name="p1")
        assert "unsuitable" in (await cluster.message("p1"))[1]
        await cluster.publish("n0", card(ram=6))
        await asyncio.sleep(30)
        assert not (await cluster.read("p1"))["spec"].get("nodeName")

        await cluster.publish("n0", card(ram=7))
        await cluster.node_of("p1")
    assert await cluster.taken() == [("CardA", "RAM", 6)]


async def test_capacity_that_shrinks_before_the_write_is_overdrawn():
    """The decision stands, as the draft foresees, and counts: the driver sees to the rest."""
    cluster = await cluster_of()
    await cluster.asking("w", required("RAM", 6))
    await cluster.card_claims("c0", "c1")
    gate = Gate(cluster)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await gate.reached()
        await cluster.publish("n0", card(ram=1))
        gate.open()
        await cluster.node_of()
        await cluster.publish("n0", card(ram=10))
        await cluster.claiming_pod("c1", name="p1")

        assert "unsuitable" in (await cluster.message("p1"))[1]
    assert await cluster.taken() == [("CardA", "RAM", 6)]


@pytest.mark.parametrize("path", [CLAIM, STATUS])
async def test_a_scheduler_that_ends_before_its_write_has_decided_nothing(path):
    """The next one decides again; a finalizer that is there already does no harm."""
    cluster = await cluster_of()
    await cluster.asking("w", required("RAM", 6))
    await cluster.card_claims("c0")
    gate = Gate(cluster, path)
    async with dying(cluster, gate):
        await cluster.claiming_pod("c0")
        await gate.reached()
    left = (await cluster.claim_named())["metadata"].get("finalizers")
    assert left == ([FINALIZER] if path == STATUS else None)
    assert await cluster.handle() is None

    await cluster.publish("n0", card("CardB"))
    async with another(cluster):
        await cluster.node_of()
    assert await cluster.taken() == [("CardB", "RAM", 6)]
    assert (await cluster.claim_named())["metadata"]["finalizers"] == [FINALIZER]


async def test_a_scheduler_that_ends_after_its_write_is_followed_by_one_that_goes_on():
    """The pod goes to the node of its allocation, though another would suit as well."""
    cluster = await cluster_of("n0", "n1")
    await cluster.asking("w", required("RAM", 6))
    await cluster.card_claims("c0")
    gate = Gate(cluster, "/pods/p0/binding", "POST")
    async with dying(cluster, gate):
        await cluster.claiming_pod("c0")
        await gate.reached()
    before = await cluster.claim_named()
    async with another(cluster):
        assert await cluster.node_of() == (await cluster.handle())["nodeName"]
    assert (await cluster.claim_named())["status"] == before["status"]


async def test_what_is_given_up_goes_to_those_who_wait():
    """A pod that was refused for the sake of a decision is tried when its write has failed."""
    cluster = await cluster_of()
    await cluster.asking("w", required("RAM", 10))
    await cluster.card_claims("c0", "c1")
    gate = Gate(cluster)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await gate.reached()
        await cluster.claiming_pod("c1", name="p1")
        assert "unsuitable" in (await cluster.message("p1"))[1]
        cluster.fail("PUT", STATUS, times=100)
        await cluster.client.delete(PODS, "p0", "default")
        gate.open()
        before = asyncio.get_running_loop().time()
        await cluster.node_of("p1")

        assert asyncio.get_running_loop().time() - before < 60
    assert await cluster.taken("c1") == [("CardA", "RAM", 10)]


async def test_two_pods_want_one_claim_at_once():
    """The second is informed that its claim is being allocated, and then shares it."""
    cluster = await cluster_of("n0", "n1")
    await cluster.asking("w", required("RAM", 6), shareable=True)
    await cluster.card_claims("c0")
    gate = Gate(cluster)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await gate.reached()
        await cluster.claiming_pod("c0", name="p1")
        assert (await cluster.message("p1"))[1].startswith(
            "0/2 nodes are available: resource claim default/c0 is in the process of being allocated."
        )
        gate.open()

        assert await cluster.node_of("p1") == await cluster.node_of()


async def test_an_allocation_by_somebody_else_is_not_overwritten():
    """The write of a decision fails if the claim is allocated meanwhile; the pod uses that allocation."""
    cluster = await cluster_of("n0", "n1")
    await cluster.asking("w", required("RAM", 6))
    await cluster.card_claims("c0")
    gate = Gate(cluster)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await gate.reached()
        handles = [
            {"driverName": "cards.dra.example.com", "semanticData": {"nodeName": "n1", "resourceID": "x"}}
        ]
        await cluster.set_claim_status("c0", allocation={"resourceHandles": handles})
        gate.open()
        assert "got allocated elsewhere in the meantime" in (await cluster.message())[1]
        await cluster.node_of()
    assert (await cluster.handle())["resourceID"] == "x"
