"""The parts that all profiles share: the hardware, repeatable identifiers, plain values."""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.objects import Object


@dataclass(frozen=True, slots=True)
class Hardware:
    """Pieces of hardware of one driver in a node. `attributes` and `capacity` change each device."""

    driver: str
    node: str
    count: int
    name: str = "gpu"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)


def device(
    hardware: Hardware, name: str, attributes: Mapping[str, Any], capacity: Mapping[str, str]
) -> Object:
    """Returns a device with these attributes and capacities; the hardware's own override them."""
    values = {key: attribute(value) for key, value in {**attributes, **hardware.attributes}.items()}
    amounts = {**capacity, **hardware.capacity}
    return {
        "name": name,
        "attributes": {key: value for key, value in values.items() if value is not None},
        "capacity": {key: {"value": amount} for key, amount in amounts.items()},
    }


def attribute(value: Any) -> Object | None:
    """Returns a plain value as the API writes it; a dict is taken as it is, null removes the attribute."""
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": str(value)}


def version(text: str) -> Object:
    """Returns a semantic version as an attribute."""
    return {"version": text}


def counters(amounts: Mapping[str, str]) -> Object:
    return {name: {"value": amount} for name, amount in amounts.items()}


def identifier(hardware: Hardware, name: str) -> str:
    """Returns the same UUID for the same device every time."""
    parts = "/".join((hardware.node, hardware.driver, name))
    return str(uuid.UUID(bytes=hashlib.sha256(parts.encode()).digest()[:16], version=4))
