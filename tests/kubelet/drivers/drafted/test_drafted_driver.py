"""Tests the driver's controller of KEP-3063's draft in virtual time, at a server in memory."""

import asyncio

import pytest
from fake_server import FakeServer
from loop_clock import LoopClock

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, NODES, dra_refs
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.drafted.controller import (
    CapacityPublisher,
    DevicePool,
    DraftedController,
    ExhaustedError,
    capacity_ref,
)
from kubeskew.kubelet.drivers.settings import ControllerSettings, parse_settings

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

DRIVER = "gpu.acme.com"
FINALIZER = f"{DRIVER}/deletion-protection"
REFS = dra_refs(Version(25, "kep3063"))


class Environment:
    """A server, a driver's controller at it, and what scheduler and kubelet would write."""

    def __init__(self, devices=None, **settings):
        self.clock, entropy = LoopClock(), SeededEntropy(3)
        self.server = FakeServer(self.clock, entropy)
        self.client = self.server.client()
        self.devices = devices or {"n0": [{"name": "gpu-0"}], "n1": [{"name": "gpu-0"}]}
        self.settings = ControllerSettings(**settings)
        self.connection = self.server.client()

    async def __aenter__(self):
        for node, devices in self.devices.items():
            await self.capacity(node, devices)
        parameters = {"initCommand": ["init", "--cluster"]}
        await self.resource_class(parameters=parameters)
        self.start()
        await asyncio.sleep(0.1)
        return self

    def start(self):
        informers = InformerFactory(self.connection, self.clock, SeededEntropy(4))
        pool = DevicePool()
        self.stop = asyncio.Event()
        self.controller = DraftedController(
            self.connection, self.clock, informers, REFS, DRIVER, self.settings, pool
        )
        self.running = asyncio.create_task(self.controller.run(self.stop))

    async def end(self):
        self.stop.set()
        await self.running

    async def __aexit__(self, *_):
        await self.end()

    async def resource_class(self, name="gpu", driver=DRIVER, **more):
        body = {"metadata": {"name": name}, "driverName": driver, **more}
        await self.client.create(REFS.device_classes, body)

    async def capacity(self, node, devices):
        body = {"metadata": {"name": node, "namespace": "kube-system"}, "spec": {"devices": devices}}
        await self.client.create(capacity_ref(DRIVER), body)

    async def claim(self, name="c0", mode="Delayed", *, selected="", potential=(), class_name="gpu", **spec):
        scheduler = {"potentialNodes": list(potential), **({"selectedNode": selected} if selected else {})}
        status = {"phase": "Pending", "userLimit": 1}
        if selected or potential:
            status["scheduling"] = {"scheduler": scheduler}
        body = {
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"resourceClassName": class_name, "allocationMode": mode, **spec},
            "status": status,
        }
        return await self.client.create(REFS.claims, body)

    async def change(self, name="c0", **status):
        claim = await self.read(name)
        changed = {key: value for key, value in {**claim["status"], **status}.items() if value is not None}
        await self.client.update(REFS.claims, {**claim, "status": changed}, "status")

    async def read(self, name="c0"):
        return await self.client.get(REFS.claims, name, "ns")

    async def status(self, name="c0", seconds=0.2):
        await asyncio.sleep(seconds)
        return (await self.read(name))["status"]

    async def unsuitable(self, name="c0"):
        status = await self.status(name)
        return ((status.get("scheduling") or {}).get("driver") or {}).get("unsuitableNodes") or []

    async def events(self):
        await asyncio.sleep(0.5)
        return [event["message"] for event in (await self.client.list(EVENTS))["items"]]


def available_on(status):
    (term,) = status["scheduling"]["driver"]["availableOnNodes"]["nodeSelectorTerms"]
    return term["matchExpressions"][0]["values"]


async def test_a_delayed_claim_is_allocated_for_the_node_that_is_selected():
    """Nothing happens before; then finalizer, attributes, limit and nodes stand in the claim."""
    async with Environment() as environment:
        await environment.claim(parameters={"color": "red"})
        assert (await environment.status())["phase"] == "Pending"
        scheduling = {"scheduler": {"selectedNode": "n1", "potentialNodes": ["n0", "n1"]}}
        await environment.change(scheduling=scheduling)
        status = await environment.status()

        assert (await environment.read())["metadata"]["finalizers"] == [FINALIZER]
        assert (status["phase"], status["driverName"], status["userLimit"]) == ("Allocated", DRIVER, 1)
        assert status["attributes"] == {
            "node": "n1",
            "device": "gpu-0",
            "admin_initCommand": "init --cluster",
            "user_color": "red",
        }
        assert available_on(status) == ["n1"]
        assert "scheduler" not in status["scheduling"]


