"""The CEL features that expressions of device selectors may use, by version and gates."""

from dataclasses import dataclass

from kubeskew.apimachinery.versions import entry

# The releases whose API has these fields, though a gate may keep them off.
_SHARING = {0: False, 34: True}
_LISTS = {0: False, 36: True}


@dataclass(frozen=True, slots=True)
class DeviceFeatures:
    """The features of a selector's environment; `stored` expressions may use all that the server knows.

    `lists_ungated`: with known bug 139395 repaired, attributes may be lists though the gate is off.
    `unsized`: what an expression may cost is estimated as if devices had no limits, and were of any size.
    """

    consumable_capacity: bool = False
    list_attributes: bool = False
    stored: bool = False
    minor: int = 36
    lists_ungated: bool = False
    unsized: bool = False

    @property
    def knows_sharing(self) -> bool:
        """Returns whether devices say if they allow several allocations."""
        return entry(_SHARING, self.minor) and (self.consumable_capacity or self.stored)

    @property
    def knows_includes(self) -> bool:
        return entry(_LISTS, self.minor) and (self.list_attributes or self.stored)

    @property
    def dynamic_attributes(self) -> bool:
        """Returns whether attributes may be lists when an expression is compiled."""
        return self.list_attributes or (self.stored and self._lists_ungated)

    @property
    def list_values(self) -> bool:
        """Returns whether attributes may be lists when an expression is evaluated."""
        return self.list_attributes or self._lists_ungated

    @property
    def _lists_ungated(self) -> bool:
        return entry(_LISTS, self.minor) and self.lists_ungated
