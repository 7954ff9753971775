"""Simulations in classic releases: of claims that the scheduler allocates, not of those of drivers."""

import pytest
from classic_cluster import MINORS, ClassicCluster
from drafted_cluster import DraftedCluster
from semantic_cluster import IN_TREE, SemanticCluster, card, counter, metadata, required, selected
from simulated_cluster import pending, scale_up, snapshot_of, template

from kubeskew.scheduler.autoscaling.snapshot import NodeTemplate

pytestmark = pytest.mark.looptime

REFUSED = "is allocated by the controller of its driver, which cannot be simulated"


async def semantic(*asked, shareable=False, pods=2):
    """Pods with a claim each that asks for the same, and a class of cards."""
    cluster = SemanticCluster()
    await cluster.card_class()
    await cluster.asking("w", *asked, shareable=shareable)
    for number in range(pods):
        await cluster.card_claim(f"c{number}", {**IN_TREE, "name": "w"})
        await cluster.claiming_pod(f"c{number}", name=f"p{number}")
    return cluster


async def of_cards(cluster, *cards, name="new"):
    """Returns a template whose nodes have these cards."""
    made = await template(cluster, name)
    await cluster.cards(f"template-node-for-{name}", *cards)
    return NodeTemplate(name, made.node, slices_of=f"template-node-for-{name}")


async def test_semantic_counters_decide_how_many_nodes():
    """Five claims of which two fit a card need three nodes; each fictional node has all of its own card."""
    cluster = await semantic(required("RAM", 4), pods=5)
    nodes, placed, rejected = await scale_up(cluster, await of_cards(cluster, card(ram=10)))

    assert nodes == {"new": ["new-1", "new-2", "new-3"]}
    assert [*placed.values()] == ["new-1", "new-1", "new-2", "new-2", "new-3"]
    assert not rejected


async def test_semantic_metadata_decides_which_template():
    """Only nodes with a red card help; the others are refused by the plugin."""
    cluster = await semantic(selected('labels["Color"] == "Red"'), required("RAM", 1), pods=1)
    cards = {
        color: {"id": "CardA", "attributes": [metadata(Color=color.title()), counter("RAM", 10)]}
        for color in ("blue", "red")
    }
    templates = [await of_cards(cluster, made, name=color) for color, made in cards.items()]
    nodes, placed, _ = await scale_up(cluster, *templates)

    assert nodes == {"blue": [], "red": ["red-1"]}
    assert placed == {"p0": "red-1"}


async def test_semantic_claims_are_free_once_their_pods_are_evicted():
    """A node's card serves one pod after the other, and a reverted fork gives back what it took."""
    cluster = await semantic(required("RAM", 10))
    await cluster.node()
    await cluster.cards("n0")
    async with snapshot_of(cluster) as snapshot:
        first, second = pending(cluster)
        snapshot.fork()
        assert snapshot.schedule(first, "n0").is_success
        assert not snapshot.check(second, "n0").is_success
        snapshot.revert()
        assert snapshot.schedule(second, "n0").is_success
        assert not snapshot.check(first, "n0").is_success
        snapshot.evict(second, "n0")
        assert snapshot.check(first, "n0").is_success


async def test_a_shareable_claim_counts_once():
    """Two pods with the same shareable claim go to the same node, and keep it until both are evicted."""
    cluster = SemanticCluster()
    await cluster.card_class()
    await cluster.asking("w", required("RAM", 10), shareable=True)
    await cluster.card_claims("c0", "c1")
    for node in ("n0", "n1"):
        await cluster.node(node)
        await cluster.cards(node)
    for name in ("p0", "p1"):
        await cluster.claiming_pod("c0", name=name)
    async with snapshot_of(cluster) as snapshot:
        first, second = pending(cluster)
        assert snapshot.schedule(first, "n0").is_success
        assert not snapshot.check(second, "n1").is_success
        assert snapshot.schedule(second, "n0").is_success
        snapshot.evict(first, "n0")
        assert not snapshot.check(first, "n1").is_success
        snapshot.evict(second, "n0")
        assert snapshot.check(first, "n1").is_success


async def test_named_resources_decide_how_many_nodes():
    """The structured parameters of 1.30 are simulated: three claims need two nodes of two instances."""
    cluster = ClassicCluster("1.30")
    await cluster.resource_class(structuredParameters=True)
    for number in range(3):
        await cluster.driver_claim(f"c{number}")
        await cluster.claiming_pod(f"c{number}", name=f"p{number}")
    made = await template(cluster, "new")
    await cluster.instances("template-node-for-new", "gpu-0", "gpu-1")
    nodes, placed, rejected = await scale_up(
        cluster, NodeTemplate("new", made.node, slices_of="template-node-for-new")
    )
    assert nodes == {"new": ["new-1", "new-2"]}
    assert [*placed.values()] == ["new-1", "new-1", "new-2"]
    assert not rejected


@pytest.mark.parametrize("version", MINORS)
async def test_claims_that_drivers_allocate_are_refused(version):
    """No node helps a pod whose claim waits for its driver's controller; the reason says so."""
    cluster = ClassicCluster(version)
    await cluster.resource_class()
    await cluster.driver_claim()
    await cluster.claiming_pod("c0")
    nodes, _, rejected = await scale_up(cluster, await template(cluster))

    assert nodes == {"gpu": []}
    assert REFUSED in rejected["p0"][0]


@pytest.mark.parametrize("version", MINORS)
async def test_a_claim_that_a_driver_has_allocated_keeps_its_nodes(version):
    """Its pod fits where the claim can be used, and nowhere else."""
    cluster = ClassicCluster(version)
    for node in ("n0", "n1"):
        await cluster.node(node)
    await cluster.resource_class()
    await cluster.driver_claim()
    await cluster.allocate("c0", "n1")
    await cluster.claiming_pod("c0")
    nodes, placed, _ = await scale_up(cluster, await template(cluster))

    assert (nodes, placed) == ({"gpu": []}, {"p0": "n1"})


async def test_claims_of_kep_3063_are_refused():
    """The draft's drivers allocate everything: pods wait for them, and no node would help."""
    cluster = DraftedCluster()
    body = {"metadata": {"name": "gpu"}, "driverName": "gpu.example.com"}
    await cluster.client.create(cluster.refs.device_classes, body)
    await cluster.claim()
    await cluster.claiming_pod("c0")
    _, _, rejected = await scale_up(cluster, await template(cluster))

    assert REFUSED in rejected["p0"][0]
