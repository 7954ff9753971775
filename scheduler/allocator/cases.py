"""Allocation cases as data: the lines that `kubeskew allocate --jsonl` reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.gates import FeatureGates
from apimachinery.versions import Version
from scheduler.allocator.allocator import Allocator
from scheduler.allocator.devices import DeviceID
from scheduler.allocator.errors import AllocationError
from scheduler.allocator.pools import SliceIndex
from scheduler.allocator.rules import AllocatorRules

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CaseNode:
    """The node of a case."""

    name: str
    labels: Mapping[str, str]


class ListedClasses:
    """Device classes of a case."""

    def __init__(self, classes: list[Object]) -> None:
        self._classes = {each["metadata"]["name"]: each for each in classes}

    def device_class(self, name: str) -> Object:
        found = self._classes.get(name)
        if found is None:
            raise LookupError(' "not found" not found')  # as recorded
        return found


def run_case(case: Mapping[str, Any]) -> Object:
    """`{"allocations": […] | None}` or `{"error": text}`; raises ValueError for an unusable case."""
    version = Version.parse(case.get("version") or "1.36")
    rules = AllocatorRules.of(version, FeatureGates(version, case.get("featureGates") or {}))
    slices = SliceIndex.of(rules, case.get("slices") or ())
    allocated = {
        DeviceID(each["driver"], each["pool"], each["device"]) for each in case.get("allocatedDevices") or ()
    }
    node = case["node"]["metadata"]
    allocator = Allocator(rules, ListedClasses(case.get("classes") or []), slices, allocated)
    try:
        found = allocator.allocate(CaseNode(node["name"], node.get("labels") or {}), case.get("claims") or [])
    except AllocationError as error:
        return {"error": str(error)}
    return {"allocations": found}
