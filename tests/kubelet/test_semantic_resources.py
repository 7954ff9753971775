"""1.29+kep4381: the kubelet publishes resources of semantic models, and drivers prepare what is allocated."""

import contextlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from fake_server import FakeServer
from prometheus_client import CollectorRegistry
from until import until

from kubeskew.apimachinery.client.refs import NODES, dra_refs
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.dra.checkpoint import CheckpointError, CheckpointFile
from kubeskew.kubelet.dra.claims import ClaimCache, ClaimInfo
from kubeskew.kubelet.dra.classic_manager import ClassicDRAManager
from kubeskew.kubelet.dra.classic_plugin import ClassicSocketPlugin, HandleUse
from kubeskew.kubelet.dra.features import ClassicFeatures, codec_for
from kubeskew.kubelet.dra.node_resources import NodeResources
from kubeskew.kubelet.dra.plugin import ClaimFailed, ClaimRef, PluginError, PluginRegistry
from kubeskew.kubelet.dra.resource_forms import (
    NAMED_RESOURCES,
    SEMANTIC_RESOURCES,
    RefusedResourcesError,
)
from kubeskew.kubelet.drivers.call_log import CallLog
from kubeskew.kubelet.drivers.claims import PreparedClaims
from kubeskew.kubelet.drivers.classic_services import ClassicServices, services_of
from kubeskew.kubelet.drivers.named_resources import semantic_resources_of
from kubeskew.kubelet.drivers.profiles.catalogue import Offer
from kubeskew.kubelet.drivers.semantic.resources import read_resources
from kubeskew.kubelet.drivers.settings import Directories, DriverNode
from kubeskew.kubelet.drivers.switches import Switches, parse
from kubeskew.kubelet.features import features_of
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import calling
from kubeskew.kubelet.protocols.messages import dra_classic_pb2 as messages
from kubeskew.kubelet.protocols.named_resources import response_of as named_response_of
from kubeskew.kubelet.protocols.semantic_resources import UnknownModelError, resources_of, response_of

DRIVER = "cards.dra.example.com"
PREVIEW = Version.parse("1.29+kep4381")
SLICES = dra_refs(PREVIEW).slices
METADATA = {
    "versions": [{"name": "API", "version": "v3.2.1"}],
    "labels": [{"name": "SupportsPowerSaving"}, {"name": "Color", "value": "Red"}],
    "values": [{"name": "LengthInCentimeters", "quantity": 100}],
}
CARD = {
    "id": "CardA",
    "name": "CardA",
    "attributes": [
        {"name": "meta", "metadata": METADATA},
        {"name": "RAM", "counter": {"count": 1000000}},
        {"name": "ComputeUnits", "counter": {"count": 100}},
    ],
}


def card(name, **counts):
    return {"id": name, "attributes": [{"name": n, "counter": {"count": c}} for n, c in counts.items()]}


def handle(resource="CardA", claim=None, of_class=None, **counts):
    """A handle as the scheduler writes it."""
    allocations = [
        {"counter": {"resourceID": resource, "name": name, "count": count}} for name, count in counts.items()
    ]
    data = {"nodeName": "node-1", "resourceID": resource, "allocations": allocations}
    if claim is not None:
        data["claimParameters"] = claim
    if of_class is not None:
        data["classParameters"] = of_class
    return {"driverName": DRIVER, "semanticData": data}


class Node:
    """A kubelet's parts for one driver over a real socket, and a server in memory."""

    def __init__(self, directory):
        clock = SystemClock()
        self.server = FakeServer(clock, SeededEntropy(1))
        self.client = self.server.client()
        self.refused = []
        self.resources = NodeResources(
            self.client, clock, SLICES, "node-1", SEMANTIC_RESOURCES, refused=self.refused.append
        )
        self.told = [CARD]
        self.directory = directory
        self.claims = PreparedClaims(DRIVER, directory / "prepared.json", directory)
        calls = CallLog(directory, clock)
        self.services = ClassicServices(DRIVER, self.claims, calls, lambda: self.told, semantic=True)
        socket = directory / "d.sock"
        self.socket = socket
        self.plugin = ClassicSocketPlugin(
            DRIVER, str(socket), "v1alpha3", clock, KubeletMetrics(CollectorRegistry())
        )

    async def serve(self):
        server = calling.new_server()
        self.services.serve(server, services_of(PREVIEW, ()))
        server.listen(self.socket)
        await server.start()
        return server

    def tell(self, *resources):
        self.told = list(resources)
        self.services.tell()

    async def published(self, *ids):
        """Waits until the slices hold just these resources, in all; returns the slices."""

        async def holds():
            slices = (await self.client.list(SLICES))["items"]
            found = [entry["id"] for obj in slices for entry in obj["resources"]]
            return sorted(found) == sorted(ids) and (slices or True)

        return await until(holds)

    async def prepare(self, uid, of):
        """Returns what the driver answers for a claim."""
        answers = await self.plugin.prepare([HandleUse(ClaimRef("ns", f"claim-{uid}", uid), of)])
        return answers[uid]

    def environment(self, uid):
        content = json.loads((self.directory / f"{DRIVER}-{uid}.json").read_text())
        return dict(entry.split("=", 1) for entry in content["devices"][0]["containerEdits"]["env"])


