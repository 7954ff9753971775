"""The scheduler of 1.29+kep4381 allocates claims by semantic parameters, without talking to drivers."""

import asyncio

import pytest
from classic_cluster import on
from scheduling_cluster import running
from semantic_cluster import (
    DRIVER,
    FINALIZER,
    IN_TREE,
    SemanticCluster,
    card,
    cluster_of,
    counter,
    metadata,
    required,
    selected,
)

pytestmark = pytest.mark.looptime

UNSUITABLE = "1 resourceclaim cannot be allocated for the node (unsuitable)"


def reasons(message):
    return message[1].removeprefix("0/1 nodes are available: ")


@pytest.mark.parametrize("mode", ["WaitForFirstConsumer", "Immediate"])
async def test_the_first_pod_has_its_claim_allocated_in_any_mode(mode):
    """Finalizer, allocation, driver and reservation are written before the binding; no context is made."""
    cluster = await cluster_of("n0", "n1")
    await cluster.publish("n0", card(ram=1))
    parameters = await cluster.asking("w", selected(), required("RAM", 6), required("ComputeUnits", 2))
    await cluster.card_claim("c0", {**IN_TREE, "name": "w"}, mode=mode)
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert await cluster.node_of() == "n1"
        assert not await cluster.has_context()
    claim = await cluster.claim_named()
    snapshot = {**parameters, "apiVersion": "resource.k8s.io/v1alpha2", "kind": "ResourceClaimParameters"}
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["status"]["driverName"] == DRIVER
    assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p0"]
    assert claim["status"]["allocation"] == {
        "availableOnNodes": on("n1"),
        "resourceHandles": [
            {
                "driverName": DRIVER,
                "semanticData": {
                    "nodeName": "n1",
                    "resourceID": "CardA",
                    "claimParameters": snapshot,
                    "allocations": [
                        {"counter": {"resourceID": "CardA", "name": "RAM", "count": 6}},
                        {"counter": {"resourceID": "CardA", "name": "ComputeUnits", "count": 2}},
                    ],
                },
            }
        ],
    }


async def test_what_claims_have_is_not_given_twice():
    """The rest fits others; a pod for which too little is left waits until a claim is deallocated."""
    cluster = await cluster_of()
    await cluster.asking("w", required("RAM", 4))
    await cluster.card_claims("c0", "c1", "c2")
    async with running(cluster):
        for number in range(3):
            await cluster.claiming_pod(f"c{number}", name=f"p{number}")
        await cluster.node_of("p0")
        await cluster.node_of("p1")

        assert reasons(await cluster.message("p2")).startswith(UNSUITABLE)
        await cluster.free("c0")
        await cluster.node_of("p2")
    assert await cluster.taken("c2") == [("CardA", "RAM", 4)]


async def test_all_parameters_are_satisfied_by_one_resource():
    """A card with the memory and another with the units are not enough."""
    cluster = SemanticCluster()
    await cluster.node()
    await cluster.card_class()
    await cluster.cards("n0", card("Small", ram=1, units=9), card("Dull", ram=9, units=1))
    await cluster.asking("w", required("RAM", 2), required("ComputeUnits", 2))
    await cluster.card_claims("c0")
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert reasons(await cluster.message()).startswith(UNSUITABLE)
        await cluster.publish("n0", card("Small", ram=1), card("Whole", ram=2, units=2))
        await cluster.node_of()
    assert await cluster.taken() == [("Whole", "RAM", 2), ("Whole", "ComputeUnits", 2)]


async def test_claims_of_one_pod_share_what_there_is():
    """A scarce resource goes to the claim that needs it, and no part is given to both."""
    cluster = SemanticCluster()
    await cluster.node()
    await cluster.card_class()
    await cluster.cards("n0", card("Big", ram=9), card("Small", ram=2))
    await cluster.asking("any", required("RAM", 2))
    await cluster.asking("much", required("RAM", 8))
    await cluster.card_claims("c0", "c2", parameters="any")
    await cluster.card_claims("c1", parameters="much")
    async with running(cluster):
        await cluster.claiming_pod("c0", "c1", "c2", name="p1")

        assert reasons(await cluster.message("p1")).startswith(UNSUITABLE)
        await cluster.claiming_pod("c0", "c1")
        await cluster.node_of()
    assert await cluster.taken("c0") == [("Small", "RAM", 2)]
    assert await cluster.taken("c1") == [("Big", "RAM", 8)]


