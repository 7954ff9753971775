"""The CEL features that expressions of device selectors may use, by version and gates."""

from dataclasses import dataclass

_SHARING_SINCE, _LISTS_SINCE, _LISTS_STORED_SINCE = 34, 36, 37  # the last: pull request 139395


@dataclass(frozen=True, slots=True)
class DeviceFeatures:
    """The features of a selector's environment; `stored` expressions may use all that the server knows."""

    consumable_capacity: bool = False
    list_attributes: bool = False
    stored: bool = False
    minor: int = 36

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
        return self.list_attributes or (self.stored and self.minor >= _LISTS_STORED_SINCE)

    @property
    def list_values(self) -> bool:
        """Returns whether attributes may be lists when an expression is evaluated."""
        return self.list_attributes or self.minor >= _LISTS_STORED_SINCE