@pytest.fixture
async def node():
    """A node with its driver, nothing published yet."""
    async with contextlib.AsyncExitStack() as stack:
        made = Node(Path(stack.enter_context(TemporaryDirectory())))
        await made.client.create(NODES, {"metadata": {"name": "node-1"}})
        server = await made.serve()
        stack.push_async_callback(server.stop, 0)
        stack.push_async_callback(made.plugin.close)
        stack.push_async_callback(made.resources.stop)
        yield made


@pytest.mark.asyncio
async def test_a_slice_says_what_the_driver_tells(node):
    """The card of the draft's example arrives whole, in a slice of the node and the driver."""
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.plugin.channel)
    [slice_] = await node.published("CardA")

    assert slice_["metadata"]["name"].startswith(f"node-1-{DRIVER}-")
    assert [owner["kind"] for owner in slice_["metadata"]["ownerReferences"]] == ["Node"]
    assert (slice_["nodeName"], slice_["driverName"]) == ("node-1", DRIVER)
    assert slice_["resources"] == [CARD]


@pytest.mark.asyncio
async def test_a_slice_follows_the_capacity(node):
    """The slice stays the same object while its driver's capacity shrinks and grows, and goes with it."""
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.plugin.channel)
    [first] = await node.published("CardA")
    node.tell(card("CardA", RAM=5))

    async def shrunk():
        [slice_] = await node.published("CardA")
        return slice_["resources"] == [card("CardA", RAM=5)] and slice_

    second = await until(shrunk)
    node.tell(card("CardA", RAM=5), card("CardB", RAM=7))
    await node.published("CardA", "CardB")
    node.resources.remove_plugin(DRIVER)
    await node.published()

    assert second["metadata"]["uid"] == first["metadata"]["uid"]


@pytest.mark.asyncio
async def test_resources_that_are_too_many_are_spread_over_slices(node):
    """Each slice is small enough for a store, and each resource stands in one of them."""
    names = [f"Card{number}-{'x' * 4000}" for number in range(300)]
    node.told = [card(name, RAM=1) for name in names]
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.plugin.channel)
    slices = await node.published(*names)

    assert len(slices) > 1
    assert all(len(json.dumps(slice_)) < 1024 * 1024 for slice_ in slices)


@pytest.mark.asyncio
async def test_a_resource_stands_in_one_slice(node):
    """A slice that is there twice, for an answer was lost, goes: it would count the resource twice."""
    for name in ("a", "b"):
        body = {"metadata": {"name": name}, "nodeName": "node-1", "driverName": DRIVER, "resources": [CARD]}
        await node.client.create(SLICES, body)
    node.resources.add_plugin(DRIVER, node.plugin.channel)
    await until(lambda: bool(node.resources._plugins[DRIVER].resources))
    node.resources.start()
    [slice_] = await node.published("CardA")

    assert slice_["metadata"]["name"] == "a"


@pytest.mark.asyncio
async def test_a_driver_of_1_29_is_asked_in_vain(node):
    """A driver whose controller allocates publishes nothing, and prepares by its own handles."""
    node.told = None
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.plugin.channel)
    await until(node.resources._plugins[DRIVER].monitoring.done)
    data = json.dumps({"EnvVars": {"user_a": "1"}, "NodeName": "node-1"})
    await node.prepare("u1", {"driverName": DRIVER, "data": data})

    assert await node.published() is True
    assert node.environment("u1") == {"user_a": "1", "claim": "true"}


