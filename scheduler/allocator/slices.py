"""Slices and their devices, as the allocator keeps them, with results computed once, and the nodes on which
they are by `nodeName`, `allNodes` or `nodeSelector`.

A slice has its devices, and each of them knows its slice: its pool, its counters, the node that it is for.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kubeskew.apimachinery.cel.devices import Selector, device_value
from kubeskew.apimachinery.cel.errors import CELError
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.selectors.nodes import selector_matches
from kubeskew.scheduler.allocator.allocated_state import Capacity, DeviceID, capacity_of
from kubeskew.scheduler.allocator.claims import AllocationError
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.framework.node_selector_errors import selector_fault, selector_text

Consumption = Sequence[tuple[str, Mapping[str, int]]]  # (counter set, counter → amount in nanos)

_PREVENTING = ("NoSchedule", "NoExecute")  # effects; since 1.35 None and unknown ones prevent nothing
_GATHERING = "gather pool information"


def on_node(selection: ObjectView, labels: Mapping[str, str], node: str) -> bool | None:
    """Evaluates `nodeName`, `allNodes` or `nodeSelector` of a slice or device; None if none of them is
    set."""
    if selection.get("nodeName"):
        return bool(selection["nodeName"] == node)
    if selection.get("allNodes"):
        return True
    if selection.get("nodeSelector") is not None:
        return selector_matches(selection["nodeSelector"], labels, node)
    return None


def fault_of(selection: ObjectView) -> str:
    """Error text of the `nodeSelector` of a slice or device; empty if it has none, or uses another field."""
    selector = selection.get("nodeSelector")
    if selector is None or selection.get("nodeName") or selection.get("allNodes"):
        return ""
    return selector_fault(selector)


def unread_selector(selector: ObjectView, fault: str) -> str:
    return f"failed to parse node selector {selector_text(selector)}: {fault}"


class PoolID(NamedTuple):
    """A pool's name is unique only within its driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return "/".join(self)


class NodeView(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


class Device:
    """A device; it lives as long as its slice object, over several scheduling cycles."""

    __slots__ = (
        "_capacities",
        "_features",
        "_matches",
        "_value",
        "counters",
        "fault",
        "id",
        "per_node",
        "plain",
        "shareable",
        "slice",
        "spec",
        "taints",
        "usable",
        "verdicts",
    )

    def __init__(
        self, identity: DeviceID, spec: ObjectView, origin: "Slice", features: AllocatorFeatures
    ) -> None:
        gates = features.gates
        self.id = identity
        self.spec = spec
        self.slice = origin
        self._features = features
        self._value: dict[str, Any] | None = None
        self._capacities: dict[str, Capacity] | None = None
        self._matches: dict[Selector, bool | CELError] = {}
        self.verdicts: dict[object, bool] = {}  # results of lists of selectors, by RequestPlan.key
        self.per_node = bool(origin.spec.get("perDeviceNodeSelection"))
        self.fault = fault_of(spec) if self.per_node else ""
        self.counters = _consumption(spec) if features.knows_partitions else ()
        self.shareable = gates.consumable_capacity and bool(spec.get("allowMultipleAllocations"))
        self.taints: Sequence[ObjectView] = ()
        if gates.device_taints:
            taints: Sequence[ObjectView] = spec.get("taints") or ()
            every = features.every_taint_prevents
            self.taints = [taint for taint in taints if every or taint.get("effect") in _PREVENTING]
        self.usable = (
            gates.binding_conditions or not features.knows_binding or not spec.get("bindingConditions")
        )
        # only selectors, nodes, users and requested capacity matter for a plain device
        policies = gates.consumable_capacity and any(
            capacity.get("requestPolicy") is not None for capacity in (spec.get("capacity") or {}).values()
        )
        self.plain = self.usable and not (self.counters or self.shareable or self.taints or policies)

    @property
    def capacities(self) -> Mapping[str, Capacity]:
        if self._capacities is None:
            listed: Mapping[str, ObjectView] = self.spec.get("capacity") or {}
            self._capacities = {name: capacity_of(capacity) for name, capacity in listed.items()}
        return self._capacities

    def meets(self, selector: Selector) -> bool:
        """The device keeps the selector's result, also an error; raises CELError."""
        known = self._matches.get(selector)
        if known is None:
            known = self._matches[selector] = self._evaluate(selector)
        if isinstance(known, CELError):
            raise known
        return known

    def _evaluate(self, selector: Selector) -> bool | CELError:
        try:
            if self._value is None:
                self._value = device_value(self.id.driver, self.spec, self._features.cel)
                self._value["allowMultipleAllocations"] &= self._features.knows_sharing
            return selector.matches(self._value)
        except CELError as error:
            return error

    def is_on(self, labels: Mapping[str, str], node: str) -> bool:
        """Only devices whose slice leaves the choice of nodes to them can be off the node.

        Raises AllocationError if the device's selector cannot be read.
        """
        if self.fault:
            raise AllocationError(unread_selector(self.spec["nodeSelector"], self.fault))
        return not self.per_node or bool(on_node(self.spec, labels, node))

    def attribute(self, qualified_name: str) -> ObjectView | None:
        """A bare name matches if the domain is the driver's."""
        attributes: Mapping[str, ObjectView] = self.spec.get("attributes") or {}
        found = attributes.get(qualified_name)
        if found is not None:
            return found
        domain, slash, name = qualified_name.partition("/")
        return attributes.get(name) if slash and domain == self.id.driver else None


class Slice:
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
        """Number of slices in the pool according to this slice; others may differ."""
        return int(self.spec["pool"].get("resourceSliceCount") or 0)

    def is_for(self, node: NodeView, features: AllocatorFeatures) -> bool:
        """An unknown kind of selection selects no node.

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


def _consumption(spec: ObjectView) -> Consumption:
    return [(consumed["counterSet"], amounts(consumed)) for consumed in spec.get("consumesCounters") or ()]


def amounts(spec: ObjectView) -> Mapping[str, int]:
    """Amounts are in nanos: whole numbers are cheap to compare."""
    return {name: nanos(counter.get("value")) for name, counter in (spec.get("counters") or {}).items()}


def nanos(value: Any) -> int:
    quantity = Quantity.of(value)
    return int(quantity.unscaled * 10 ** (quantity.exponent + 9))
