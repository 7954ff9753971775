"""Runs allocation cases given as data: the lines that `kubeskew allocate --jsonl` reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.allocated_state import AllocatedState, DeviceID
from kubeskew.scheduler.allocator.allocator import Allocator
from kubeskew.scheduler.allocator.claims import AllocationError
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import SliceIndex
from kubeskew.scheduler.allocator.requests import Timer, no_limit


@dataclass(frozen=True, slots=True)
class CaseNode:
    name: str
    labels: Mapping[str, str]


class ListedClasses:
    def __init__(self, classes: Sequence[Object]) -> None:
        self._classes = {device_class["metadata"]["name"]: device_class for device_class in classes}

    def device_class(self, name: str) -> Object:
        found = self._classes.get(name)
        if found is None:
            raise LookupError(' "not found" not found')  # as recorded
        return found


def run_case(case: Mapping[str, Any], share_id: Callable[[], str], timer: Timer = no_limit) -> Object:
    """`{"allocations": […] | None}` or `{"allocations": None, "error": text}`; raises ValueError,
    LookupError, TypeError or AttributeError for an unusable case."""
    version = Version.parse(case.get("version") or "1.36")
    gates = FeatureGates(version, case.get("featureGates") or {}, case.get("bugs") or {})
    features = AllocatorFeatures.of(gates)
    slices = SliceIndex.of(features, case.get("slices") or ())
    node = case["node"]["metadata"]
    allocator = Allocator(
        features, ListedClasses(case.get("classes") or []), slices, _allocated(case), share_id
    )
    try:
        view = CaseNode(node["name"], node.get("labels") or {})
        found = allocator.find(view, allocator.plan(case.get("claims") or []), timer)
        return {
            "allocations": None if found is None else [_with_selector(result) for result in found.results()]
        }
    except AllocationError as error:
        return {"allocations": None, "error": str(error)}


def _with_selector(result: Object) -> Object:
    """Adds the node selector as recordings have it: null if the devices can be used everywhere."""
    return {"nodeSelector": None, **result}


def _allocated(case: Mapping[str, Any]) -> AllocatedState:
    consumed: dict[DeviceID, dict[str, Quantity]] = {}
    for taken in case.get("consumedCapacity") or ():
        amounts = consumed.setdefault(_device(taken), {})
        for name, amount in (taken.get("consumedCapacity") or {}).items():
            quantity = Quantity.of(amount)
            amounts[name] = amounts[name] + quantity if name in amounts else quantity
    return AllocatedState(
        frozenset(_device(device) for device in case.get("allocatedDevices") or ()),
        frozenset(_device(share) for share in case.get("allocatedShares") or ()),
        consumed,
    )


def _device(each: Mapping[str, Any]) -> DeviceID:
    return DeviceID(each["driver"], each["pool"], each["device"])
