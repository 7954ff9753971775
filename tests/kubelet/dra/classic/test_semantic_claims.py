"""1.29+kep4381: drivers prepare what is allocated by semantic parameters."""

from dataclasses import replace

import pytest
from semantic_node import DRIVER, PREVIEW, card, handle, serving_node

from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.dra.checkpoint import CheckpointFile
from kubeskew.kubelet.dra.claims import ClaimCache, ClaimInfo
from kubeskew.kubelet.dra.classic.features import ClassicFeatures
from kubeskew.kubelet.dra.classic.manager import ClassicDRAManager, HandleUse
from kubeskew.kubelet.dra.generations import generation_of
from kubeskew.kubelet.dra.plugin import ClaimFailed, ClaimRef, PluginError, PluginRegistry
from kubeskew.kubelet.drivers.claims import PreparedClaims
from kubeskew.kubelet.drivers.classic.services import services_of
from kubeskew.kubelet.protocols.messages import dra_classic_pb2 as messages


@pytest.fixture
async def semantic_node():
    """A node of 1.29+kep4381 with its driver, nothing published yet."""
    async with serving_node() as node:
        yield node


@pytest.mark.asyncio
async def test_a_claim_gets_its_parameters_and_amounts(semantic_node):
    """Containers find the snapshots of class and claim parameters, and what was allocated."""
    parameters = {
        "kind": "CardParameters",
        "metadata": {"name": "p"},
        "spec": {"supportsPowerSaving": True, "requirements": {"RAM": "10Gi"}, "config": {"Mode": "fast"}},
    }
    of_class = {"kind": "ConfigMap", "data": {"limit": "low"}}
    ids = await semantic_node.prepare(
        "u1", handle(claim=parameters, of_class=of_class, RAM=10, ComputeUnits=2)
    )

    assert ids == [f"{DRIVER}/claim=u1"]
    assert semantic_node.environment("u1") == {
        "cards_dra_example_com": "CardA",
        "cards_dra_example_com_RAM": "10",
        "cards_dra_example_com_ComputeUnits": "2",
        "user_supportspowersaving": "true",
        "user_requirements_ram": "10Gi",
        "user_config_mode": "fast",
        "admin_limit": "low",
    }


@pytest.mark.asyncio
async def test_what_is_not_there_any_more_is_not_prepared(semantic_node):
    """A claim waits while its resource is too small or gone, and is prepared once that is back."""
    semantic_node.offer(card("CardA", RAM=10))
    assert not isinstance(await semantic_node.prepare("u1", handle(RAM=6)), ClaimFailed)
    small = await semantic_node.prepare("u2", handle(RAM=5))
    semantic_node.offer()
    gone = await semantic_node.prepare("u2", handle(RAM=4))
    chosen = await semantic_node.prepare("u3", handle())
    again = await semantic_node.prepare("u1", handle(RAM=6))
    semantic_node.offer(card("CardA", ComputeUnits=1))
    other = await semantic_node.prepare("u2", handle(RAM=4))
    semantic_node.offer(card("CardA", RAM=10))
    fits = await semantic_node.prepare("u2", handle(RAM=4))

    assert [answer.error for answer in (small, gone, chosen, other)] == [
        'claim ns/claim-u2: counter "RAM" of resource "CardA" is not available: 5 allocated, 4 of 10 left',
        'claim ns/claim-u2: resource "CardA" is not available',
        'claim ns/claim-u3: resource "CardA" is not available',
        'claim ns/claim-u2: resource "CardA" has no counter "RAM"',
    ]
    assert again == [f"{DRIVER}/claim=u1"]  # what is prepared keeps what it has
    assert fits == [f"{DRIVER}/claim=u2"]


@pytest.mark.asyncio
async def test_amounts_of_prepared_claims_outlive_the_driver(semantic_node):
    """A driver that starts again knows what the claims have; what was given back is free."""
    semantic_node.offer(card("CardA", RAM=10))
    await semantic_node.prepare("u1", handle(RAM=6))
    kept = PreparedClaims(DRIVER, semantic_node.directory / "prepared.json", semantic_node.directory)
    semantic_node.services._claims = kept
    refused = await semantic_node.prepare("u2", handle(RAM=6))
    await semantic_node.plugin.unprepare([HandleUse(ClaimRef("ns", "claim-u1", "u1"), handle(RAM=6))])
    taken = await semantic_node.prepare("u2", handle(RAM=6))

    assert isinstance(refused, ClaimFailed)
    assert not isinstance(taken, ClaimFailed)


