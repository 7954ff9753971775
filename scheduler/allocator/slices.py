"""A slice, as the allocator keeps it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.scheduler.allocator.allocated_state import DeviceID
from kubeskew.scheduler.allocator.devices import Device, amounts, fault_of, on_node, unread_selector
from kubeskew.scheduler.allocator.errors import AllocationError
from kubeskew.scheduler.allocator.features import AllocatorFeatures

_GATHERING = "gather pool information"


class PoolID(NamedTuple):
    """Identifies a pool: its name belongs to a driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return "/".join(self)


class NodeView(Protocol):
    """The facts about a node that the allocator needs."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


class Slice:
    """A ResourceSlice and its devices."""

    __slots__ = ("counter_sets", "devices", "everywhere", "fault", "name", "pool", "spec")

    def __init__(self, name: str, spec: ObjectView, features: AllocatorFeatures) -> None:
        self.name = name
        self.spec = spec
        self.pool = PoolID(spec["driver"], spec["pool"]["name"])
        sets = (spec.get("sharedCounters") or ()) if features.knows_partitions else ()
        self.counter_sets = [(counter_set["name"], amounts(counter_set)) for counter_set in sets]
        self.fault = fault_of(spec)
        self.everywhere = features.counters_everywhere and bool(self.counter_sets)
        self.devices: Sequence[Device] = [
            Device(DeviceID(*self.pool, device["name"]), device, self, features)
            for device in spec.get("devices") or ()
        ]

    @property
    def generation(self) -> int:
        return int(self.spec["pool"].get("generation") or 0)

    @property
    def pool_size(self) -> int:
        """Returns the number of slices in the pool, as this slice says."""
        return int(self.spec["pool"].get("resourceSliceCount") or 0)

    def is_for(self, node: NodeView, features: AllocatorFeatures) -> bool:
        """Returns whether the slice is for the node; an unknown kind of selection selects nothing.

        Raises AllocationError for a selector that cannot be read.
        """
        partitions = features.gates.partitionable_devices
        if not partitions and self.spec.get("perDeviceNodeSelection") is not None:
            return False
        if features.counters_need_gate and self.counter_sets and not partitions:
            return False
        if self.everywhere:
            return True
        if self.fault:
            raise AllocationError(self._unreadable(features))
        found = on_node(self.spec, node.labels, node.name)
        if found is None and self.spec.get("perDeviceNodeSelection"):
            return any(self._is_for(device, node) for device in self.devices)
        return bool(found)

    def _is_for(self, device: Device, node: NodeView) -> bool:
        try:
            return device.is_on(node.labels, node.name)
        except AllocationError as error:
            where = f"device {device.id.device} in slice {self.name}"
            raise AllocationError(
                f"{_GATHERING}: failed to perform node selection for {where}: {error}"
            ) from None

    def _unreadable(self, features: AllocatorFeatures) -> str:
        if features.knows_partitions:
            text = unread_selector(self.spec["nodeSelector"], self.fault)
            return f"{_GATHERING}: failed to perform node selection for slice {self.name}: {text}"
        return f"{_GATHERING}: node selector in resource slice {self.name}: {self.fault}"