@pytest.mark.asyncio
async def test_a_model_that_the_kubelet_does_not_know_withdraws_the_driver(node):
    """A slice never has a gap: all of the driver's slices go, the reason is told, and they come back."""
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.plugin.channel)
    await node.published("CardA")
    node.services.switches = Switches(newer_model=True)
    node.services.tell()
    await node.published()
    [text] = node.refused
    node.services.switches = Switches()
    node.services.tell()
    await node.published("CardA")

    assert text == (
        f"the resources of DRA driver {DRIVER} are not published: "
        'attribute "newer" of resource "CardA" has no semantic model that is known'
    )


def test_a_driver_of_another_release_publishes_nothing():
    """The kubelet refuses what 1.30's drivers tell, and 1.30's finds nothing in what ours tell."""
    named = named_response_of([{"namedResources": {"instances": [{"name": "gpu-0"}]}}])

    with pytest.raises(RefusedResourcesError, match="its resources are not in the form of this release"):
        SEMANTIC_RESOURCES.read(named)
    assert NAMED_RESOURCES.read(response_of([CARD])) == []


@pytest.mark.asyncio
async def test_a_claim_gets_its_parameters_and_amounts(node):
    """Containers find the snapshots of class and claim parameters, and what was allocated."""
    parameters = {
        "kind": "CardParameters",
        "metadata": {"name": "p"},
        "spec": {"supportsPowerSaving": True, "requirements": {"RAM": "10Gi"}, "config": {"Mode": "fast"}},
    }
    of_class = {"kind": "ConfigMap", "data": {"limit": "low"}}
    ids = await node.prepare("u1", handle(claim=parameters, of_class=of_class, RAM=10, ComputeUnits=2))

    assert ids == [f"{DRIVER}/claim=u1"]
    assert node.environment("u1") == {
        "cards_dra_example_com": "CardA",
        "cards_dra_example_com_RAM": "10",
        "cards_dra_example_com_ComputeUnits": "2",
        "user_supportspowersaving": "true",
        "user_requirements_ram": "10Gi",
        "user_config_mode": "fast",
        "admin_limit": "low",
    }


@pytest.mark.asyncio
async def test_what_is_not_there_any_more_is_not_prepared(node):
    """A claim waits while its resource is too small or gone, and is prepared once that is back."""
    node.tell(card("CardA", RAM=10))
    assert not isinstance(await node.prepare("u1", handle(RAM=6)), ClaimFailed)
    small = await node.prepare("u2", handle(RAM=5))
    node.tell()
    gone = await node.prepare("u2", handle(RAM=4))
    chosen = await node.prepare("u3", handle())
    again = await node.prepare("u1", handle(RAM=6))
    node.tell(card("CardA", ComputeUnits=1))
    other = await node.prepare("u2", handle(RAM=4))
    node.tell(card("CardA", RAM=10))
    fits = await node.prepare("u2", handle(RAM=4))

    assert [answer.error for answer in (small, gone, chosen, other)] == [
        'claim ns/claim-u2: counter "RAM" of resource "CardA" is not available: 5 allocated, 4 of 10 left',
        'claim ns/claim-u2: resource "CardA" is not available',
        'claim ns/claim-u3: resource "CardA" is not available',
        'claim ns/claim-u2: resource "CardA" has no counter "RAM"',
    ]
    assert again == [f"{DRIVER}/claim=u1"]  # what is prepared keeps what it has
    assert fits == [f"{DRIVER}/claim=u2"]


@pytest.mark.asyncio
async def test_amounts_of_prepared_claims_outlive_the_driver(node):
    """A driver that starts again knows what the claims have; what was given back is free."""
    node.tell(card("CardA", RAM=10))
    await node.prepare("u1", handle(RAM=6))
    kept = PreparedClaims(DRIVER, node.directory / "prepared.json", node.directory)
    node.services._claims = kept
    refused = await node.prepare("u2", handle(RAM=6))
    await node.plugin.unprepare([HandleUse(ClaimRef("ns", "claim-u1", "u1"), handle(RAM=6))])
    taken = await node.prepare("u2", handle(RAM=6))

    assert isinstance(refused, ClaimFailed)
    assert not isinstance(taken, ClaimFailed)


@pytest.mark.asyncio
async def test_an_allocation_of_a_newer_model_is_not_prepared(node):
    """The kubelet refuses it by name, and gives back by the claim's UID what a newer one had prepared."""
    newer = handle(RAM=1)
    newer["semanticData"]["allocations"].append({"bandwidth": {}})
    use = HandleUse(ClaimRef("ns", "c", "u"), newer)
    with pytest.raises(PluginError) as error:
        await node.plugin.prepare([use])

    assert str(error.value) == (
        "the allocation of claim ns/c cannot be used: "
        "semanticData.allocations[1] has no semantic model that is known"
    )
    assert await node.plugin.unprepare([use]) == {"u": None}