@pytest.mark.parametrize(
    ("resource", "parameter", "reason"),
    [
        (
            {"id": "CardA", "attributes": [metadata(name="RAM")]},
            required("RAM", 1),
            (
                'parameter "RAM" is of semantic model counter, attribute "RAM" of resource "CardA" of driver '
                f"{DRIVER} is of metadata"
            ),
        ),
        (
            {"id": "CardA", "attributes": [{"name": "RAM", "mesh": {}}]},
            required("RAM", 1),
            (
                f'NodeResourceSlice n0-{DRIVER}: attribute "RAM" of resource "CardA" is of an unknown '
                "semantic model"
            ),
        ),
        (
            card(),
            selected('versions["ABI"] >= "1.0.0"'),
            'parameter "meta" at resource "CardA": evaluate selector: no such key: ABI',
        ),
    ],
)
async def test_what_cannot_be_compared_is_reported(resource, parameter, reason):
    """The node's reason names both sides, the slice, or what the selector did not find."""
    cluster = SemanticCluster()
    await cluster.node()
    await cluster.card_class()
    await cluster.cards("n0", resource)
    await cluster.asking("w", parameter)
    await cluster.card_claims("c0")
    async with running(cluster):
        await cluster.claiming_pod("c0")

        message = reasons(await cluster.message())
        assert message.startswith(f"1 checking semantic parameters failed: {reason}."), message
        await cluster.publish("n0", card())
        if parameter == required("RAM", 1):
            await cluster.node_of()


@pytest.mark.parametrize(
    ("parameter", "reason"),
    [
        ({"name": "x", "mesh": {}}, 'parameter "x" is of an unknown semantic model'),
        (
            {"name": "x", "counter": {"required": 1}, "metadata": {"selector": "true"}},
            'parameter "x" is of several semantic models: counter, metadata',
        ),
        (selected("1", name="x"), 'parameter "x": compile selector: must evaluate to bool'),
    ],
)
async def test_parameters_that_cannot_be_understood_are_refused_as_a_whole(parameter, reason):
    """The pod waits with the reason, and is tried again when they change."""
    cluster = await cluster_of()
    written = await cluster.asking("w", required("RAM", 1), parameter)
    await cluster.card_claims("c0")
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert reasons(await cluster.message()).startswith(f"claim parameters default/w: {reason}.")
        mended = {**written, "parameters": [required("RAM", 1)]}
        await cluster.client.update(cluster.parameters_ref, mended)
        await cluster.node_of()


async def test_a_shareable_claim_has_many_pods():
    """Later pods go where it is, and take nothing more; one that is not shareable is in use."""
    cluster = await cluster_of("n0", "n1")
    await cluster.asking("many", required("RAM", 10), shareable=True)
    await cluster.asking("one", required("ComputeUnits", 1))
    await cluster.card_claims("c0", parameters="many")
    await cluster.card_claims("c1", parameters="one")
    async with running(cluster):
        for name in ("p0", "p1"):
            await cluster.claiming_pod("c0", name=name)
        nodes = [await cluster.node_of(name) for name in ("p0", "p1")]
        await cluster.claiming_pod("c1", name="p2")
        await cluster.node_of("p2")
        await cluster.claiming_pod("c1", name="p3")

        assert nodes[0] == nodes[1]
        assert (await cluster.message("p3"))[1].startswith("0/2 nodes are available: resourceclaim in use.")
    claim = await cluster.claim_named()
    assert claim["status"]["allocation"]["shareable"] is True
    assert sorted(user["name"] for user in claim["status"]["reservedFor"]) == ["p0", "p1"]


async def test_a_claim_without_parameters_has_any_resource():
    """A claim without parameters gets any resource and counts nothing: it takes nothing from others."""
    cluster = await cluster_of()
    await cluster.card_claim("c0")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.node_of()

    assert await cluster.handle() == {"nodeName": "n0", "resourceID": "CardA"}


async def test_parameters_of_a_class_do_not_limit_where_claims_are_allocated():
    """They are opaque: even an amount that no card has, in a form that could be understood, is only kept."""
    cluster = SemanticCluster()
    await cluster.node()
    await cluster.cards()
    await cluster.asking("much", required("RAM", 1000))
    reference = {**IN_TREE, "name": "much", "namespace": "default"}
    await cluster.card_class(parametersRef=reference)
    await cluster.asking("w", required("RAM", 4))
    await cluster.card_claims("c0")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.node_of()

    assert await cluster.taken() == [("CardA", "RAM", 4)]
    assert (await cluster.handle())["classParameters"]["metadata"]["name"] == "much"


async def test_a_class_allows_the_types_that_it_names():
    """Others are refused with a message, until the class names them."""
    cluster = SemanticCluster()
    await cluster.node()
    await cluster.cards()
    made = await cluster.card_class({"apiGroup": "dra.example.com", "kind": "Other"})
    await cluster.asking("w", required("RAM", 1))
    await cluster.card_claims("c0")
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert reasons(await cluster.message()).startswith(
            "resource class cards does not allow parameters of kind ResourceClaimParameters.resource.k8s.io."
        )
        await cluster.client.update(cluster.refs.device_classes, {**made, "parameterTypes": [IN_TREE]})
        await cluster.node_of()


async def test_drivers_allocate_the_claims_of_classes_without_types():
    """Drivers allocate claims of classes without types by a context, as in 1.29; the reservation is written
    before the binding begins.
    """
    cluster = SemanticCluster()
    await cluster.node()
    await cluster.resource_class()
    await cluster.driver_claim("c0")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.selected("n0")
        await cluster.allocate("c0", "n0")

        assert await cluster.node_of() == "n0"
    claim = await cluster.claim_named()
    assert "finalizers" not in claim["metadata"]
    assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p0"]


