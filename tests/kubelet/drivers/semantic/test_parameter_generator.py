"""The controller of a driver with semantic parameters, in virtual time, at a server in memory."""

import asyncio
import re

import pytest
from fake_server import FakeServer
from loop_clock import LoopClock
from until import until

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, parameters_refs
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.semantic.generator import ParameterGenerator
from kubeskew.kubelet.drivers.semantic.parameters import (
    ParameterError,
    definition,
    generated,
    parameters_of,
    parameters_ref,
)
from kubeskew.kubelet.drivers.settings import parse_settings

DRIVER = "cards.dra.example.com"
VENDOR = parameters_ref("dra.example.com", "CardParameters")
TARGET = parameters_refs(Version.parse("1.29+kep4381"))[1]


class Environment:
    """A server, a driver's controller at it, and the objects of its users."""

    def __init__(self):
        self.clock, self.entropy = LoopClock(), SeededEntropy(3)
        self.server = FakeServer(self.clock, self.entropy)
        self.client = self.server.client()

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.end()

    async def start(self):
        informers = InformerFactory(self.client, self.clock, self.entropy)
        self.controller = ParameterGenerator(self.client, self.clock, informers, DRIVER, VENDOR, TARGET)
        self.stop = asyncio.Event()
        self.running = asyncio.create_task(self.controller.run(self.stop))

    async def end(self):
        self.stop.set()
        await self.running

    async def vendor(self, name="my-parameters", generation=1, **spec):
        metadata = {"name": name, "namespace": "ns", "generation": generation}
        return await self.client.create(VENDOR, {"metadata": metadata, "spec": spec})

    async def change(self, vendor, **spec):
        metadata = {**vendor["metadata"], "generation": vendor["metadata"]["generation"] + 1}
        return await self.client.update(VENDOR, {"metadata": metadata, "spec": spec})

    async def made(self):
        return (await self.client.list(TARGET, "ns"))["items"]

    async def of_generation(self, number):
        """Waits until the only generated object is of that generation, and returns it."""

        async def found():
            made = await self.made()
            return [obj["generatedFrom"]["generation"] for obj in made] == [number] and made[0]

        return await until(found)


@pytest.fixture
async def environment():
    async with Environment() as made:
        yield made


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_vendors_object_becomes_parameters(environment):
    """The object says where it comes from, and goes with it."""
    vendor = await environment.vendor(
        minimumAPI="v1.0.0", supportsPowerSaving=True, requirements={"RAM": "10Gi", "ComputeUnits": 2}
    )
    made = await environment.of_generation(1)
    [definition_] = (await environment.client.list(CUSTOM_RESOURCE_DEFINITIONS))["items"]

    uid = vendor["metadata"]["uid"]
    origin = {"name": "my-parameters", "kind": "CardParameters", "uid": uid}
    assert made["generatedFrom"] == {**origin, "apiGroup": "dra.example.com", "generation": 1}
    assert made["metadata"]["name"] != "my-parameters"
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "dra.example.com/v1alpha1", **origin, "controller": True}
    ]
    assert made["parameters"] == [
        {
            "name": "meta",
            "metadata": {"selector": 'versions["API"] >= "v1.0.0" && labels.has("SupportsPowerSaving")'},
        },
        {"name": "ComputeUnits", "counter": {"required": 2}},
        {"name": "RAM", "counter": {"required": 10 * 2**30}},
    ]
    assert "shareable" not in made
    assert definition_["metadata"]["name"] == "cardparameters.dra.example.com"


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_change_is_generated_again(environment):
    """The same object follows the newest generation, also one that came while the controller was away."""
    vendor = await environment.vendor(requirements={"RAM": 1})
    first = await environment.of_generation(1)
    vendor = await environment.change(vendor, requirements={"RAM": 2}, shareable=True)
    second = await environment.of_generation(2)
    await environment.end()
    await environment.change(vendor, minimumAPI="v2.0.0")
    await environment.start()
    third = await environment.of_generation(3)

    assert first["metadata"]["uid"] == second["metadata"]["uid"] == third["metadata"]["uid"]
    assert (second["shareable"], second["parameters"]) == (
        True,
        [{"name": "RAM", "counter": {"required": 2}}],
    )
    assert third["parameters"] == [{"name": "meta", "metadata": {"selector": 'versions["API"] >= "v2.0.0"'}}]
    assert not third.get("shareable")


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_what_others_do_to_it_is_mended(environment):
    """A changed object is written again, a deleted one made again; objects of others stay as they are."""
    foreign = {
        "metadata": {"name": "foreign", "namespace": "other"},
        "generatedFrom": {"name": "my-parameters", "kind": "CardParameters", "apiGroup": "dra.example.com"},
    }
    stored = await environment.client.create(TARGET, foreign)
    await environment.vendor(requirements={"RAM": 1})
    made = await environment.of_generation(1)
    await environment.client.update(TARGET, {**made, "parameters": []})

    async def written():
        [found] = await environment.made()
        return found["parameters"] == made["parameters"]

    await until(written)
    await environment.client.delete(TARGET, made["metadata"]["name"], "ns")
    again = await environment.of_generation(1)

    assert again["metadata"]["name"] == made["metadata"]["name"]
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    assert (await environment.client.get(TARGET, "foreign", "other")) == stored


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_an_object_of_that_name_is_not_taken_over(environment):
    """Somebody else's object stays, and an event of the vendor's object says so."""
    vendor = await environment.vendor(requirements={"RAM": 1})
    made = await environment.of_generation(1)
    await environment.client.update(TARGET, {**made, "metadata": {**made["metadata"], "labels": {}}})
    await environment.change(vendor, requirements={"RAM": 2})
    message = await until(lambda: events(environment))

    assert message == [f"generating ResourceClaimParameters: {made['metadata']['name']} is somebody else's"]
    assert [obj["generatedFrom"]["generation"] for obj in await environment.made()] == [1]