@pytest.mark.asyncio
async def test_a_driver_refuses_a_model_that_it_does_not_know(node):
    """A kubelet that is newer than the driver may send one; the claim's error says so."""
    claim = messages.Claim(namespace="ns", name="c", uid="u")
    claim.semantic_resource_handle.add(node_name="node-1").allocations.add()
    method = services_of(PREVIEW, ())[-1].prepare
    answer = await method.call(node.plugin.channel, method.request(claims=[claim]))

    assert answer.claims["u"].error == "allocation 0 has no semantic model that this driver knows"


@pytest.mark.asyncio
@pytest.mark.parametrize(("release", "reaches"), [("1.29+kep4381", True), ("1.29", False)])
async def test_a_release_hands_over_what_it_decodes(node, release, reaches):
    """The preview's kubelet tells the driver of the allocation; to 1.29's the field is unknown."""
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
    uid = (await node.client.create(dra_refs(version).claims, claim))["metadata"]["uid"]
    plugins = PluginRegistry("no {driver}")
    plugins.register(node.plugin)
    cache = ClaimCache(CheckpointFile(node.directory, codec_for(version)))
    cache.load()
    features = ClassicFeatures.of(version)
    manager = ClassicDRAManager(node.client, dra_refs(version).claims, plugins, cache, features)
    await manager.prepare(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
            "spec": {
                "resourceClaims": [{"name": "card", "source": {"resourceClaimName": "c"}}],
                "containers": [{"name": "main", "resources": {"claims": [{"name": "card"}]}}],
            },
        }
    )

    assert (node.directory / f"{DRIVER}-{uid}.json").exists() is reaches
    assert node.claims.all()[0]["uid"] == uid
    assert [i.handles for i in CheckpointFile(node.directory, codec_for(version)).load()] == [
        (handle(RAM=5) if reaches else {"driverName": DRIVER},)
    ]


@pytest.mark.parametrize("other", ["1.27", "1.28", "1.29", "1.30", "1.31"])
def test_no_other_release_reads_the_checkpoint(tmp_path, other):
    """The preview's structs are its own, so that its file is corrupted to others, as 1.29's is to 1.30."""
    of_class = {"kind": "ConfigMap", "data": {"limit": "low"}}
    info = ClaimInfo("ns", "c", "u", {"p"}, {DRIVER: []}, driver=DRIVER, class_name="card")
    info.handles = (handle(claim={"spec": {"a": 1}}, of_class=of_class, RAM=5),)
    CheckpointFile(tmp_path, codec_for(PREVIEW)).store([info])
    [found] = CheckpointFile(tmp_path, codec_for(PREVIEW)).load()

    assert found.handles == info.handles
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        CheckpointFile(tmp_path, codec_for(Version.parse(other))).load()


@pytest.mark.parametrize("on", [True, False])
def test_the_gate_decides_about_drivers_and_slices(on):
    """The preview's gate is on; without it drivers neither register nor are asked."""
    gates = FeatureGates(PREVIEW, {} if on else {"DynamicResourceAllocation": False})
    features = features_of(PREVIEW, gates)

    assert (features.dra_registers_plugins, features.dra_asks_for_resources) == (on, on)
    assert features.semantic_parameters
    assert not features_of(Version(30), FeatureGates(Version(30))).semantic_parameters


def test_messages_say_what_slices_say():
    """Messages carry what a driver tells as it was written; a name alone is the ID."""
    pool = {"name": "Pool", "attributes": [{"name": "Number", "counter": {"count": 8}}]}
    response = messages.NodeListAndWatchResourcesResponse.FromString(
        response_of([CARD, pool, {"id": "bare"}]).SerializeToString()
    )

    assert resources_of(response) == [CARD, {"id": "Pool", **pool}, {"id": "bare"}]
    with pytest.raises(UnknownModelError, match='attribute "newer" of resource "CardA"'):
        resources_of(response_of([CARD], newer_model=True))


def offered(switches=None, **fields):
    """Returns what the driver tells of a node with such an entry."""
    directories = Directories(Path("r"), Path("p"), Path("c"))
    node = DriverNode("node-1", directories, Offer(node="node-1", **fields), parse(switches or {}))
    return semantic_resources_of(DRIVER, node, PREVIEW)


