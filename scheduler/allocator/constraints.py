"""Constraints between the devices of a claim, as counters that devices enter and leave."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from scheduler.allocator.devices import Device

_KINDS = ("string", "int", "bool", "version")


class ConstraintState(Protocol):
    """What a constraint remembers during one search."""

    def add(self, request: str, device: Device) -> bool:
        """Whether the device may join; it has joined if so."""
        ...

    def remove(self, request: str) -> None:
        """The device that joined last leaves again."""
        ...


@dataclass(frozen=True, slots=True)
class MatchAttribute:
    """All devices of the named requests (all requests if none is named) share an attribute's value."""

    attribute: str
    requests: frozenset[str]

    def start(self) -> ConstraintState:
        return _Matching(self)


class _Matching:
    def __init__(self, constraint: MatchAttribute) -> None:
        self._attribute = constraint.attribute
        self._requests = constraint.requests
        self._value: tuple[str, Any] | None = None
        self._devices = 0

    def add(self, request: str, device: Device) -> bool:
        if self._requests and request not in self._requests:
            return True
        value = scalar(device.attribute(self._attribute))
        if value is None or (self._devices and value != self._value):
            return False
        self._value = value
        self._devices += 1
        return True

    def remove(self, request: str) -> None:
        if not self._requests or request in self._requests:
            self._devices -= 1


def scalar(attribute: Mapping[str, Any] | None) -> tuple[str, Any] | None:
    """The value with its type: equal values of different types do not match."""
    for kind in _KINDS:
        if attribute is not None and attribute.get(kind) is not None:
            return kind, attribute[kind]
    return None
