"""A device of a slice, with what is computed about it once: its CEL value and which selectors it meets."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from apimachinery.cel.device_features import DeviceFeatures
from apimachinery.cel.devices import Selector, device_value
from apimachinery.cel.errors import CELError
from apimachinery.node_selectors import selector_matches

Object = Mapping[str, Any]


class DeviceID(NamedTuple):
    """What names a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class Device:
    """Lives as long as the slice object it came from, across scheduling cycles."""

    __slots__ = ("_features", "_matches", "_value", "id", "per_node", "slice", "spec", "usable", "verdicts")

    def __init__(
        self, identity: DeviceID, spec: Object, slice_spec: Object, features: DeviceFeatures
    ) -> None:
        self.id = identity
        self.spec = spec
        self.slice = slice_spec
        self._features = features
        self._value: dict[str, Any] | None = None
        self._matches: dict[Selector, bool | CELError] = {}
        self.verdicts: dict[object, bool] = {}  # of whole lists of selectors, by RequestPlan.key
        self.per_node = bool(slice_spec.get("perDeviceNodeSelection"))
        # Shared counters and binding conditions are not accounted for: such a device is never given out.
        self.usable = not spec.get("consumesCounters") and not spec.get("bindingConditions")

    def meets(self, selector: Selector) -> bool:
        """Whether the selector holds for the device; raises CELError."""
        known = self._matches.get(selector)
        if known is None:
            known = self._matches[selector] = self._evaluate(selector)
        if isinstance(known, CELError):
            raise known
        return known

    def _evaluate(self, selector: Selector) -> bool | CELError:
        try:
            if self._value is None:
                self._value = device_value(self.id.driver, self.spec, self._features)
            return selector.matches(self._value)
        except CELError as error:
            return error

    def is_on(self, labels: Mapping[str, str], node: str) -> bool:
        """Whether the device is for the node, if its slice leaves that to its devices."""
        return not self.per_node or bool(on_node(self.spec, labels, node))

    def attribute(self, qualified_name: str) -> Object | None:
        """By its full name, or by the bare one if the domain is the driver's."""
        attributes: Mapping[str, Object] = self.spec.get("attributes") or {}
        found = attributes.get(qualified_name)
        if found is not None:
            return found
        domain, _, name = qualified_name.partition("/")
        return attributes.get(name) if domain == self.id.driver else None


def on_node(selection: Object, labels: Mapping[str, str], node: str) -> bool | None:
    """Whether `nodeName`, `allNodes` or `nodeSelector` of a slice or device selects the node; None if none
    of them is set."""
    if selection.get("nodeName"):
        return bool(selection["nodeName"] == node)
    if selection.get("allNodes"):
        return True
    if selection.get("nodeSelector") is not None:
        return selector_matches(selection["nodeSelector"], labels, node)
    return None
