"""Counts, for scores, the devices of DRA drivers on a node that back an extended resource, and those in use.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources/resource_allocation.go
(calculateDRAExtendedResourceAllocatableRequest), 1.36; from 1.35 on (pull request 134058).
"""

from collections.abc import Callable
from typing import NamedTuple

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.cel.devices import Selector, compile_selector
from kubeskew.apimachinery.cel.errors import CELError
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.allocated_state import AllocatedState, DeviceID
from kubeskew.scheduler.allocator.pools import SliceIndex
from kubeskew.scheduler.allocator.slices import NodeView


class Total(NamedTuple):
    present: int
    in_use: int


_NONE = Total(0, 0)


class DeviceTotals:
    """Counts the devices that the selectors of a resource's class select, in any state of pools and devices.

    `class_for` returns the class of an extended resource.
    """

    def __init__(
        self,
        class_for: Callable[[str], Object | None],
        slices: SliceIndex,
        allocated: AllocatedState,
        features: DeviceFeatures,
        *,
        forgets_shares: bool = False,
    ) -> None:
        """`forgets_shares`: a device of which claims have shares counts as free if they take no capacity."""
        self._class_for = class_for
        self._slices = slices
        self._allocated = allocated
        self._features = features
        self._forgets_shares = forgets_shares

    def of(self, resource: str, node: NodeView) -> Total:
        """Both numbers are 0 if no class backs the resource, or a selector of the class fails."""
        device_class = self._class_for(resource)
        if device_class is None:
            return _NONE
        present = in_use = 0
        try:
            selectors = self._selectors(device_class)
            for device in self._slices.devices(node):
                if all(device.meets(selector) for selector in selectors):
                    present += 1
                    in_use += self._in_use(device.id)
        except CELError:
            return _NONE
        return Total(present, in_use)

    def _in_use(self, device: DeviceID) -> bool:
        allocated = self._allocated
        if self._forgets_shares:
            return device in allocated.devices or device in allocated.consumed
        return allocated.uses(device)

    def _selectors(self, device_class: Object) -> list[Selector]:
        listed = (device_class.get("spec") or {}).get("selectors") or ()
        return [
            compile_selector(selector["cel"]["expression"], self._features)
            for selector in listed
            if selector.get("cel")
        ]
