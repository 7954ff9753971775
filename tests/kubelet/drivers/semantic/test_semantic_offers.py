"""1.29+kep4381: what an example driver reports of its devices, as its file says."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from semantic_node import DRIVER, PREVIEW

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.kubelet.drivers.node_resources import read_resources
from kubeskew.kubelet.drivers.profiles import Offer
from kubeskew.kubelet.drivers.semantic.node_resources import semantic_resources_of
from kubeskew.kubelet.drivers.settings import Directories, DriverNode
from kubeskew.kubelet.drivers.switches import parse


def offered(switches=None, **fields):
    """Returns what the driver reports of a node with such an entry."""
    directories = Directories(Path("r"), Path("p"), Path("c"))
    node = DriverNode("node-1", directories, Offer(node="node-1", **fields), parse(switches or {}))
    return semantic_resources_of(DRIVER, node, PREVIEW)


def test_devices_become_resources():
    """Attributes are metadata, capacity is counters, and a device can be had as a whole."""
    offer = offered(devices=1, attributes={"fast": True, "slow": False}, capacity={"memory": "1Gi"})

    [resource] = offer
    metadata, *counters = resource["attributes"]
    assert resource["id"] == "gpu-0"
    assert metadata["metadata"]["versions"] == [{"name": "driverVersion", "version": "1.0.0"}]
    assert metadata["metadata"]["values"] == [{"name": "index", "quantity": 0}]
    assert {"name": "type", "value": "gpu"} in metadata["metadata"]["labels"]
    assert {"name": "fast"} in metadata["metadata"]["labels"]
    assert not any(label["name"] == "slow" for label in metadata["metadata"]["labels"])
    assert [(c["name"], c["counter"]["count"]) for c in counters] == [("Number", 1), ("memory", 2**30)]


def test_switches_change_what_is_reported():
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


def test_a_driver_whose_controller_allocates_shows_no_resources(tmp_path):
    """Without them its kubelet publishes nothing; with parameters of its own it has both parts."""
    from kubeskew.kubelet.drivers.host import NodeDriver
    from kubeskew.kubelet.drivers.settings import parse_settings

    ctx = SimpleNamespace(
        client=None,
        environment=SimpleNamespace(clock=SystemClock()),
        options=SimpleNamespace(emulated_version=PREVIEW),
    )
    host = SimpleNamespace(get_claim=None)
    directories = Directories(tmp_path, tmp_path, tmp_path)

    def offered_by(controller):
        node = DriverNode("n", directories, Offer(node="n", devices=1), controller=parse_settings(controller))
        return NodeDriver(DRIVER, node, ctx, host).services._resources()

    assert offered_by(True) is None
    assert [resource["id"] for resource in offered_by({"semanticParameters": True})] == ["gpu-0"]
    assert [resource["id"] for resource in offered_by(None)] == ["gpu-0"]