@pytest.mark.parametrize("hints", [False, True])
@pytest.mark.parametrize("driven", [1, 2])
async def test_claims_of_both_kinds_in_one_pod(driven, hints):
    """The driver is asked for a node with the resources; nothing is taken of them before it has allocated."""
    cluster = await cluster_of("n0", "n1", hints=hints)
    await cluster.publish("n0", card(ram=1))
    await cluster.resource_class()
    await cluster.asking("w", required("RAM", 5))
    await cluster.card_claims("c0")
    names = [f"d{number}" for number in range(driven)]
    for name in names:
        await cluster.driver_claim(name)
    async with running(cluster):
        await cluster.claiming_pod("c0", *names)
        await cluster.context()
        if driven > 1:
            await cluster.answer(**{name: [] for name in names})
        await cluster.selected("n1")
        assert await cluster.handle("c0") is None
        for name in names:
            await cluster.allocate(name, "n1")

        assert await cluster.node_of() == "n1"
        await asyncio.sleep(1)
        assert not await cluster.has_context()
    for name in ("c0", *names):
        claim = await cluster.claim_named(name)
        assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p0"]
        assert claim["metadata"].get("finalizers") == ([FINALIZER] if name == "c0" else None)


async def test_an_unused_allocation_elsewhere_is_cleared():
    """The scheduler takes back what it gave itself, without asking a driver; immediate claims are kept."""
    cluster = await cluster_of()
    for name, mode in (("c0", "WaitForFirstConsumer"), ("c1", "Immediate")):
        await cluster.card_claim(name, mode=mode, finalizers=[FINALIZER])
        handles = [{"driverName": DRIVER, "semanticData": {"nodeName": "gone", "resourceID": "CardA"}}]
        elsewhere = {"availableOnNodes": on("gone"), "resourceHandles": handles}
        await cluster.set_claim_status(name, driverName=DRIVER, allocation=elsewhere)
    async with running(cluster):
        await cluster.claiming_pod("c1", name="p1")
        await cluster.claiming_pod("c0")

        assert (await cluster.message())[1].endswith(
            "1 resourceclaim not available on the node."
        )  # as in 1.29
        assert await cluster.node_of() == "n0"
        assert "still not schedulable" in (await cluster.message("p1"))[1]
    assert (await cluster.handle("c0"))["nodeName"] == "n0"
    assert (await cluster.handle("c1"))["nodeName"] == "gone"


async def test_a_claim_that_is_deleted_by_force_leaves_its_resources():
    """A pod that waits for them is tried again."""
    cluster = await cluster_of()
    await cluster.asking("w", required("RAM", 10))
    await cluster.card_claims("c0", "c1")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.node_of()
        await cluster.claiming_pod("c1", name="p1")
        await cluster.message("p1")
        claim = await cluster.claim_named()
        claim["metadata"]["finalizers"] = []
        await cluster.client.update(cluster.refs.claims, claim)
        await cluster.client.delete(cluster.refs.claims, "c0", "default")

        assert await cluster.node_of("p1") == "n0"


async def test_the_node_of_another_driver_is_no_use():
    """Resources belong to a driver; the same identifier of another one counts by itself."""
    cluster = SemanticCluster()
    await cluster.node()
    await cluster.card_class()
    await cluster.cards("n0", {"id": "CardA", "attributes": [counter("RAM", 9)]}, driver="other.example.com")
    await cluster.asking("w", required("RAM", 5))
    await cluster.card_claims("c0")
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert reasons(await cluster.message()).startswith(UNSUITABLE)
        await cluster.cards("n0", card(ram=5))
        assert await cluster.node_of() == "n0"


async def test_changes_that_concern_others_wake_no_pod():
    """Neither other drivers' slices and parameters of other claims, nor updates without anything new."""
    cluster = await cluster_of()
    await cluster.asking("w", required("RAM", 50))
    other = await cluster.asking("other", required("RAM", 1))
    await cluster.card_claims("c0")
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.message()
        attempts = attempts_of(cluster)
        await cluster.cards("n0", card(), driver="other.example.com")
        changed = {**other, "parameters": [required("RAM", 2)]}
        await cluster.client.update(cluster.parameters_ref, changed)
        published = await cluster.client.get(cluster.refs.slices, f"n0-{DRIVER}")
        published["metadata"]["labels"] = {"a": "b"}
        await cluster.client.update(cluster.refs.slices, published)
        await asyncio.sleep(60)
        assert attempts_of(cluster) == attempts

        await cluster.publish("n0", card(ram=49))
        await asyncio.sleep(60)
        assert attempts_of(cluster) == attempts + 1


def attempts_of(cluster):
    """Returns how often a pod was refused, as the scheduler's metrics have it."""
    name = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} '
    (found,) = [line for line in cluster.metrics().splitlines() if line.startswith(name)]
    return float(found.removeprefix(name))
