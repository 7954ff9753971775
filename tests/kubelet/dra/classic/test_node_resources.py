"""1.30's kubelet publishes the named resources that drivers show it, over real sockets."""

import contextlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fake_server import FakeServer
from until import until

from kubeskew.apimachinery.client.refs import NODES, dra_refs
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.dra.classic import node_resources
from kubeskew.kubelet.dra.classic.node_resources import NodeResources, compare
from kubeskew.kubelet.drivers.claims import CallLog, PreparedClaims
from kubeskew.kubelet.drivers.classic.named_resources import named_resources_of
from kubeskew.kubelet.drivers.classic.services import ClassicServices, services_of
from kubeskew.kubelet.drivers.profiles import Offer
from kubeskew.kubelet.drivers.settings import Directories, DriverNode
from kubeskew.kubelet.protocols import grpc_calls
from kubeskew.kubelet.protocols.named_resources import models_of, response_of

DRIVER, OTHER = "gpu.example.com", "nic.example.com"
SLICES = dra_refs(Version(30)).slices


def model(*names, **attribute):
    attributes = {"attributes": [{"name": "a", **attribute}]} if attribute else {}
    return {"namedResources": {"instances": [{"name": name, **attributes} for name in names]}}


class Node:
    """A kubelet's part that publishes, a driver with what it shows, and a server in memory."""

    def __init__(self, directory):
        clock = SystemClock()
        self.server = FakeServer(clock, SeededEntropy(1))
        self.client = self.server.client()
        self.resources = NodeResources(self.client, clock, SLICES, "node-1")
        self.offers = [model("a", "b")]
        claims = PreparedClaims(DRIVER, directory / "prepared.json", directory)
        self.services = ClassicServices(DRIVER, claims, CallLog(directory, clock), lambda: self.offers)
        self.socket = directory / "d.sock"
        self.channel = grpc_calls.channel_to(str(self.socket))

    async def serve(self, library=30):
        grpc = grpc_calls.new_server()
        self.services.serve(grpc, services_of(Version(library), ()))
        grpc.listen(self.socket)
        await grpc.start()
        return grpc

    def offer(self, *models):
        self.offers = list(models)
        self.services.report()

    async def slices(self):
        return (await self.client.list(SLICES))["items"]

    async def published(self, *names):
        """Waits until the slices hold just these instances, and returns the slices."""

        async def holds():
            slices = await self.slices()
            found = [[entry["name"] for entry in obj["namedResources"]["instances"]] for obj in slices]
            return sorted(found) == sorted(map(list, names)) and (slices or True)

        return await until(holds)

    async def stored(self, name, driver, body, node="node-1"):
        slice_ = {"metadata": {"name": name}, "nodeName": node, "driverName": driver, **body}
        await self.client.create(SLICES, slice_)


@pytest.fixture
async def node():
    """A registered node, nothing published yet."""
    async with contextlib.AsyncExitStack() as stack:
        made = Node(Path(stack.enter_context(TemporaryDirectory())))
        await made.client.create(NODES, {"metadata": {"name": "node-1"}})
        server = await made.serve()
        stack.push_async_callback(server.stop, 0)
        stack.push_async_callback(made.channel.close)
        stack.push_async_callback(made.resources.stop)
        yield made


@pytest.mark.asyncio
async def test_a_slice_is_the_nodes_own(node):
    """A slice has a generated name, node, driver, and the node as its owner."""
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.channel)
    [slice_] = await node.published("ab")

    [owner] = slice_["metadata"]["ownerReferences"]
    uid = (await node.client.get(NODES, "node-1"))["metadata"]["uid"]
    assert slice_["metadata"]["name"].startswith(f"node-1-{DRIVER}-")
    assert (slice_["nodeName"], slice_["driverName"]) == ("node-1", DRIVER)
    assert owner == {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": uid, "controller": True}


@pytest.mark.asyncio
async def test_slices_follow_the_driver(node):
    """A slice follows its driver's model: a changed one is updated in place, a dropped one deleted."""
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.channel)
    [first] = await node.published("ab")
    node.offer(model("c"))
    [second] = await node.published("c")
    node.offer(model("c"), model("d"))
    await node.published("c", "d")
    node.offer()
    await node.published()

    assert second["metadata"]["uid"] == first["metadata"]["uid"]


@pytest.mark.asyncio
async def test_the_state_says_when_all_is_published(node):
    """The kubelet has published what a driver shows once both have one digest and the slices say it."""

    async def settled():
        [entry] = node.resources.state().values()
        return entry["published"] and entry["digest"] == node.services.reported_digest()

    assert (node.resources.state(), node.services.reported_digest()) == ({}, "")
    node.resources.add_plugin(DRIVER, node.channel)
    assert node.resources.state() == {DRIVER: {"digest": "", "published": False}}
    node.resources.start()
    await node.published("ab")
    await until(settled)
    before = node.services.reported_digest()

    node.offers = [model("c")]  # and has not reported yet
    assert node.resources.state()[DRIVER] == {"digest": before, "published": True}
    assert node.services.reported_digest() not in ("", before)
    node.services.report()
    await until(settled)
    await node.published("c")

    node.offers = None  # as a driver whose controller allocates: there is nothing to wait for
    node.services.report()
    await until(lambda: node.resources.state() == {})


@pytest.mark.asyncio
async def test_slices_that_the_server_refuses_are_not_waited_for(node, monkeypatch):
    """A driver whose slices are invalid counts as published: the server will not take them later either."""

    async def refuse(*_):
        raise StatusError(422, "Invalid", "no such instance")

    monkeypatch.setattr(node.client, "create", refuse)
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.channel)
    await until(lambda: node.resources.state()[DRIVER]["published"])

    assert await node.slices() == []


