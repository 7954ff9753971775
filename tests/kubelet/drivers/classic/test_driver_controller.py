"""Tests the controller of a classic DRA driver in virtual time, at a server in memory."""

import asyncio
import itertools

import orjson
import pytest
from fake_server import FakeServer
from loop_clock import LoopClock

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import CONFIG_MAPS, EVENTS, PODS, dra_refs, scheduling_context_ref
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.classic.controller.controller import DriverController
from kubeskew.kubelet.drivers.classic.controller.example import ExampleDriver
from kubeskew.kubelet.drivers.settings import ControllerSettings, parse_settings

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

DRIVER = "gpu.example.com"
FINALIZER = f"{DRIVER}/deletion-protection"
MINORS = [26, 27, 28, 29, 30, 31]


class Environment:
    """A server, a driver's controller at it, and what a scheduler would write."""

    def __init__(self, minor, *, capacity=None, **settings):
        self.minor, self.version = minor, Version(minor)
        clock, entropy = LoopClock(), SeededEntropy(3)
        self.server = FakeServer(clock, entropy)
        self.client = self.server.client()
        self.refs, self.contexts = dra_refs(self.version), scheduling_context_ref(self.version)
        informers = InformerFactory(self.client, clock, entropy)
        nodes = capacity or {"n0": 1, "n1": 1}
        self.driver = ExampleDriver(
            self.client, entropy, self.version, DRIVER, ControllerSettings(**settings), lambda: nodes
        )
        self.controller = DriverController(self.client, clock, informers, self.version, DRIVER, self.driver)
        self.stop = asyncio.Event()

    async def __aenter__(self):
        await self.resource_class()
        self.running = asyncio.create_task(self.controller.run(self.stop))
        return self

    async def __aexit__(self, *_):
        self.stop.set()
        await self.running

    async def resource_class(self, name="gpu", driver=DRIVER, **more):
        body = {"spec": {}} if self.minor == 31 else {"driverName": driver, **more}
        await self.client.create(self.refs.device_classes, {"metadata": {"name": name}, **body})

    async def claim(self, name="c0", *, mode="WaitForFirstConsumer", class_name="gpu", status=None, **more):
        spec = {"resourceClassName": class_name, "allocationMode": mode, **more}
        if self.minor == 31:
            spec = {"controller": DRIVER, "devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}
        metadata = {"name": name, "namespace": "ns"}
        body = {"metadata": metadata, "spec": spec, "status": status or {}}
        return await self.client.create(self.refs.claims, body)

    async def pod(self, *claims):
        sources = [{"resourceClaimName": name} for name in claims]
        if self.minor <= 30:
            sources = [{"source": source} for source in sources]
        entries = [{"name": name, **source} for name, source in zip(claims, sources, strict=True)]
        metadata = {"name": "p", "namespace": "ns"}
        self.made = await self.client.create(
            PODS, {"metadata": metadata, "spec": {"resourceClaims": entries}}
        )
        return self.made

    async def context(self, selected="", potential=()):
        uid = self.made["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
        spec = {**({"selectedNode": selected} if selected else {}), "potentialNodes": [*potential]}
        metadata = {"name": "p", "namespace": "ns", "ownerReferences": [owner]}
        await self.client.create(self.contexts, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(1)

    async def unsuitable(self):
        found = await self.client.get(self.contexts, "p", "ns")
        entries = (found.get("status") or {}).get("resourceClaims") or []
        return {entry["name"]: entry["unsuitableNodes"] for entry in entries}

    async def read(self, name="c0"):
        return await self.client.get(self.refs.claims, name, "ns")

    def writes(self):
        return [
            f"{request.method} {request.target.partition('/namespaces/ns/')[2]}"
            for request in self.server.requests
            if request.method in ("PUT", "PATCH") and "resourceclaims" in request.target
        ]


@pytest.mark.parametrize("minor", MINORS)
async def test_a_claim_is_allocated_for_the_selected_node(minor):
    """Finalizer, then allocation with the pod's reservation, then the answer about nodes."""
    async with Environment(minor) as environment:
        await environment.claim()
        pod = await environment.pod("c0")
        await environment.context("n0", ["n0", "n1"])
        claim = await environment.read()
        selector = claim["status"]["allocation"]["nodeSelector" if minor == 31 else "availableOnNodes"]

        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert selector["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["n0"]
        assert claim["status"]["reservedFor"] == [
            {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
        ]
        assert environment.writes() == ["PUT resourceclaims/c0", "PUT resourceclaims/c0/status"]
        assert await environment.unsuitable() == {"c0": []}
        status = claim["status"]
        assert (status["allocation"]["controller"] if minor == 31 else status["driverName"]) == DRIVER


@pytest.mark.parametrize(
    ("minor", "handle"),
    [
        (26, lambda data: {"resourceHandle": data}),
        (27, lambda data: {"resourceHandles": [{"driverName": DRIVER, "data": data}]}),
        (30, lambda data: {"resourceHandles": [{"driverName": DRIVER, "data": data}]}),
    ],
)
async def test_parameters_travel_in_the_handle(minor, handle):
    """The handle has the parameters of the claim and of the class, read from ConfigMaps."""
    async with Environment(minor, shareable=True) as environment:
        for name, data in (("mine", {"A": "1"}), ("theirs", {"b": "2"})):
            metadata = {"name": name, "namespace": "ns"}
            await environment.client.create(CONFIG_MAPS, {"metadata": metadata, "data": data})
        reference = {"kind": "ConfigMap", "name": "theirs", "namespace": "ns"}
        await environment.resource_class("other", parametersRef=reference)
        await environment.claim(class_name="other", parametersRef={"kind": "ConfigMap", "name": "mine"})
        await environment.pod("c0")
        await environment.context("n0")
        allocation = (await environment.read())["status"]["allocation"]
    data = orjson.dumps({"EnvVars": {"user_a": "1", "admin_b": "2"}, "NodeName": "n0"}).decode()

    assert {key: allocation[key] for key in handle("")} == handle(data)
    assert allocation["shareable"] is True


@pytest.mark.parametrize("minor", MINORS)
async def test_nodes_without_room_do_not_suit(minor):
    """The driver lists them for each claim of the pod, and looks again after half a minute."""
    capacity = {"n0": 0, "n1": 2}
    async with Environment(minor, capacity=capacity) as environment:
        await environment.claim("c0")
        await environment.claim("c1")
        await environment.pod("c0", "c1")
        await environment.context("", ["n0", "n1", "elsewhere"])

        assert await environment.unsuitable() == {"c0": ["n0", "elsewhere"], "c1": ["n0", "elsewhere"]}

        capacity |= {"n0": 2, "n1": 1}
        await asyncio.sleep(31)
        assert await environment.unsuitable() == {"c0": ["n1", "elsewhere"], "c1": ["n1", "elsewhere"]}


@pytest.mark.parametrize("minor", MINORS)
async def test_a_selected_node_that_does_not_suit_is_not_used(minor):
    """The scheduler learns it, and selects another."""
    async with Environment(minor, capacity={"n0": 0, "n1": 1}) as environment:
        await environment.claim()
        await environment.pod("c0")
        await environment.context("n0", ["n0", "n1"])

        assert await environment.unsuitable() == {"c0": ["n0"]}
        assert "allocation" not in (await environment.read())["status"]


@pytest.mark.parametrize("minor", MINORS)
async def test_a_bug_of_a_driver_is_reported_on_what_it_worked_on(minor, monkeypatch):
    """The context says that something went wrong inside, and is worked on again."""
    async with Environment(minor) as environment:
        allocate, left = environment.driver.allocate, [2]

        async def failing(*arguments):
            if left[0]:
                left[0] -= 1
                raise KeyError("a slip")
            await allocate(*arguments)

        monkeypatch.setattr(environment.driver, "allocate", failing)
        await environment.claim()
        await environment.pod("c0")
        await environment.context("n0")
        await asyncio.sleep(5)
        (event,) = (await environment.client.list(EVENTS))["items"]

        assert (event["type"], event["reason"]) == ("Warning", "Failed")
        assert event["message"] == "internal error: KeyError('a slip')"
        assert "allocation" in (await environment.read())["status"]


@pytest.mark.parametrize("minor", MINORS[:-1])
async def test_immediate_claims_are_allocated_without_a_pod(minor):
    """Anywhere there is room, reserved for nobody; those of another driver's class are left alone."""
    async with Environment(minor, capacity={"n0": 0, "n1": 1}) as environment:
        await environment.resource_class("foreign", driver="other.example.com")
        await environment.claim("c0", mode="Immediate")
        await environment.claim("c1", mode="Immediate", class_name="foreign")
        await asyncio.sleep(5)
        status = (await environment.read())["status"]
        terms = status["allocation"]["availableOnNodes"]["nodeSelectorTerms"]

        assert terms[0]["matchExpressions"][0]["values"] == ["n1"]
        assert "reservedFor" not in status
        assert not (await environment.read("c1"))["metadata"].get("finalizers")


async def test_no_claim_of_1_31_is_allocated_without_a_pod():
    """The immediate mode is gone."""
    async with Environment(31) as environment:
        await environment.claim()
        await asyncio.sleep(5)

        assert not (await environment.read())["metadata"].get("finalizers")


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("how", ["asked", "deleted"])
async def test_a_claim_is_given_back(minor, how):
    """Freed, cleared and released, in this order; and its room is free for the next one."""
    async with Environment(minor, capacity={"n0": 1}) as environment:
        await environment.claim()
        await environment.pod("c0")
        await environment.context("n0", ["n0"])
        claim = await environment.read()
        await environment.client.delete(environment.contexts, "p", "ns")
        status = {**claim["status"], "reservedFor": []}
        if how == "asked":
            status["deallocationRequested"] = True
        await environment.client.update(environment.refs.claims, {**claim, "status": status}, "status")
        environment.server.requests.clear()
        if how == "deleted":
            await environment.client.delete(environment.refs.claims, "c0", "ns")
        await asyncio.sleep(1)

        assert environment.writes() == ["PUT resourceclaims/c0/status", "PUT resourceclaims/c0"]
        if how == "asked":
            freed = await environment.read()
            assert not freed["metadata"].get("finalizers")
            assert not {"allocation", "driverName", "deallocationRequested"} & freed["status"].keys()
        await environment.claim("next")
        await environment.client.delete(PODS, "p", "ns")
        await environment.pod("next")
        await environment.context("n0", ["n0"])
        assert (await environment.read("next"))["status"]["allocation"]


@pytest.mark.parametrize("minor", [26, 31])
async def test_a_claim_in_use_is_not_given_back(minor):
    """Whatever is asked, users come first."""
    async with Environment(minor) as environment:
        await environment.claim()
        await environment.pod("c0")
        await environment.context("n0", ["n0"])
        await environment.client.delete(environment.refs.claims, "c0", "ns")
        await asyncio.sleep(5)

        assert (await environment.read())["status"]["allocation"]


EXHAUSTED = 'failed allocating claim UID: resources exhausted on node "n0"'


@pytest.mark.parametrize(
    ("minor", "text"),
    [
        (26, f"allocation of pod claim c1 failed: allocate: {EXHAUSTED}"),
        (28, f"allocation of one or more pod claims failed. Claim c1: {EXHAUSTED}."),
        (29, f"claim c1: {EXHAUSTED}"),
    ],
)
async def test_half_of_a_pods_claims_may_be_allocated(minor, text):
    """The first is, the second is reported as an event, and nothing is said of nodes in that round."""
    async with Environment(minor, capacity={"n0": 1}) as environment:
        await environment.claim("c0")
        second = await environment.claim("c1")
        await environment.pod("c0", "c1")
        await environment.context("n0")
        events = (await environment.client.list(EVENTS, "ns"))["items"]

        assert (await environment.read("c0"))["status"]["allocation"]
        assert "allocation" not in (await environment.read("c1"))["status"]
        assert await environment.unsuitable() == {}
    assert {event["message"] for event in events} == {text.replace("UID", second["metadata"]["uid"])}
    assert {event["source"]["component"] for event in events} == {f"resource driver {DRIVER}"}
    kind = "PodScheduling" if minor == 26 else "PodSchedulingContext"
    assert {event["involvedObject"]["kind"] for event in events} == {kind}


@pytest.mark.parametrize(("minor", "listed"), [(28, ["c0", "c1"]), (29, ["c1"])])
async def test_allocated_claims_are_asked_about_until_0_28(minor, listed):
    """Later they are passed over."""
    async with Environment(minor) as environment:
        await environment.claim("c0", status={"allocation": {}, "driverName": DRIVER})
        await environment.claim("c1")
        await environment.pod("c0", "c1")
        await environment.context("", ["n0"])

        assert list(await environment.unsuitable()) == listed


@pytest.mark.parametrize("minor", MINORS)
async def test_a_write_that_fails_is_done_again(minor):
    """The allocation is the same the second time, though the first one was never stored."""
    async with Environment(minor, capacity={"n0": 1}) as environment:
        failed = []

        def outage(request):
            if request.method == "PUT" and "/c0/status" in request.target and not failed:
                failed.append(request)
                return StatusError(500, "InternalError", "out of order")
            return None

        environment.server.outage = outage
        await environment.claim()
        await environment.pod("c0")
        await environment.context("n0", ["n0"])
        messages = [event["message"] for event in (await environment.client.list(EVENTS, "ns"))["items"]]

        assert (await environment.read())["status"]["allocation"]
    assert any("add allocation: out of order" in message for message in messages)


@pytest.mark.parametrize("minor", [27, 30])
async def test_a_restart_knows_what_is_allocated(minor):
    """A claim of an earlier process takes its room."""
    data = orjson.dumps({"EnvVars": {}, "NodeName": "n0"}).decode()
    allocation = {"resourceHandles": [{"driverName": DRIVER, "data": data}]}
    async with Environment(minor, capacity={"n0": 1}) as environment:
        environment.driver.learn(
            await environment.claim("old", status={"allocation": allocation, "driverName": DRIVER})
        )
        await environment.claim()
        await environment.pod("c0")
        await environment.context("", ["n0"])

        assert await environment.unsuitable() == {"c0": ["n0"]}


@pytest.mark.parametrize(
    ("value", "settings"),
    [
        (None, None),
        (False, None),
        (True, ControllerSettings()),
        ({"nodeLocal": False, "shareable": True}, ControllerSettings(node_local=False, shareable=True)),
    ],
)
async def test_settings(value, settings):
    """The cluster file says true, or what is different."""
    assert parse_settings(value) == settings


@pytest.mark.parametrize("value", ["yes", {"unknown": True}, {"shareable": "yes"}])
async def test_wrong_settings(value):
    """Wrong settings of a controller are refused with what is expected."""
    with pytest.raises(ValueError, match="controller: "):
        parse_settings(value)


async def test_claims_with_semantic_parameters_are_the_schedulers():
    """A class with parameter types is not this controller's, though it names the driver."""
    async with Environment(29) as environment:
        types = [{"apiGroup": "dra.example.com", "kind": "CardParameters"}]
        await environment.resource_class("card", parameterTypes=types)
        await environment.claim("semantic", mode="Immediate", class_name="card")
        await environment.claim("opaque", mode="Immediate")
        await asyncio.sleep(60)

        assert "allocation" not in (await environment.read("semantic"))["status"]
        assert "finalizers" not in (await environment.read("semantic"))["metadata"]
        assert (await environment.read("opaque"))["status"]["driverName"] == DRIVER


@pytest.mark.parametrize("minor", MINORS)
async def test_what_is_looked_at_again_without_a_change(minor):
    """A pod's context is looked at every 30 seconds for as long as it is there. Claims are not: upstream's
    informers have no resync in any release.
    """
    asked = []
    async with Environment(minor, capacity={"n0": 0}) as environment:
        original = environment.driver.unsuitable_nodes

        async def unsuitable_nodes(pod, claims, nodes):
            asked.append(asyncio.get_running_loop().time())
            await original(pod, claims, nodes)

        environment.driver.unsuitable_nodes = unsuitable_nodes
        await environment.claim("c0")
        await environment.claim("idle")
        await asyncio.sleep(5)
        before = len(environment.server.requests)
        await asyncio.sleep(1300)
        assert [each for each in environment.server.requests[before:] if "watch=" not in each.target] == []

        await environment.pod("c0")
        await environment.context("", ["n0"])
        await asyncio.sleep(600)
        await environment.client.delete(environment.contexts, "p", "ns")
        times = len(asked)
        await asyncio.sleep(600)

    assert 20 <= times <= 22
    assert len(asked) == times
    assert {round(later - earlier) for earlier, later in itertools.pairwise(asked[1:])} == {30}
