"""1.29+kep4381: the kubelet publishes the resources of semantic models that drivers report."""

import json

import pytest
from semantic_node import CARD, DRIVER, PREVIEW, SLICES, card, serving_node
from until import until

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.dra.classic.features import ClassicFeatures
from kubeskew.kubelet.dra.classic.node_resources import (
    NAMED_RESOURCES,
    RefusedResourcesError,
)
from kubeskew.kubelet.dra.classic.semantic_resources import SEMANTIC_RESOURCES
from kubeskew.kubelet.drivers.switches import Switches
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.protocols.messages import dra_classic_pb2 as messages
from kubeskew.kubelet.protocols.named_resources import response_of as named_response_of
from kubeskew.kubelet.protocols.semantic_resources import UnknownModelError, resources_of, response_of


@pytest.fixture
async def semantic_node():
    """A node of 1.29+kep4381 with its driver, nothing published yet."""
    async with serving_node() as node:
        yield node


@pytest.mark.asyncio
async def test_a_slice_says_what_the_driver_shows(semantic_node):
    """The card of the draft's example arrives whole, in a slice of the node and the driver."""
    semantic_node.resources.start()
    semantic_node.resources.add_plugin(DRIVER, semantic_node.plugin.channel)
    [slice_] = await semantic_node.published("CardA")

    assert slice_["metadata"]["name"].startswith(f"node-1-{DRIVER}-")
    assert [owner["kind"] for owner in slice_["metadata"]["ownerReferences"]] == ["Node"]
    assert (slice_["nodeName"], slice_["driverName"]) == ("node-1", DRIVER)
    assert slice_["resources"] == [CARD]


@pytest.mark.asyncio
async def test_a_slice_follows_the_capacity(semantic_node):
    """The slice stays the same object while its driver's capacity shrinks and grows, and goes with it."""
    semantic_node.resources.start()
    semantic_node.resources.add_plugin(DRIVER, semantic_node.plugin.channel)
    [first] = await semantic_node.published("CardA")
    semantic_node.offer(card("CardA", RAM=5))

    async def shrunk():
        [slice_] = await semantic_node.published("CardA")
        return slice_["resources"] == [card("CardA", RAM=5)] and slice_

    second = await until(shrunk)
    semantic_node.offer(card("CardA", RAM=5), card("CardB", RAM=7))
    await semantic_node.published("CardA", "CardB")
    semantic_node.resources.remove_plugin(DRIVER)
    await semantic_node.published()

    assert second["metadata"]["uid"] == first["metadata"]["uid"]


@pytest.mark.asyncio
async def test_resources_that_are_too_many_are_spread_over_slices(semantic_node):
    """Each slice is small enough for a store, and each resource stands in one of them."""
    names = [f"Card{number}-{'x' * 4000}" for number in range(300)]
    semantic_node.offers = [card(name, RAM=1) for name in names]
    semantic_node.resources.start()
    semantic_node.resources.add_plugin(DRIVER, semantic_node.plugin.channel)
    slices = await semantic_node.published(*names)

    assert len(slices) > 1
    assert all(len(json.dumps(slice_)) < 1024 * 1024 for slice_ in slices)


@pytest.mark.asyncio
async def test_a_resource_stands_in_one_slice(semantic_node):
    """A slice that is there twice, for an answer was lost, goes: it would count the resource twice."""
    for name in ("a", "b"):
        body = {"metadata": {"name": name}, "nodeName": "node-1", "driverName": DRIVER, "resources": [CARD]}
        await semantic_node.client.create(SLICES, body)
    semantic_node.resources.add_plugin(DRIVER, semantic_node.plugin.channel)
    await until(lambda: bool(semantic_node.resources._plugins[DRIVER].resources))
    semantic_node.resources.start()
    [slice_] = await semantic_node.published("CardA")

    assert slice_["metadata"]["name"] == "a"


@pytest.mark.asyncio
async def test_a_driver_of_1_29_is_asked_in_vain(semantic_node):
    """A driver whose controller allocates publishes nothing, and prepares by its own handles."""
    semantic_node.offers = None
    semantic_node.resources.start()
    semantic_node.resources.add_plugin(DRIVER, semantic_node.plugin.channel)
    await until(semantic_node.resources._plugins[DRIVER].monitoring.done)
    data = json.dumps({"EnvVars": {"user_a": "1"}, "NodeName": "node-1"})
    await semantic_node.prepare("u1", {"driverName": DRIVER, "data": data})

    assert await semantic_node.published() is True
    assert semantic_node.environment("u1") == {"user_a": "1", "claim": "true"}


@pytest.mark.asyncio
async def test_a_model_that_the_kubelet_does_not_know_withdraws_the_driver(semantic_node):
    """A slice never has a gap: all of the driver's slices go, the reason is reported, and they come back."""
    semantic_node.resources.start()
    semantic_node.resources.add_plugin(DRIVER, semantic_node.plugin.channel)
    await semantic_node.published("CardA")
    semantic_node.services.switches = Switches(newer_model=True)
    semantic_node.services.report()
    await semantic_node.published()
    [text] = semantic_node.refused
    semantic_node.services.switches = Switches()
    semantic_node.services.report()
    await semantic_node.published("CardA")

    assert text == (
        f"the resources of DRA driver {DRIVER} are not published: "
        'attribute "newer" of resource "CardA" has no semantic model that is known'
    )


def test_a_driver_of_another_release_publishes_nothing():
    """The kubelet refuses what 1.30's drivers show, and 1.30's finds nothing in what ours show."""
    named = named_response_of([{"namedResources": {"instances": [{"name": "gpu-0"}]}}])

    with pytest.raises(RefusedResourcesError, match="its resources are not in the form of this release"):
        SEMANTIC_RESOURCES.read(named)
    assert NAMED_RESOURCES.read(response_of([CARD])) == []


@pytest.mark.parametrize("on", [True, False])
def test_the_gate_decides_about_drivers_and_slices(on):
    """The preview's gate is on; without it drivers neither register nor are asked."""
    gates = FeatureGates(PREVIEW, {} if on else {"DynamicResourceAllocation": False})

    assert KubeletFeatures.of(gates).dynamic_resources is on
    assert ClassicFeatures.of(gates).resources is SEMANTIC_RESOURCES
    assert ClassicFeatures.of(FeatureGates(Version(30))).resources is NAMED_RESOURCES
    assert ClassicFeatures.of(FeatureGates(Version(29))).resources is None


def test_messages_say_what_slices_say():
    """Messages carry what a driver shows as it was written; a name alone is the ID."""
    pool = {"name": "Pool", "attributes": [{"name": "Number", "counter": {"count": 8}}]}
    response = messages.NodeListAndWatchResourcesResponse.FromString(
        response_of([CARD, pool, {"id": "bare"}]).SerializeToString()
    )

    assert resources_of(response) == [CARD, {"id": "Pool", **pool}, {"id": "bare"}]
    with pytest.raises(UnknownModelError, match='attribute "newer" of resource "CardA"'):
        resources_of(response_of([CARD], newer_model=True))
