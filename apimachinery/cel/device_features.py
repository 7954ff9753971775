"""The features of the CEL environment of device selectors, by version and gates."""

from dataclasses import dataclass

from kubeskew.apimachinery.versions import entry

# The releases whose API has these fields; a gate may disable them.
_SHARING = {0: False, 34: True}
_LISTS = {0: False, 36: True}


@dataclass(frozen=True, slots=True)
class DeviceFeatures:
    """The features that a selector may use; `stored` expressions may use all that the server knows.

    `lists_ungated`: known bug 139395 is fixed, and attributes may be lists though the gate is off.
    `unsized`: costs of expressions are estimated as if attributes of devices could have any size.
    """

    consumable_capacity: bool = False
    list_attributes: bool = False
    stored: bool = False
    minor: int = 36
    lists_ungated: bool = False
    unsized: bool = False

    @property
    def knows_sharing(self) -> bool:
        """True if selectors may read `device.allowMultipleAllocations`."""
        return entry(_SHARING, self.minor) and (self.consumable_capacity or self.stored)

    @property
    def knows_includes(self) -> bool:
        """True if selectors may call `includes`, which lists and single values have."""
        return entry(_LISTS, self.minor) and (self.list_attributes or self.stored)

    @property
    def dynamic_attributes(self) -> bool:
        """True if attributes may be lists when an expression is compiled."""
        return self.list_attributes or (self.stored and self._lists_ungated)

    @property
    def list_values(self) -> bool:
        """True if attributes may be lists when an expression is evaluated."""
        return self.list_attributes or self._lists_ungated

    @property
    def _lists_ungated(self) -> bool:
        return entry(_LISTS, self.minor) and self.lists_ungated