@pytest.mark.asyncio
async def test_slices_of_a_driver_that_left_are_deleted(node):
    """Slices of a driver that left are deleted on its node, and stay on others' nodes."""
    await node.stored("foreign", DRIVER, model("x"), node="node-2")
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.channel)
    await node.published("ab", "x")
    node.resources.remove_plugin(DRIVER)
    await node.published("x")


@pytest.mark.asyncio
async def test_slices_that_an_earlier_kubelet_left_are_deleted(node):
    """At the start no driver is registered, so that none has slices."""
    await node.stored("old", OTHER, model("x"))
    node.resources.start()
    await node.published()


@pytest.mark.asyncio
async def test_what_others_change_is_mended(node):
    """A slice that somebody deleted or changed is put right."""
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.channel)
    [slice_] = await node.published("ab")
    await node.client.update(SLICES, {**slice_, **model("z")})
    await node.published("ab")
    await node.client.delete(SLICES, slice_["metadata"]["name"])
    await node.published("ab")


@pytest.mark.asyncio
async def test_a_failed_write_is_tried_again(node):
    """A server that refuses twice has the slice in the end."""
    refused = []

    def outage(request):
        if request.method == "POST" and "resourceslices" in request.target and len(refused) < 2:
            refused.append(request)
            return ConnectionResetError("no")
        return None

    node.server.outage = outage
    node.resources.start()
    node.resources.add_plugin(DRIVER, node.channel)
    await node.published("ab")
    assert len(refused) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("library", [29, 30])
async def test_drivers_without_named_resources_are_asked_once(node, library):
    """A driver that lacks the method, or says that it does, is not asked again."""
    node.offers = None
    other = node.socket.with_name("other.sock")
    node.socket = other
    server = await node.serve(library)
    channel = grpc_calls.channel_to(str(other))
    node.resources.start()
    node.resources.add_plugin(DRIVER, channel)
    await until(node.resources._plugins[DRIVER].monitoring.done, 3)
    await channel.close()
    await server.stop(0)
    assert await node.slices() == []


@pytest.mark.asyncio
async def test_a_stream_that_broke_is_opened_again(node, monkeypatch):
    """Slices stay while the driver is away without leaving, and follow it once it is back."""
    monkeypatch.setattr(node_resources, "_RETRY_SECONDS", 0.05)
    node.socket = node.socket.with_name("again.sock")
    server = await node.serve()
    channel = grpc_calls.channel_to(str(node.socket))
    node.resources.start()
    node.resources.add_plugin(DRIVER, channel)
    [slice_] = await node.published("ab")
    await server.stop(0)
    node.offers = [model("c")]
    node.socket.unlink(missing_ok=True)
    server = await node.serve()
    [again] = await node.published("c")
    await channel.close()
    await server.stop(0)
    assert again["metadata"]["uid"] == slice_["metadata"]["uid"]


@pytest.mark.parametrize(
    "value",
    [
        {"quantity": "1Gi"},
        {"bool": False},
        {"int": 0},
        {"intSlice": {"ints": [1, 2]}},
        {"string": ""},
        {"stringSlice": {"strings": ["x"]}},
        {"version": "1.2.3"},
    ],
)
def test_messages_carry_every_value(value):
    """A value that a driver sends arrives unchanged, an empty one as well."""
    entry = model("a", **value)
    response = response_of([entry])
    assert models_of(type(response).FromString(response.SerializeToString())) == [entry]


def test_an_attribute_has_upstreams_numbers():
    """Name 1 and value 2 in an attribute, whose quantity is 6, as in the API's protobuf."""
    content = response_of([model("d", quantity="1")]).SerializeToString()
    attribute = bytes.fromhex("0a0161120532030a0131")
    instance = bytes.fromhex("0a016412") + bytes([len(attribute)]) + attribute
    for _ in ("instances", "named_resources", "resources"):
        instance = b"\x0a" + bytes([len(instance)]) + instance
    assert content == instance


@pytest.mark.parametrize(
    ("wanted", "stored", "missing", "obsolete"),
    [
        ([model("a")], [], [model("a")], []),
        ([model("a")], [("s", model("a"))], [], []),
        ([model("a", quantity="1024Mi")], [("s", model("a", quantity="1Gi"))], [], []),
        ([model("a")], [("s", model("b"))], [model("a")], ["s"]),
        ([model("a")], [("s", model("a")), ("t", model("a"))], [], []),
        ([], [("t", model("a")), ("s", model("b"))], [], ["s", "t"]),
    ],
    ids=["new", "same", "same amount", "other", "twice", "gone"],
)
def test_slices_are_compared_by_what_they_say(wanted, stored, missing, obsolete):
    """Slices that hold an entry stay; the rest may be used for others."""
    slices = [
        {"metadata": {"name": name}, "nodeName": "n", "driverName": DRIVER, **body} for name, body in stored
    ]
    found, left = compare(wanted, slices)
    assert (found, [obj["metadata"]["name"] for obj in left]) == (missing, obsolete)


def test_the_example_drivers_devices_are_named_resources():
    """Attributes have names that v1alpha2 takes; capacity is a quantity."""
    nowhere = Path("/nowhere")
    node = DriverNode("node-1", Directories(nowhere, nowhere, nowhere), Offer("node-1", devices=2))
    [entry] = named_resources_of(DRIVER, node, Version(30))
    instances = entry["namedResources"]["instances"]
    attributes = {attribute.pop("name"): attribute for attribute in instances[0]["attributes"]}
    assert [instance["name"] for instance in instances] == ["gpu-0", "gpu-1"]
    assert attributes["driver-version"] == {"version": "1.0.0"}
    assert attributes["memory"] == {"quantity": "80Gi"}
    assert attributes["index"] == {"int": 0}
