"""The device allocator alone: `python -m benchmarks.allocating`.

Microseconds of CPU per node that is asked, by the kind of devices and their number, while pods take devices
one after the other on the first node that has them; and the same for searches that have to step back.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.scheduler.allocator.allocated_state import AllocatedDevices
from kubeskew.scheduler.allocator.allocator import Allocator
from kubeskew.scheduler.allocator.claims import allocated_devices
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import SliceIndex
from kubeskew.scheduler.plugins.dynamicresources.taint_rules import DeviceClasses

DRIVER = "gpu.example.com"
_PROFILES = {"1g": (1, 7), "2g": (2, 3), "3g": (4, 2), "4g": (4, 1), "7g": (8, 1)}  # slices, placements


class Node(NamedTuple):
    name: str
    labels: Mapping[str, str]


def slices_of(node: str, *contents: Object) -> Iterator[Object]:
    """Each node has one pool, with one slice per content."""
    for number, content in enumerate(contents):
        pool = {"name": node, "generation": 1, "resourceSliceCount": len(contents)}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **content}
        yield {"metadata": {"name": f"{node}-{number}"}, "spec": spec}


def plain(node: str, devices: int) -> Iterator[Object]:
    named = [{"name": f"gpu-{i}", "attributes": {"size": {"string": "1g"}}} for i in range(devices)]
    return slices_of(node, {"devices": named})


def partitions(node: str, devices: int) -> Iterator[Object]:
    """GPUs with all their partitions, which share the GPU's memory slices."""
    gpus = range(max(1, devices // sum(count for _, count in _PROFILES.values())))
    sets = [{"name": f"gpu-{gpu}", "counters": {"memory": {"value": "8"}}} for gpu in gpus]
    parts = [
        {
            "name": f"gpu-{gpu}-{profile}-{place}",
            "attributes": {"size": {"string": profile}, "gpu": {"int": gpu}},
            "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": {"memory": {"value": str(size)}}}],
        }
        for gpu in gpus
        for profile, (size, count) in _PROFILES.items()
        for place in range(count)
    ]
    return slices_of(node, {"sharedCounters": sets}, {"devices": parts})


def shared(node: str, devices: int) -> Iterator[Object]:
    """Every pod gets an eighth of a device."""
    policy = {"default": "1", "validValues": ["1"]}
    device = {
        "attributes": {"size": {"string": "1g"}},
        "allowMultipleAllocations": True,
        "capacity": {"eighths": {"value": "8", "requestPolicy": policy}},
    }
    return slices_of(node, {"devices": [{"name": f"gpu-{i}", **device} for i in range(devices)]})


def claim(*sizes: str, same: str = "") -> Object:
    requests = []
    for number, size in enumerate(sizes):
        expression = f"device.attributes['{DRIVER}'].size == '{size}'"
        exactly = {
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 1,
            "selectors": [{"cel": {"expression": expression}}],
        }
        requests.append({"name": f"r{number}", "exactly": exactly})
    devices: Object = {"requests": requests}
    if same:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/{same}"}]
    return {"metadata": {"namespace": "default", "name": "claim"}, "spec": {"devices": devices}}


class Setup:
    def __init__(self, make: Callable[[str, int], Iterator[Object]], nodes: int, devices: int) -> None:
        gates = FeatureGates(DEFAULT_VERSION)
        features = AllocatorFeatures.of(gates)
        classes, index = DeviceClasses(), SliceIndex(features)
        classes.set_class({"metadata": {"name": "gpu"}, "spec": {}})
        self.nodes = [Node(f"node-{i}", {}) for i in range(nodes)]
        for node in self.nodes:
            for slice_ in make(node.name, devices):
                index.set_slice(slice_)
        self.book = AllocatedDevices()
        self._allocator = Allocator(features, classes, index, self.book.state, SeededEntropy(7).uid)

    def place(self, pod: Object) -> int:
        """Asks every node and takes the first one's devices; the number of nodes that have some."""
        plans = self._allocator.plan([pod])
        found = [each for node in self.nodes if (each := self._allocator.find(node, plans)) is not None]
        if found:
            for device in allocated_devices(found[0].results()[0], shares=True):
                self.book.add(*device)
        return len(found)


def measure(name: str, setup: Setup, pod: Object, pods: int) -> None:
    setup.place(pod)  # selectors are evaluated once per device
    start = time.process_time()
    for _ in range(pods):
        setup.place(pod)
    spent = time.process_time() - start
    print(f"{name:42} {spent / pods / len(setup.nodes) * 1e6:8.1f} µs per node")


def main() -> None:
    for nodes in (50, 500):
        for devices in (14, 56):
            size = f"{nodes} nodes x {devices} devices"
            measure(f"plain devices, {size}", Setup(plain, nodes, devices), claim("1g"), 100)
            measure(f"partitions, {size}", Setup(partitions, nodes, devices), claim("1g"), 100)
            measure(f"shared devices, {size}", Setup(shared, nodes, devices), claim("1g"), 100)
    pair = claim("1g", "2g", same="gpu")
    measure("two partitions of one GPU, 50 nodes x 56", Setup(partitions, 50, 56), pair, 20)
    hopeless = claim(*["1g"] * 6, *["2g"] * 6, *["7g"] * 4)
    measure("16 requests that cannot fit, 1 node x 56", Setup(partitions, 1, 56), hopeless, 3)


if __name__ == "__main__":
    main()