async def events(environment):
    return [event["message"] for event in (await environment.client.list(EVENTS))["items"]]


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_parameters_that_mean_nothing_are_reported(environment):
    """An event of the vendor's object names the field; the next generation is taken."""
    vendor = await environment.vendor(requirements={"RAM": -1})
    message = await until(lambda: events(environment))
    await environment.change(vendor, requirements={"RAM": 1})
    await environment.of_generation(2)

    assert message == [
        "generating ResourceClaimParameters: requirements.RAM: -1 is not between 0 and 9223372036854775807"
    ]


def test_texts_are_quoted_and_amounts_rounded_up():
    """No text of a user becomes part of an expression, and half a unit needs a whole one."""
    [meta] = parameters_of({"minimumAPI": 'v1" || true || "'})
    [ram] = parameters_of({"requirements": {"RAM": "1.5"}})

    assert meta["metadata"]["selector"] == 'versions["API"] >= "v1\\" || true || \\""'
    assert ram["counter"] == {"required": 2}
    assert parameters_of({}) == []
    with pytest.raises(ParameterError, match=r"requirements\.RAM: quantities must match"):
        parameters_of({"requirements": {"RAM": "much"}})


def test_the_name_of_what_is_generated_is_one_of_an_object():
    """A name that is too long is cut, wherever a dot or a hyphen stands in it."""
    for name in ("x", "a" * 253, f"{'a' * 241}.b{'c' * 10}", f"{'a' * 240}-.{'c' * 10}"):
        vendor = {"metadata": {"name": name, "namespace": "ns", "uid": "u", "generation": 1}}
        made = generated(DRIVER, VENDOR, TARGET, vendor)["metadata"]["name"]
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", made), made
        assert len(made) <= 253


def test_the_kind_is_the_drivers_to_choose():
    """Group and kind stand in the cluster file; the resource is named after the kind."""
    settings = parse_settings({"semanticParameters": {"apiGroup": "pool.example.com", "kind": "PoolClaim"}})

    assert parse_settings({"semanticParameters": True}).parameters == ("dra.example.com", "CardParameters")
    assert parse_settings({"semanticParameters": False}).parameters is None
    assert (
        definition(parameters_ref(*settings.parameters))["metadata"]["name"] == "poolclaims.pool.example.com"
    )
    with pytest.raises(ValueError, match="semanticParameters is true, or a mapping with apiGroup and kind"):
        parse_settings({"semanticParameters": {"kind": "PoolClaim"}})