async def test_the_finalizer_comes_before_the_allocation():
    """A failed write of the status leaks nothing: the finalizer stays, and the claim is allocated later."""
    async with Environment() as environment:
        left = [2]

        def outage(request):
            if request.method == "PUT" and request.target.endswith("/status") and left[0]:
                left[0] -= 1
                return StatusError(500, "InternalError", "out of order")
            return None

        environment.server.outage = outage
        await environment.claim(selected="n0")
        claim = await asyncio.sleep(0.004, None) or await environment.read()
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert claim["status"]["phase"] == "Pending"
        assert (await environment.status(seconds=30))["phase"] == "Allocated"


async def test_an_immediate_claim_gets_a_node_of_the_drivers_choice():
    """The driver selects the node itself, the emptiest one; when all are full it says so."""
    async with Environment() as environment:
        for name in ("c0", "c1", "c2"):
            await environment.claim(name, "Immediate")
        found = [await environment.status(name) for name in ("c0", "c1", "c2")]

        assert sorted(available_on(status)[0] for status in found[:2]) == ["n0", "n1"]
        assert found[2]["phase"] == "Pending"
        assert await environment.events() == ["resources exhausted on all nodes"]

        await environment.capacity("n2", [{"name": "gpu-0"}])
        assert available_on(await environment.status("c2")) == ["n2"]


async def test_nodes_without_room_are_unsuitable_and_the_list_is_kept_fresh():
    """Nodes without room are unsuitable, a selected one too; a node that has no driver never suits; what
    others free suits again.
    """
    async with Environment() as environment:
        await environment.claim("other", selected="n0")
        await environment.status("other")
        await environment.claim("c0", potential=["n0", "n1", "plain"])
        assert await environment.unsuitable() == ["n0", "plain"]

        await environment.client.delete(REFS.claims, "other", "ns")
        assert await environment.unsuitable() == ["plain"]


async def test_an_unsuitable_node_stays_listed_when_it_is_no_potential_one_any_more():
    """Else the scheduler would name it again, the driver exclude it again, and so on."""
    async with Environment() as environment:
        await environment.claim("other", selected="n0")
        await environment.status("other")
        await environment.claim("c0", potential=["n0", "n1"])
        assert await environment.unsuitable() == ["n0"]
        driver = (await environment.status())["scheduling"]["driver"]
        await environment.change(scheduling={"scheduler": {"potentialNodes": ["n1"]}, "driver": driver})

        assert await environment.unsuitable() == ["n0"]


async def test_of_two_claims_for_the_last_device_one_is_allocated():
    """The other learns that the node does not suit."""
    async with Environment() as environment:
        await environment.claim("c0", selected="n0")
        await environment.claim("c1", selected="n0")
        phases = [(await environment.status(name))["phase"] for name in ("c0", "c1")]

        assert sorted(phases) == ["Allocated", "Pending"]
        loser = "c0" if phases[0] == "Pending" else "c1"
        assert await environment.unsuitable(loser) == ["n0"]


async def test_a_claim_is_freed_on_request_and_when_it_is_deleted_but_never_in_use():
    """Status first, finalizer last; the device is free for others then."""
    async with Environment() as environment:
        await environment.claim(selected="n0")
        await environment.status()
        await environment.change(phase="Reallocate", scheduling={})
        status = await environment.status()
        assert status == {"phase": "Pending", "userLimit": 1}
        assert not (await environment.read())["metadata"].get("finalizers")

        await environment.change(scheduling={"scheduler": {"selectedNode": "n0"}})
        user = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"}
        await environment.status()
        await environment.change(reservedFor=[user])
        await environment.client.delete(REFS.claims, "c0", "ns")
        assert (await environment.status(seconds=60))["phase"] == "Allocated"
        await environment.change(reservedFor=None)
        await asyncio.sleep(0.2)
        assert (await environment.client.list(REFS.claims))["items"] == []


OPTIONAL = {"parameters": {"optional": True}}


@pytest.mark.parametrize("mode", ["Delayed", "Immediate"])
async def test_an_optional_claim_does_without_a_device_where_there_is_none(mode):
    """It is allocated for a node all the same, and takes nothing from claims that come later."""
    async with Environment(devices={"n0": [{"name": "gpu-0"}]}) as environment:
        await environment.claim("c0", selected="n0")
        await environment.status("c0")
        selected = {"selected": "n0"} if mode == "Delayed" else {}
        await environment.claim("c1", mode, **selected, **OPTIONAL)
        without = await environment.status("c1")
        await environment.change("c0", phase="Reallocate", scheduling={})
        await environment.claim("c2", selected="n0")
        later = await environment.status("c2")

    assert (without["phase"], available_on(without)) == ("Allocated", ["n0"])
    assert without["attributes"] == {
        "node": "n0",
        "admin_initCommand": "init --cluster",
        "user_optional": "True",
    }
    assert later["attributes"]["device"] == "gpu-0"


