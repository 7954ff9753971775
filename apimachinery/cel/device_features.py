"""What the expressions of device selectors may use, by version and gates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceFeatures:
    """What the environment of a selector has; `stored` expressions may use all of it."""

    consumable_capacity: bool = False
    list_attributes: bool = False
    stored: bool = False
    minor: int = 36