def test_devices_become_resources():
    """Attributes are metadata, capacity is counters, and a device can be had as a whole."""
    told = offered(devices=1, attributes={"fast": True, "slow": False}, capacity={"memory": "1Gi"})

    [resource] = told
    metadata, *counters = resource["attributes"]
    assert resource["id"] == "gpu-0"
    assert metadata["metadata"]["versions"] == [{"name": "driverVersion", "version": "1.0.0"}]
    assert metadata["metadata"]["values"] == [{"name": "index", "quantity": 0}]
    assert {"name": "type", "value": "gpu"} in metadata["metadata"]["labels"]
    assert {"name": "fast"} in metadata["metadata"]["labels"]
    assert not any(label["name"] == "slow" for label in metadata["metadata"]["labels"])
    assert [(c["name"], c["counter"]["count"]) for c in counters] == [("Number", 1), ("memory", 2**30)]


def test_switches_change_what_is_told():
    """Counts shrink and grow by name; other resources take the place of all."""
    written = {
        "nodeResources": [{"name": "CardA", "attributes": [{"name": "RAM", "counter": {"count": "1Ki"}}]}]
    }

    def counts(switches):
        return {
            resource.get("id") or resource["name"]: [a["counter"]["count"] for a in resource["attributes"]]
            for resource in offered(switches, resources=written)
        }

    assert counts({}) == {"CardA": [1024]}
    assert counts({"counters": {"CardA": {"RAM": 5, "Other": 1}, "CardB": {"RAM": 1}}}) == {"CardA": [5]}
    other = [{"id": "CardB", "attributes": [{"name": "RAM", "counter": {"count": 3}}]}]
    assert counts({"nodeResources": other, "counters": {"CardB": {"RAM": "2Ki"}}}) == {"CardB": [2048]}
    assert counts({"nodeResources": []}) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("CardA", "nodeResources: expected a list of resources, found 'CardA'"),
        ([{"attributes": []}], r"nodeResources\[0\]: expected a resource of id and attributes"),
        ([{"id": "a", "size": 1}], r"nodeResources\[0\]: expected a resource of id and attributes"),
        ([{"id": "a"}, {"name": "a"}], "two resources have one id"),
        (
            [{"id": "a", "attributes": [{"name": "x"}]}],
            "expected a name and one of counter",
        ),
        (
            [{"id": "a", "attributes": [{"name": "x", "counter": {}, "metadata": {}}]}],
            "expected a name and one of counter, metadata",
        ),
        ([{"id": "a", "attributes": [{"name": "x", "counter": {"count": -1}}]}], "-1 is not between 0 and"),
        ([{"id": "a", "attributes": [{"name": "x", "counter": {"count": 2**63}}]}], "is not between"),
        ([{"id": "a", "attributes": [{"name": "x", "counter": {"count": "much"}}]}], "quantities must match"),
        ([{"id": "a", "attributes": [{"name": "m", "metadata": {"colors": []}}]}], "unknown key colors"),
        (
            [{"id": "a", "attributes": [{"name": "m", "metadata": {"labels": [{"value": "x"}]}}]}],
            "metadata.labels: expected name, value",
        ),
    ],
)
def test_resources_that_cannot_be(value, text):
    """The error says where, and what is expected there."""
    with pytest.raises(ValueError, match=text):
        read_resources(value)


def test_a_driver_whose_controller_allocates_tells_no_resources(tmp_path):
    """Without them its kubelet publishes nothing; with parameters of its own it has both parts."""
    from kubeskew.kubelet.drivers.controller_settings import parse_settings
    from kubeskew.kubelet.drivers.host import NodeDriver

    ctx = SimpleNamespace(
        environment=SimpleNamespace(clock=SystemClock()), options=SimpleNamespace(emulated_version=PREVIEW)
    )
    host = SimpleNamespace(get_claim=None, find_claim=None)
    directories = Directories(tmp_path, tmp_path, tmp_path)

    def told(controller):
        node = DriverNode("n", directories, Offer(node="n", devices=1), controller=parse_settings(controller))
        return NodeDriver(DRIVER, node, ctx, host)._node_resources()

    assert told(True) is None
    assert [resource["id"] for resource in told({"semanticParameters": True})] == ["gpu-0"]
    assert [resource["id"] for resource in told(None)] == ["gpu-0"]
