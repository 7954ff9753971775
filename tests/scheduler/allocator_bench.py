"""Slices, classes and claims for tests of the allocator."""

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.allocated_state import AllocatedState, DeviceID
from kubeskew.scheduler.allocator.allocator import Allocator
from kubeskew.scheduler.allocator.cases import CaseNode, ListedClasses
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import SliceIndex

DRIVER = "gpu.example.com"


NODE = CaseNode("node-1", {"zone": "a"})


def a_device(name, **attributes):
    kinds = {str: "string", int: "int", bool: "bool"}
    return {"name": name, "attributes": {key: {kinds[type(v)]: v} for key, v in attributes.items()}}


def a_slice(devices, *, name="slice-1", pool="pool-1", generation=1, count=1, **selection):
    selection = selection or {"nodeName": "node-1"}
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": devices,
        **selection,
    }
    return {"metadata": {"name": name}, "spec": spec}


def a_request(name="req-0", count=1, expression="", **exactly):
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **exactly}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": exactly}


def all_devices(name="req-0"):
    return {"name": name, "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}


def a_claim(*requests, name="claim-0", **devices):
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"devices": {"requests": [*requests], **devices}},
    }


def a_class(**spec):
    return {"metadata": {"name": "gpu"}, "spec": spec}


def allocate(slices, *claims, version="1.36", allocated=(), classes=None, gates=None, bugs=None):
    release = Version.parse(version)
    features = AllocatorFeatures.of(FeatureGates(release, gates or {}, bugs))
    used = {DeviceID(DRIVER, pool, device) for pool, device in allocated}
    listed = ListedClasses(classes if classes is not None else [a_class()])
    return allocator_of(features, slices, AllocatedState(used), listed).allocate(NODE, [*claims])


def allocator_of(features, slices, state=None, classes=None):
    classes = classes or ListedClasses([a_class()])
    return Allocator(
        features, classes, SliceIndex.of(features, slices), state or AllocatedState(), lambda: "share"
    )


def chosen(allocations):
    if allocations is None:
        return None
    return [
        [(result["request"], result["device"]) for result in allocation["devices"].get("results", [])]
        for allocation in allocations
    ]


TWO = [a_device("a", index=0), a_device("b", index=1)]