async def test_an_optional_claim_gets_a_device_where_there_is_one():
    """A node without room does not suit as long as another of the pod's nodes has some."""
    async with Environment() as environment:
        await environment.claim("c0", selected="n0")
        await environment.status("c0")
        await environment.claim("c1", selected="n0", potential=["n0", "n1"], **OPTIONAL)
        assert await environment.unsuitable("c1") == ["n0"]
        scheduling = {"scheduler": {"selectedNode": "n1", "potentialNodes": ["n1"]}}
        await environment.change("c1", scheduling=scheduling)
        assert (await environment.status("c1"))["attributes"]["device"] == "gpu-0"

        await environment.claim("c2", selected="n0", potential=["n0"], parameters={"optional": "yes"})
        refusal = 'claim parameters ns/c2: optional: expected true or false, got: "yes"'
        assert refusal in await environment.events()


async def test_a_claim_whose_class_is_gone_is_freed():
    """The status names the driver and the device, so that neither the class nor its parameters are needed."""
    async with Environment() as environment:
        await environment.claim(selected="n0")
        await environment.status()
        await environment.client.delete(REFS.device_classes, "gpu")
        await environment.change(phase="Reallocate", scheduling={})

        assert await environment.status() == {"phase": "Pending", "userLimit": 1}
        assert not (await environment.read())["metadata"].get("finalizers")


async def test_a_controller_that_starts_knows_what_another_has_allocated():
    """Nothing is given twice, and nothing is lost."""
    async with Environment() as environment:
        await environment.claim("c0", selected="n0")
        before = await environment.status("c0")
        await environment.end()
        await environment.claim("c1", selected="n0")
        await environment.change("c0", phase="Allocated")
        environment.start()
        assert await environment.unsuitable("c1") == ["n0"]
        assert await environment.status("c0") == before


@pytest.mark.parametrize(("settings", "limit"), [({"user_limit": 3}, 3), ({"shareable": True}, -1)])
async def test_the_driver_says_how_many_pods_may_use_a_claim(settings, limit):
    """A number, or any."""
    async with Environment(**settings) as environment:
        await environment.claim(selected="n0")
        assert (await environment.status())["userLimit"] == limit


async def test_a_device_on_the_network_can_be_used_on_all_nodes_of_the_driver():
    """Not on those without it, where no kubelet could prepare it."""
    async with Environment(node_local=False) as environment:
        await environment.claim("c0", selected="n0")
        await environment.claim("c1", selected="n0")
        await environment.claim("c2", selected="n0")

        assert available_on(await environment.status("c0")) == ["n0", "n1"]
        assert available_on(await environment.status("c1")) == ["n0", "n1"]
        assert (await environment.status("c2"))["phase"] == "Pending"


async def test_a_claim_of_another_driver_or_without_class_is_left_alone():
    """Until its class comes."""
    async with Environment() as environment:
        await environment.resource_class("theirs", driver="other.example.com")
        await environment.claim("c0", selected="n0", class_name="theirs")
        await environment.claim("c1", selected="n0", class_name="later")
        assert [(await environment.status(name))["phase"] for name in ("c0", "c1")] == ["Pending", "Pending"]

        await environment.resource_class("later")
        assert (await environment.status("c1"))["phase"] == "Allocated"


@pytest.mark.parametrize("mode", ["Delayed", "Immediate"])
@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"memory": "lots"}, 'memory "lots": quantities must match the regular expression'),
        ({"memory": "-1Gi"}, 'memory "-1Gi": must be greater than zero'),
        (["2Gi"], 'expected an object, got: ["2Gi"]'),
    ],
)
async def test_claim_parameters_that_cannot_be_read_are_reported_on_the_claim(
    mode, parameters, reason, caplog
):
    """A Warning says what is wrong, the tries get rarer, and bad input is no bug of the driver."""
    async with Environment() as environment:
        await environment.claim("bad", mode, selected="n0", parameters=parameters)
        await asyncio.sleep(100)
        (event,) = (await environment.client.list(EVENTS))["items"]
        await environment.claim("good", mode, selected="n0")

        assert (event["type"], event["reason"]) == ("Warning", "Failed")
        assert event["involvedObject"]["name"] == "bad"
        assert event["message"].startswith(f"claim parameters ns/bad: {reason}")
        assert 2 < event["count"] < 25
        assert not [record for record in caplog.records if record.exc_info]
        assert (await environment.status("bad"))["phase"] == "Pending"
        assert (await environment.status("good"))["phase"] == "Allocated"