@pytest.mark.asyncio
async def test_an_allocation_of_a_newer_model_is_not_prepared(semantic_node):
    """The kubelet refuses it by name, and gives back by the claim's UID what a newer one had prepared."""
    newer = handle(RAM=1)
    newer["semanticData"]["allocations"].append({"bandwidth": {}})
    use = HandleUse(ClaimRef("ns", "c", "u"), newer)
    with pytest.raises(PluginError) as error:
        await semantic_node.plugin.prepare([use])

    assert str(error.value) == (
        "the allocation of claim ns/c cannot be used: "
        "semanticData.allocations[1] has no semantic model that is known"
    )
    assert await semantic_node.plugin.unprepare([use]) == {"u": None}


@pytest.mark.asyncio
async def test_a_driver_refuses_a_model_that_it_does_not_know(semantic_node):
    """A kubelet that is newer than the driver may send one; the claim's error says so."""
    claim = messages.Claim(namespace="ns", name="c", uid="u")
    claim.semantic_resource_handle.add(node_name="node-1").allocations.add()
    method = services_of(PREVIEW, ())[-1].prepare
    answer = await method.call(semantic_node.plugin.channel, method.request(claims=[claim]))

    assert answer.claims["u"].error == "allocation 0 has no semantic model that this driver knows"


@pytest.mark.asyncio
@pytest.mark.parametrize(("release", "reaches"), [("1.29+kep4381", True), ("1.29", False)])
async def test_a_release_hands_over_what_it_decodes(semantic_node, release, reaches):
    """The preview's kubelet sends the driver the allocation; to 1.29's the field is unknown."""
    version = Version.parse(release)
    claim = {
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"resourceClassName": "card"},
        "status": {
            "driverName": DRIVER,
            "allocation": {"resourceHandles": [handle(RAM=5)]},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}],
        },
    }
    uid = (await semantic_node.client.create(dra_refs(version).claims, claim))["metadata"]["uid"]
    plugins = PluginRegistry("no {driver}")
    plugins.register(semantic_node.plugin)
    cache = ClaimCache(CheckpointFile(semantic_node.directory, generation_of(FeatureGates(version)).codec))
    cache.load()
    features = replace(ClassicFeatures.of(FeatureGates(version)), notes_late=True)
    manager = ClassicDRAManager(semantic_node.client, dra_refs(version).claims, plugins, cache, features)
    await manager.prepare(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
            "spec": {
                "resourceClaims": [{"name": "card", "source": {"resourceClaimName": "c"}}],
                "containers": [{"name": "main", "resources": {"claims": [{"name": "card"}]}}],
            },
        }
    )

    assert (semantic_node.directory / f"{DRIVER}-{uid}.json").exists() is reaches
    assert semantic_node.claims.all()[0]["uid"] == uid
    assert [
        i.handles
        for i in CheckpointFile(semantic_node.directory, generation_of(FeatureGates(version)).codec).load()
    ] == [(handle(RAM=5) if reaches else {"driverName": DRIVER},)]


@pytest.mark.parametrize("other", ["1.27", "1.28", "1.29", "1.30", "1.31"])
def test_no_other_release_reads_the_checkpoint(tmp_path, other):
    """The preview's structs are its own, so that its file is corrupted to others, as 1.29's is to 1.30."""
    of_class = {"kind": "ConfigMap", "data": {"limit": "low"}}
    info = ClaimInfo("ns", "c", "u", {"p"}, {DRIVER: []}, driver=DRIVER, class_name="card")
    info.handles = (handle(claim={"spec": {"a": 1}}, of_class=of_class, RAM=5),)
    CheckpointFile(tmp_path, generation_of(FeatureGates(PREVIEW)).codec).store([info])
    [found] = CheckpointFile(tmp_path, generation_of(FeatureGates(PREVIEW)).codec).load()

    assert found.handles == info.handles
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        CheckpointFile(tmp_path, generation_of(FeatureGates(Version.parse(other))).codec).load()
