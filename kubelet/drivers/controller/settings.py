"""Reads what the cluster file says of a driver's controller."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Holds the settings below `controller` in the cluster file."""

    node_local: bool = True  # else a claim can be used on every node of the driver
    shareable: bool = False


def parse_settings(value: Any) -> ControllerSettings | None:
    """Returns None for no controller. Raises ValueError."""
    if value is None or value is False:
        return None
    if value is True:
        return ControllerSettings()
    known = {"nodeLocal": "node_local", "shareable": "shareable"}
    if not isinstance(value, Mapping) or not set(value) <= set(known):
        raise ValueError("controller: expected true, or a mapping with nodeLocal and shareable")
    if not all(isinstance(flag, bool) for flag in value.values()):
        raise ValueError("controller: nodeLocal and shareable are true or false")
    return ControllerSettings(**{known[key]: flag for key, flag in value.items()})