async def test_class_parameters_that_cannot_be_read_are_reported_and_take_no_device():
    """Another claim gets the device meanwhile."""
    async with Environment({"n0": [{"name": "gpu-0"}]}) as environment:
        await environment.resource_class("odd", parameters=["init"])
        await environment.claim("bad", selected="n0", class_name="odd")
        await environment.status("bad")
        await environment.claim("good", selected="n0")

        assert (await environment.status("good"))["phase"] == "Allocated"
        assert 'class parameters odd: expected an object, got: ["init"]' in await environment.events()
        assert not (await environment.read("bad"))["metadata"].get("finalizers")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StatusError(403, "Forbidden", "no writing today"), "no writing today"),
        (KeyError("a slip"), "internal error: KeyError('a slip')"),
    ],
)
async def test_any_failure_while_a_claim_is_processed_becomes_an_event(error, message, monkeypatch):
    """An error of the server as well as a bug of the driver; the claim is tried again until it works."""
    async with Environment() as environment:
        update, left = environment.connection.update, [2]

        async def failing(*arguments):
            if left[0]:
                left[0] -= 1
                raise error
            return await update(*arguments)

        monkeypatch.setattr(environment.connection, "update", failing)
        await environment.claim(selected="n0")
        status = await environment.status(seconds=30)

        assert any(message in said for said in await environment.events())
        assert status["phase"] == "Allocated"


async def test_a_device_whose_memory_cannot_be_read_is_reported_by_its_name():
    """The claim's event says which device of which node it is."""
    async with Environment({"n0": [{"name": "gpu-0", "memory": "big"}]}) as environment:
        await environment.claim(selected="n0", parameters={"memory": "1Gi"})
        (message,) = await environment.events()

        assert message.startswith('device "gpu-0" of node "n0": memory "big": quantities must match')


async def test_a_device_is_shared_by_its_memory():
    """Claims that ask for memory take a part of a device; a whole device is nobody else's."""
    pool = DevicePool({"n": [{"name": "a", "memory": "4Gi"}, {"name": "b", "memory": "4Gi"}]})
    gigabytes = {number: Quantity.parse(f"{number}Gi") for number in (1, 2, 3)}

    assert pool.take("c0", "n", gigabytes[2]).device == "a"
    assert pool.take("c1", "n", gigabytes[3]).device == "b"
    assert pool.take("c2", "n", gigabytes[2]).device == "a"
    assert pool.take("c3", "n", gigabytes[1]).device == "b"
    assert pool.take("c3", "n", gigabytes[1]).device == "b"  # again
    with pytest.raises(ExhaustedError, match='resources exhausted on node "n"'):
        pool.take("c4", "n", gigabytes[1])
    pool.free("c0")
    pool.free("c2")
    assert pool.take("c5", "n", None).device == "a"
    assert not pool.has_room("n", gigabytes[1])
    assert not pool.has_room("unknown", None)


async def test_capacity_is_published_in_objects_of_the_drivers_own():
    """A definition, and an object per node that its Node owns; it follows the devices."""
    clock = LoopClock()
    server = FakeServer(clock, SeededEntropy(1))
    client, hardware = server.client(), {"n0": [{"name": "gpu-0", "memory": "4Gi", "claims": []}]}
    publisher = CapacityPublisher(client, clock, DRIVER, lambda: hardware)
    running = asyncio.create_task(publisher.run())
    await asyncio.sleep(1)
    node = await client.create(NODES, {"metadata": {"name": "n0"}})
    await asyncio.sleep(1)
    (defined,) = (await client.list(CUSTOM_RESOURCE_DEFINITIONS))["items"]
    (stored,) = (await client.list(capacity_ref(DRIVER)))["items"]

    assert defined["metadata"]["name"] == "nodecapacities.gpu.acme.com"
    assert stored["metadata"]["name"] == "n0"
    assert stored["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
    assert stored["spec"]["devices"] == hardware["n0"]

    hardware["n0"] = []
    await asyncio.sleep(1)
    (stored,) = (await client.list(capacity_ref(DRIVER)))["items"]
    assert stored["spec"]["devices"] == []
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("limit", [0, -2, True, "3"])
async def test_a_limit_that_is_none_is_refused(limit):
    """The text says what it may be."""
    with pytest.raises(ValueError, match="userLimit is a number above 0, or -1 for any"):
        parse_settings({"userLimit": limit})
