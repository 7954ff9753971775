"""The scheduler follows the parameters of vendors, as classes name their types, while it runs."""

import asyncio

import pytest
from scheduling_cluster import running
from semantic_cluster import (
    CARDS,
    IN_TREE,
    VENDORS,
    SemanticCluster,
    card,
    cluster_of,
    definition,
    required,
)

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from kubeskew.apimachinery.errors import StatusError

pytestmark = pytest.mark.looptime

REFERENCE = {**VENDORS, "name": "my-parameters"}
GIB = 2**30


async def refused(cluster, text, name="p0"):
    """Waits until the pod's condition begins with the reason."""
    expected = f"0/1 nodes are available: {text}."
    for _ in range(200):
        pod = await cluster.read(name)
        messages = [each["message"] for each in (pod.get("status") or {}).get("conditions") or ()]
        if any(message.startswith(expected) for message in messages):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(messages)


async def follows(cluster, plural, *, watching):
    """Waits until the scheduler lists and watches a resource, or until it does so no more."""
    for _ in range(100):
        names = {task.get_name() for task in asyncio.all_tasks()}
        if any(name.startswith(f"informer {plural}.") for name in names) is watching:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{plural}: {sorted(names)}")


def metric(cluster, name, **labels):
    shown = "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else ""
    line = f"scheduler_dynamic_resource_{name}{shown} "
    (found,) = [each.removeprefix(line) for each in cluster.metrics().splitlines() if each.startswith(line)]
    return float(found)


def numbers(cluster):
    """Returns classes, resolved types, other types, allocated claims, as metrics have them."""
    types = [metric(cluster, "parameter_types", resolved=resolved) for resolved in ("true", "false")]
    return metric(cluster, "semantic_classes"), *types, metric(cluster, "semantic_claims_allocated")


async def test_a_vendors_object_is_translated_and_kept_in_the_allocation():
    """The driver's translation decides; the allocation keeps what user and administrator wrote."""
    cluster = await cluster_of()
    await cluster.define()
    await cluster.define(plural="cardconfigs", kind="CardConfig")
    found = await cluster.client.get(cluster.refs.device_classes, "cards")
    config = {"apiGroup": "dra.example.com", "kind": "CardConfig", "name": "c", "namespace": "default"}
    await cluster.client.update(cluster.refs.device_classes, {**found, "parametersRef": config})
    configs = CARDS.__class__(CARDS.group, CARDS.version, "cardconfigs", True, "CardConfig")
    made = await cluster.client.create(
        configs, {"metadata": {"name": "c"}, "spec": {"fast": True}}, "default"
    )
    vendors = await cluster.card_parameters(requirements={"RAM": 6})
    await cluster.translated(vendors, "any-name", required("RAM", 6))
    await cluster.card_claim("c0", REFERENCE)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.node_of()

        assert numbers(cluster) == (1, 2, 0, 1)
    assert await cluster.handle() == {
        "nodeName": "n0",
        "resourceID": "CardA",
        "classParameters": {**made, "apiVersion": "dra.example.com/v1alpha1", "kind": "CardConfig"},
        "claimParameters": {**vendors, "apiVersion": "dra.example.com/v1alpha1", "kind": "CardParameters"},
        "allocations": [{"counter": {"resourceID": "CardA", "name": "RAM", "count": 6}}],
    }


@pytest.mark.parametrize("hints", [False, True])
async def test_a_pod_waits_for_each_part_and_is_tried_again_when_it_comes(hints):
    """For the definition, the object, its translation, and the translation of its newest generation."""
    cluster = await cluster_of(hints=hints)
    await cluster.card_claim("c0", REFERENCE)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await refused(cluster, "no resource of kind CardParameters.dra.example.com is known")
        assert numbers(cluster) == (1, 1, 1, 0)

        made = await cluster.define(established=False)
        await asyncio.sleep(1)
        assert numbers(cluster) == (1, 1, 1, 0)
        await cluster.client.update(
            CUSTOM_RESOURCE_DEFINITIONS, {**made, "status": definition()["status"]}, "status"
        )
        await refused(cluster, "CardParameters.dra.example.com default/my-parameters not found")
        assert numbers(cluster) == (1, 2, 0, 0)

        vendors = await cluster.card_parameters(requirements={"RAM": 6})
        shown = "generated claim parameters for CardParameters.dra.example.com default/my-parameters"
        await refused(cluster, f"{shown} (generation 1) not found")
        newer = await cluster.client.update(CARDS, {**vendors, "spec": {"requirements": {"RAM": 7}}})
        await refused(cluster, f"{shown} (generation 2) not found")
        await cluster.translated(vendors, "older", required("RAM", 6))
        await asyncio.sleep(30)
        await refused(cluster, f"{shown} (generation 2) not found")
        await cluster.translated(newer, "newer", required("RAM", 7))
        await cluster.node_of()
    assert await cluster.taken() == [("CardA", "RAM", 7)]
    assert (await cluster.handle())["claimParameters"]["spec"] == {"requirements": {"RAM": 7}}


