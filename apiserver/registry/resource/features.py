"""Holds the decisions about the rules of resource.k8s.io that depend on the version and the gates.

Source: pkg/apis/resource/validation/validation.go, 1.31 to 1.37. Since 1.35 the hand-written rules say what
the declarative ones say (in which minor each of those texts changed is from memory).
"""

from dataclasses import dataclass

from kubeskew.apimachinery.cel.device_features import DeviceFeatures

_EXACTLY_SINCE = 33  # before, requests and devices held their fields otherwise
_DECLARED_SINCE = 35


@dataclass(frozen=True, slots=True)
class DeviceRules:
    """Of one server."""

    minor: int
    consumable_capacity: bool = False
    list_attributes: bool = False
    fractional_capacity: bool = False
    partition_types: bool = False

    def selectors(self, *, stored: bool) -> DeviceFeatures:
        """Returns the features that expressions of selectors may use; `stored`: they were accepted before."""
        return DeviceFeatures(self.consumable_capacity, self.list_attributes, stored, self.minor)

    @property
    def exactly(self) -> str:
        """The field of an exact request in paths, empty where it is the request itself."""
        return "exactly" if self.minor >= _EXACTLY_SINCE else ""

    @property
    def wrapper(self) -> str:
        """The field that holds a device's fields in paths, empty where it is the device itself."""
        return "" if self.minor >= _EXACTLY_SINCE else "basic"

    @property
    def declared(self) -> bool:
        """A list over its limit is told alone, a repeat at the item, a bad part of a name as Invalid."""
        return self.minor >= _DECLARED_SINCE

    @property
    def checks_stored(self) -> bool:
        """An update checks once more, as new, what it cannot or need not change."""
        return self.minor < _DECLARED_SINCE

    @property
    def keys_at_map(self) -> bool:
        """A bad key of a map is told at the map, not at the key."""
        return self.minor >= 37

    @property
    def trusts_stored(self) -> bool:
        """Expressions that were accepted before are not compiled again."""
        return self.minor >= 37

    @property
    def effects(self) -> tuple[str, ...]:
        """The effects of taints, sorted."""
        return ("NoExecute", "NoSchedule", "None") if self.minor >= 35 else ("NoExecute", "NoSchedule")

    @property
    def max_taints(self) -> int:
        return 16 if self.minor >= 35 else 4

    @property
    def object_text(self) -> str:
        """Of parameters that are no JSON object."""
        return "must be a valid JSON object" if self.declared else "parameters must be a valid JSON object"
