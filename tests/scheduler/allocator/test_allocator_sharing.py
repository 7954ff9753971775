"""Constraints over devices, and devices with several users."""

import pytest
from allocator_bench import DRIVER, TWO, a_claim, a_device, a_request, a_slice, all_devices, allocate, chosen

from kubeskew.apimachinery.quantity import Quantity
from kubeskew.scheduler.allocator.allocated_state import AllocatedDevices, DeviceID
from kubeskew.scheduler.allocator.claims import AllocationError


def test_match_attribute_finds_a_common_value():
    """Devices of a constrained claim share the attribute; others are passed over."""
    devices = [a_device("a", numa=0), a_device("b", numa=1), a_device("c", numa=1)]
    claim = a_claim(a_request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])

    assert chosen(allocate([a_slice(devices)], claim)) == [[("req-0", "b"), ("req-0", "c")]]


def test_all_devices_that_break_a_constraint_are_an_error():
    """A request for all devices cannot leave one out."""
    devices = [a_device("a", numa=0), a_device("b", numa=1)]
    claim = a_claim(all_devices(), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])

    with pytest.raises(
        AllocationError, match=r"cannot add device gpu\.example\.com/pool-1/b because a claim"
    ):
        allocate([a_slice(devices)], claim)


def test_all_devices_meet_a_constraint_after_another_claim_chose_otherwise():
    """Devices that look the same are tried one after the other, up to the one that makes it an error."""
    slices = [a_slice([a_device(name) for name in ("d1", "d2", "d3")])]
    everything = a_claim(all_devices(), name="claim-1", constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    with pytest.raises(AllocationError, match=r"cannot add device gpu\.example\.com/pool-1/d1 because"):
        allocate(slices, a_claim(a_request(count=2)), everything)


@pytest.mark.parametrize(
    ("capacity", "request_", "expected"),
    [
        ({}, {"capacity": {"requests": {"memory": "1"}}}, None),
        ({"memory": {"value": "4"}}, {"capacity": {"requests": {"memory": "5"}}}, None),
        ({"memory": {"value": "4"}}, {"capacity": {"requests": {"memory": "4"}}}, [[("req-0", "d1")]]),
        ({"memory": {"value": "4", "requestPolicy": {"validRange": {"min": "1", "max": "2"}}}}, {}, None),
    ],
)
def test_a_device_for_one_user_must_have_the_capacity_too(capacity, request_, expected):
    """A device that nobody can share has to have what is asked for, too, within its policy."""
    slices = [a_slice([a_device("d1") | {"capacity": capacity}])]
    assert chosen(allocate(slices, a_claim(a_request(**request_)))) == expected


@pytest.mark.parametrize(("version", "expected"), [("1.35", ["d1", "d1"]), ("1.36", ["d1", "d2"])])
def test_shares_of_one_device_for_one_request(version, expected):
    """Up to 1.35 a request for two devices gets two shares of one; since 1.36 later devices are tried."""
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
    slices = [a_slice([a_device(name) | shared for name in ("d1", "d2")])]
    claim = a_claim(a_request(count=2, capacity={"requests": {"memory": "1"}}))
    (found,) = allocate(slices, claim, version=version, gates={"DRAConsumableCapacity": True})
    assert [result["device"] for result in found["devices"]["results"]] == expected


def test_admin_access_needs_its_gate():
    """Without the gate even `adminAccess: false` is refused."""
    with pytest.raises(AllocationError, match="admin access is requested, but the feature is disabled"):
        allocate([a_slice(TWO)], a_claim(a_request(adminAccess=False)), gates={"DRAAdminAccess": False})


def test_admin_access_looks_past_other_users():
    """An administrator gets a device that somebody else uses, marked in the result."""
    found = allocate([a_slice(TWO)], a_claim(a_request(adminAccess=True)), allocated=[("pool-1", "a")])

    assert found[0]["devices"]["results"] == [
        {"request": "req-0", "driver": DRIVER, "pool": "pool-1", "device": "a", "adminAccess": True}
    ]


def test_books_of_shares():
    """Shares of a device add up, and leave the device free when the last one goes."""
    book, device = AllocatedDevices(), DeviceID(DRIVER, "pool-1", "a")
    one, two = {"memory": Quantity.parse("1Gi")}, {"memory": Quantity.parse("2Gi")}
    book.add(device, one)
    book.add(device, two)
    together = str(book.state.consumed[device]["memory"])
    book.remove(device, one)
    left = str(book.state.consumed[device]["memory"])
    book.remove(device, two)

    assert (together, left) == ("3Gi", "2Gi")
    assert not book.state.uses(device)
    assert book.state.releases() == 2
