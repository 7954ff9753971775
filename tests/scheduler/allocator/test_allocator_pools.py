"""The allocator looks at the right pools and devices."""

import pytest
from allocator_bench import (
    DRIVER,
    NODE,
    TWO,
    a_claim,
    a_device,
    a_request,
    a_slice,
    all_devices,
    allocate,
    chosen,
)

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.claims import AllocationError, NodeAllocationError
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import SliceIndex


@pytest.mark.parametrize(
    ("version", "expected"), [("1.34", [[("req-0", "a")]]), ("1.35", None)], ids=["1.34", "1.35"]
)
def test_incomplete_pool(version, expected):
    """Until 1.34 the slices of a pool that are there could be used before the others came."""
    slices = [a_slice(TWO, count=2)]

    assert chosen(allocate(slices, a_claim(a_request()), version=version)) == expected


def test_selectors_are_not_asked_of_devices_that_cannot_be_used():
    """Without its gates a device with binding conditions is passed over before selectors can fail on it."""
    slices = [a_slice([a_device("d1") | {"bindingConditions": ["ready"]}, a_device("d2", size=1)])]
    claim = a_claim(a_request(expression=f"device.attributes['{DRIVER}'].size == 1"))
    gates = {"DRADeviceBindingConditions": False}
    assert chosen(allocate(slices, claim, gates=gates)) == [[("req-0", "d2")]]


@pytest.mark.parametrize("bug", [True, False])
@pytest.mark.parametrize(
    ("slices", "trouble"),
    [([a_slice(TWO, count=2)], "being updated"), ([a_slice([a_device("a"), a_device("a")])], "invalid")],
    ids=["incomplete", "invalid"],
)
@pytest.mark.parametrize("version", ["1.35", "1.37"])
def test_a_pool_that_cannot_be_used_and_all_devices(version: str, slices, trouble: str, bug: bool):
    """A request for all devices fails over such a pool: the whole attempt, or this node alone (141898)."""
    with pytest.raises(
        AllocationError,
        match=r"claim default/claim-0, request req-0: asks for all devices, but resource pool "
        rf"gpu\.example\.com/pool-1 is currently {trouble}",
    ) as ended:
        allocate(slices, a_claim(all_devices()), version=version, bugs={"k8s-141898": bug})
    assert isinstance(ended.value, NodeAllocationError) is not bug


def test_duplicate_device_makes_the_pool_invalid():
    """A pool with a repeated device name is not used; the node cannot be judged."""
    with pytest.raises(NodeAllocationError, match="invalid resource pools were encountered"):
        allocate([a_slice([a_device("a"), a_device("a")])], a_claim(a_request()))


def test_old_generation_is_ignored():
    """Only slices of the newest generation of a pool count."""
    slices = [a_slice(TWO, generation=1), a_slice([a_device("c")], name="slice-2", generation=2)]

    assert chosen(allocate(slices, a_claim(a_request()))) == [[("req-0", "c")]]


def test_slice_index_follows_changes():
    """A changed slice changes what a node sees; an unchanged one keeps its devices."""
    features = AllocatorFeatures.of(FeatureGates(Version(36)))
    index = SliceIndex(features)
    index.set_slice(a_slice(TWO))
    before = index.pools(NODE)

    assert index.pools(NODE) is before
    index.set_slice(a_slice([a_device("c")], name="slice-2", pool="pool-2"))
    names = [device.id.device for device in index.pools(NODE).candidates]
    index.remove_slice(a_slice(TWO))
    assert (names, [device.id.device for device in index.pools(NODE).candidates]) == (["a", "b", "c"], ["c"])
