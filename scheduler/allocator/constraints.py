"""Constraints between the devices of a claim, as counters that devices enter and leave.

A device that leaves does not always restore the state before it came. As upstream's answers depend on that,
it is kept.

Source: k8s.io/dynamic-resource-allocation/structured/internal/*/{constraint,allocator_*}.go, 1.31 … 1.37.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.slices import Device

_SCALARS = ("string", "int", "bool", "version")
_LISTS = (("ints", "int"), ("bools", "bool"), ("strings", "string"), ("versions", "version"))

Attribute = Mapping[str, Any]
Values = tuple[str, frozenset[Any]]  # with their type: equal values of different types differ


class RequestName(Protocol):
    @property
    def base(self) -> str:
        """The request's own name, also for an alternative."""
        ...

    @property
    def name(self) -> str:
        """`request/alternative` for an alternative."""
        ...


class ConstraintState(Protocol):
    """The state of a constraint during one search."""

    def add(self, request: RequestName, device: Device) -> bool:
        """Adds the device if it meets the constraint; returns whether it did."""
        ...

    def remove(self, request: RequestName) -> bool:
        """Removes the device that was added last; returns whether the state is as it was before."""
        ...


@dataclass(frozen=True, slots=True)
class Constraint:
    """All devices of the named requests (of all if none is named) must agree or differ in an attribute."""

    attribute: str
    requests: frozenset[str]
    distinct: bool
    features: AllocatorFeatures

    def start(self) -> ConstraintState:
        if not self.distinct:
            return _MatchingLists(self) if self.features.gates.list_attributes else _Matching(self)
        return _DistinctFromAll(self) if self.features.distinct_remembers_all else _Distinct(self)

    def concerns(self, request: RequestName) -> bool:
        return not self.requests or request.base in self.requests or request.name in self.requests


class _State(ABC):
    """Lets devices pass that the constraint does not concern; refuses others without the attribute."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._features = constraint.features

    def add(self, request: RequestName, device: Device) -> bool:
        if not self._constraint.concerns(request):
            return True
        attribute = device.attribute(self._constraint.attribute)
        return attribute is not None and self._join(request, device, attribute)

    def remove(self, request: RequestName) -> bool:
        return not self._constraint.concerns(request) or self._leave(request)

    @abstractmethod
    def _join(self, request: RequestName, device: Device, attribute: Attribute) -> bool:
        """`add` calls it if the constraint concerns the request and the device has the attribute."""

    @abstractmethod
    def _leave(self, request: RequestName) -> bool:
        """`remove` calls it if the constraint concerns the request."""


class _Matching(_State):
    """Scalars: the first device sets the value."""

    def __init__(self, constraint: Constraint) -> None:
        super().__init__(constraint)
        self._value: tuple[str, Any] | None = None
        self._devices = 0

    def _join(self, request: RequestName, device: Device, attribute: Attribute) -> bool:
        value = scalar(attribute)
        if self._devices and (value is None or value != self._value):
            return False
        self._value = value
        self._devices += 1
        return True

    def _leave(self, request: RequestName) -> bool:
        self._devices -= 1
        return True


class _MatchingLists(_State):
    """Sets: the common values must not become empty; up to 1.36 they never grow back."""

    def __init__(self, constraint: Constraint) -> None:
        super().__init__(constraint)
        self._common: Values | None = None
        self._before: list[Values | None] = []  # the common values when each device came

    def _join(self, request: RequestName, device: Device, attribute: Attribute) -> bool:
        values = value_set(attribute)
        common = _common(self._common, values) if self._before else values
        if common is None:
            return False
        self._before.append(self._common if self._before else common)
        self._common = common
        return True

    def _leave(self, request: RequestName) -> bool:
        before = self._before.pop()
        if self._features.common_values_restored:
            self._common = before
        return before == self._common


class _Distinct(_State):
    """Remembers one device per request: the last."""

    def __init__(self, constraint: Constraint) -> None:
        super().__init__(constraint)
        self._others: dict[str, tuple[Device, Attribute]] = {}
        self._replaced: list[bool] = []  # per device, whether another of its request was dropped

    def _join(self, request: RequestName, device: Device, attribute: Attribute) -> bool:
        others = self._others.values()
        if self._replaced and not _is_new(device, attribute, others, self._features):
            return False
        self._replaced.append(request.base in self._others)
        self._others[request.base] = (device, attribute)
        return True

    def _leave(self, request: RequestName) -> bool:
        self._others.pop(request.base, None)
        return not self._replaced.pop()


class _DistinctFromAll(_State):
    """Remembers every device."""

    def __init__(self, constraint: Constraint) -> None:
        super().__init__(constraint)
        self._others: list[tuple[Device, Attribute]] = []

    def _join(self, request: RequestName, device: Device, attribute: Attribute) -> bool:
        if not _is_new(device, attribute, self._others, self._features):
            return False
        self._others.append((device, attribute))
        return True

    def _leave(self, request: RequestName) -> bool:
        self._others.pop()
        return True


def _is_new(
    device: Device,
    attribute: Attribute,
    others: Iterable[tuple[Device, Attribute]],
    features: AllocatorFeatures,
) -> bool:
    """With list attributes on, an attribute without any value is never new."""
    if features.gates.list_attributes and value_set(attribute) is None:
        return False
    return all(_differ(device, attribute, other, theirs, features) for other, theirs in others)


def _differ(
    device: Device, attribute: Attribute, other: Device, theirs: Attribute, features: AllocatorFeatures
) -> bool:
    if features.gates.list_attributes:
        return _common(value_set(attribute), value_set(theirs)) is None
    value = scalar(attribute)
    if value is None:
        return False
    return value != scalar(theirs) or (not features.distinct_by_value and device is not other)


def scalar(attribute: Attribute | None) -> tuple[str, Any] | None:
    """Pairs the value with the field that holds it; None without an attribute, or if it is a list."""
    for kind in _SCALARS:
        if attribute is not None and attribute.get(kind) is not None:
            return kind, attribute[kind]
    return None


def value_set(attribute: Attribute) -> Values | None:
    """A scalar counts as a set of one; None if there is neither a list nor a scalar."""
    for kind, single in _LISTS:
        if attribute.get(kind):
            return single, frozenset(attribute[kind])
    value = scalar(attribute)
    return None if value is None else (value[0], frozenset((value[1],)))


def _common(left: Values | None, right: Values | None) -> Values | None:
    if left is None or right is None or left[0] != right[0]:
        return None
    both = left[1] & right[1]
    return (left[0], both) if both else None