@pytest.mark.parametrize("other", [{"uid": "of-an-earlier-one"}, {"kind": "Board"}], ids=["uid", "kind"])
async def test_what_was_made_of_another_object_of_that_name_is_no_use(other):
    """An earlier object of the name, or one of another kind, is not the claim's, though the generation is."""
    cluster = await cluster_of()
    await cluster.define()
    vendors = await cluster.card_parameters()
    about = vendors["metadata"]
    origin = {**VENDORS, "name": about["name"], "uid": about["uid"], "generation": about["generation"]}
    await cluster.asking("of-other", required("RAM", 1), generatedFrom={**origin, **other})
    await cluster.card_claim("c0", REFERENCE)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await refused(
            cluster,
            "generated claim parameters for CardParameters.dra.example.com default/my-parameters "
            "(generation 1) not found",
        )
        await cluster.translated(vendors, "generated", required("RAM", 2))
        await cluster.node_of()
    assert await cluster.taken() == [("CardA", "RAM", 2)]


async def test_informers_come_and_go_with_the_classes_that_name_their_types():
    """Classes share one for each type, and it ends with the last of them."""
    cluster = SemanticCluster()
    await cluster.node()
    await cluster.cards()
    await cluster.define()
    await cluster.card_class(IN_TREE)
    async with running(cluster):
        await asyncio.sleep(1)
        await follows(cluster, "cardparameters", watching=False)
        await cluster.card_class(VENDORS, name="one")
        await cluster.card_class(VENDORS, IN_TREE, name="two")
        await follows(cluster, "cardparameters", watching=True)
        assert numbers(cluster) == (3, 2, 0, 0)

        await cluster.client.delete(cluster.refs.device_classes, "one")
        await asyncio.sleep(1)
        await follows(cluster, "cardparameters", watching=True)
        two = await cluster.client.get(cluster.refs.device_classes, "two")
        await cluster.client.update(cluster.refs.device_classes, {**two, "parameterTypes": [IN_TREE]})
        await follows(cluster, "cardparameters", watching=False)
        assert numbers(cluster) == (2, 1, 0, 0)


async def test_a_definition_that_goes_takes_its_informer_along_and_brings_it_back():
    """Objects of a definition that is created again are found again, in the version that is served then."""
    cluster = await cluster_of()
    await cluster.define()
    await cluster.card_claim("c0", REFERENCE)
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await refused(cluster, "CardParameters.dra.example.com default/my-parameters not found")
        await cluster.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "cardparameters.dra.example.com")
        await refused(cluster, "no resource of kind CardParameters.dra.example.com is known")
        await follows(cluster, "cardparameters", watching=False)

        await cluster.define("v1beta1", "v1", "v1alpha1")
        await follows(cluster, "cardparameters.v1", watching=True)
        served = CARDS.__class__(CARDS.group, "v1", CARDS.plural, True, CARDS.kind)
        body = {"metadata": {"name": "my-parameters"}, "spec": {}}
        vendors = await cluster.client.create(served, body, "default")
        await cluster.translated(vendors, "generated", required("RAM", 1))
        await cluster.node_of()
    assert (await cluster.handle())["claimParameters"]["apiVersion"] == "dra.example.com/v1"


async def test_a_missing_role_is_reported_and_its_grant_is_enough():
    """The scheduler begins all the same, and other pods are scheduled; the message has the server's words."""
    cluster = await cluster_of()
    await cluster.define()
    vendors = await cluster.card_parameters()
    await cluster.translated(vendors, "generated", required("RAM", 1))
    await cluster.card_claim("c0", REFERENCE)
    forbidden = (
        'cardparameters.dra.example.com is forbidden: User "system:kube-scheduler" cannot list resource '
        '"cardparameters" in API group "dra.example.com" at the cluster scope'
    )

    def outage(request):
        refused = request.target.startswith("/apis/dra.example.com")
        return StatusError(403, "Forbidden", forbidden) if refused else None

    cluster.server.outage = outage
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await refused(cluster, f"CardParameters.dra.example.com cannot be listed: {forbidden}")
        await cluster.pod("plain")
        await cluster.node_of("plain")
        cluster.server.outage = None
        await cluster.node_of()


async def test_kinds_of_the_release_need_no_definition():
    """A ConfigMap may hold parameters, too; it has no generation."""
    cluster = SemanticCluster()
    await cluster.node()
    await cluster.cards("n0", card(ram=5))
    await cluster.card_class({"kind": "ConfigMap"})
    found = await cluster.client.create(
        CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"RAM": "5"}}, "default"
    )
    origin = {"kind": "ConfigMap", "name": "m", "uid": found["metadata"]["uid"]}
    origin["generation"] = found["metadata"]["generation"]
    await cluster.asking("generated", required("RAM", 5), generatedFrom=origin)
    await cluster.card_claim("c0", {"kind": "ConfigMap", "name": "m"})
    async with running(cluster):
        await cluster.claiming_pod("c0")
        await cluster.node_of()

        assert numbers(cluster) == (1, 1, 0, 1)
    assert (await cluster.handle())["claimParameters"]["data"] == {"RAM": "5"}


async def test_several_translations_of_one_generation_are_an_error():
    """Nobody can say which of them the user means."""
    cluster = await cluster_of()
    await cluster.define()
    vendors = await cluster.card_parameters()
    for name in ("one", "two"):
        await cluster.translated(vendors, name, required("RAM", 1))
    await cluster.card_claim("c0", REFERENCE)
    async with running(cluster):
        await cluster.claiming_pod("c0")

        assert (await cluster.message()) == (
            "SchedulerError",
            (
                'running PreFilter plugin "DynamicResources": multiple generated claim parameters for '
                "CardParameters.dra.example.com default/my-parameters (generation 1) found: "
                "[default/one default/two]"
            ),
        )
