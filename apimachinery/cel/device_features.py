"""The CEL features that expressions of device selectors may use, by version and gates."""

from dataclasses import dataclass

_SHARING_SINCE, _LISTS_SINCE = 34, 36


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
        return self.minor >= _SHARING_SINCE and (self.consumable_capacity or self.stored)

    @property
    def knows_includes(self) -> bool:
        return self.minor >= _LISTS_SINCE and (self.list_attributes or self.stored)

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
        return self.minor >= _LISTS_SINCE and self.lists_ungated
