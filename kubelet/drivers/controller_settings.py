"""Reads what the cluster file says of a driver's controller."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FLAGS = {"nodeLocal": "node_local", "shareable": "shareable"}  # key → field
DEFAULT_PARAMETERS = ("dra.example.com", "CardParameters")  # as in the draft of KEP-4381


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Holds the settings below `controller` in the cluster file."""

    node_local: bool = True  # else a claim can be used on every node of the driver
    shareable: bool = False
    parameters: tuple[str, str] | None = None  # group and kind that it makes semantic parameters of
    user_limit: int = 1  # KEP-3063 as drafted: how many pods may use a claim, -1 for any number


def parse_settings(value: Any) -> ControllerSettings | None:
    """Returns None for no controller. Raises ValueError."""
    if value is None or value is False:
        return None
    if value is True:
        return ControllerSettings()
    if not isinstance(value, Mapping) or not set(value) <= {*FLAGS, "userLimit", "semanticParameters"}:
        known = "nodeLocal, shareable, userLimit and semanticParameters"
        raise ValueError(f"controller: expected true, or a mapping with {known}")
    chosen = {FLAGS[key]: flag for key, flag in value.items() if key in FLAGS}
    if not all(isinstance(flag, bool) for flag in chosen.values()):
        raise ValueError("controller: nodeLocal and shareable are true or false")
    limit = value.get("userLimit", 1)
    if isinstance(limit, bool) or not isinstance(limit, int) or not (limit > 0 or limit == -1):
        raise ValueError(f"controller: userLimit is a number above 0, or -1 for any; found {limit!r}")
    return ControllerSettings(**chosen, user_limit=limit, parameters=_parameters(value))


def _parameters(value: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns group and kind of the vendor's parameters; None if the controller allocates claims itself."""
    chosen = value.get("semanticParameters", False)
    if chosen is False:
        return None
    if chosen is True:
        return DEFAULT_PARAMETERS
    if not isinstance(chosen, Mapping) or set(chosen) != {"apiGroup", "kind"}:
        raise ValueError("controller: semanticParameters is true, or a mapping with apiGroup and kind")
    return str(chosen["apiGroup"]), str(chosen["kind"])
