"""The devices that are in use (whole devices, shares of devices, the capacity that the shares take), and
consumable capacity: how much a request takes of a device that several claims may share.

Source: k8s.io/dynamic-resource-allocation/structured/internal/*/consumable_capacity.go, 1.34 … 1.37.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.quantity import Format, Quantity

_MOST = 2**63 - 1
_NOT_REPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"


class DeviceID(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


Amounts = Mapping[str, Quantity]  # by capacity name


@dataclass(frozen=True, slots=True)
class AllocatedState:
    """Live views of the devices in use; they may change between searches, never during one."""

    devices: Set[DeviceID] = frozenset()  # devices in use as a whole
    shared: Set[DeviceID] = frozenset()  # devices of which shares are in use
    consumed: Mapping[DeviceID, Amounts] = field(default_factory=dict)
    releases: Callable[[], int] | None = None  # counts devices that became free
    changes: Callable[[str], int] | None = None  # counts changes in pools of this name

    def uses(self, device: DeviceID) -> bool:
        return device in self.devices or device in self.shared or device in self.consumed

    def is_free(self, device: DeviceID, *, shares: bool) -> bool:
        """With `shares`, a device of which claims have only shares is free, too: a shareable one, and by
        known bug 140798 one that no longer is."""
        return device not in self.devices and (shares or not self.uses(device))


class AllocatedDevices:
    """Counts the users of each device as claims come and go; `state` is a live view of it."""

    def __init__(self) -> None:
        self._uses: dict[DeviceID, int] = {}
        self._shares: dict[DeviceID, int] = {}
        self._consumed: dict[DeviceID, dict[str, Quantity]] = {}
        self._releases = 0
        self._changes: dict[str, int] = {}
        self.state = AllocatedState(
            self._uses.keys(),
            self._shares.keys(),
            self._consumed,
            lambda: self._releases,
            lambda pool: self._changes.get(pool, 0),
        )

    def add(self, device: DeviceID, taken: Amounts | None) -> None:
        """Counts a use; `taken` is the capacity of a share, None for the whole device."""
        self._count(self._uses if taken is None else self._shares, device, 1)
        if taken:
            used = self._consumed.setdefault(device, {})
            for name, amount in taken.items():
                used[name] = used[name] + amount if name in used else amount

    def remove(self, device: DeviceID, taken: Amounts | None) -> None:
        self._count(self._uses if taken is None else self._shares, device, -1)
        if taken:
            used = self._consumed[device]
            for name, amount in taken.items():
                used[name] = used[name] - amount
            if device not in self._shares:
                del self._consumed[device]

    def _count(self, uses: dict[DeviceID, int], device: DeviceID, change: int) -> None:
        self._changes[device.pool] = self._changes.get(device.pool, 0) + 1
        count = uses.get(device, 0) + change
        # A claim that is written again, or whose allocation arrives, frees nothing: others count its devices.
        self._releases += change < 0 and (not count or uses is self._shares)
        if count:
            uses[device] = count
        else:
            del uses[device]


class CapacityError(Exception):
    """No device can give the requested amount; the text begins with the reason."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """Releases and gates differ in the arithmetic of ranges."""

    fractional: bool  # steps may be fractions, down to thousandths
    # Amounts have the format of the step, and have to fit. Before, they were binary, and wrapped around.
    exact: bool


@dataclass(frozen=True, slots=True)
class ValidRange:
    least: Quantity | None
    most: Quantity | None
    step: Quantity | None

    def in_thousandths(self, rounding: Rounding) -> bool:
        limits = [limit for limit in (self.least, self.most, self.step) if limit is not None]
        fine = rounding.fractional and all(Quantity(limit.milli_value(), -3) == limit for limit in limits)
        return fine and self.step is not None and self.step.milli_value() >= 1

    def unit(self, quantity: Quantity | None, rounding: Rounding) -> int:
        if quantity is None:
            return 0
        return quantity.milli_value() if self.in_thousandths(rounding) else quantity.value()

    def round_up(self, asked: Quantity, rounding: Rounding) -> Quantity:
        """Rounds up to the next step, counted from the minimum; raises CapacityError."""
        if self.least is None:
            return asked
        if asked < self.least:
            return self.least
        if self.step is None or not self.unit(self.step, rounding):
            return asked
        fine = self.in_thousandths(rounding)
        if rounding.exact:
            self._check(asked, fine=fine)
        least, step = self.unit(self.least, rounding), self.unit(self.step, rounding)
        amount = least - (least - self.unit(asked, rounding)) // step * step
        if rounding.exact and least >= 0 and amount > _MOST:
            limit = "the milli-value range" if fine else "MaxInt64"
            raise CapacityError(
                f"{_NOT_REPRESENTABLE}: rounding request {asked} up to the next step passes {limit}"
            )
        fmt = self.step.format if rounding.exact else Format.BINARY_SI
        if not fine:
            return Quantity((amount + _MOST + 1) % 2**64 - _MOST - 1, 0, fmt)
        return Quantity(amount, -3, fmt) if amount % 1000 else Quantity(amount // 1000, 0, fmt)

    @staticmethod
    def _check(asked: Quantity, *, fine: bool) -> None:
        if fine and Quantity(asked.milli_value(), -3) != asked:
            raise CapacityError(f"{_NOT_REPRESENTABLE}: request {asked} is not a representable milli value")
        if not fine and asked > Quantity(_MOST):
            raise CapacityError(f"{_NOT_REPRESENTABLE}: request {asked} exceeds MaxInt64")

    def refuses(self, amount: Quantity, rounding: Rounding) -> bool:
        if self.most is not None and amount > self.most:
            return True
        step = self.unit(self.step, rounding)
        return step != 0 and (self.unit(amount, rounding) - self.unit(self.least, rounding)) % step != 0


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    default: Quantity | None
    valid_range: ValidRange | None
    valid_values: Sequence[Quantity]

    def amount(self, asked: Quantity, rounding: Rounding) -> Quantity:
        """A range rounds up to its step; of listed values the first sufficient one counts, or `asked` without
        one."""
        if self.valid_range is not None and self.valid_range.least is not None:
            return self.valid_range.round_up(asked, rounding)
        return next((value for value in self.valid_values if asked <= value), asked)

    def refuses(self, amount: Quantity, rounding: Rounding) -> bool:
        if self.default is not None and _identical(amount, self.default):
            return False
        if self.valid_range is not None:
            return self.valid_range.refuses(amount, rounding)
        return bool(self.valid_values) and amount not in self.valid_values


def _identical(left: Quantity, right: Quantity) -> bool:
    """Upstream compares the representation of quantities instead of the number."""
    same = (left.unscaled, left.exponent, left.format) == (right.unscaled, right.exponent, right.format)
    return same and not left.wide and not right.wide


@dataclass(frozen=True, slots=True)
class Capacity:
    value: Quantity
    policy: RequestPolicy | None

    def taken_by(self, asked: Quantity | None, rounding: Rounding) -> Quantity:
        """None takes the policy's default, or all without one."""
        if asked is None:
            return self.policy.default if self.policy and self.policy.default is not None else self.value
        return self.policy.amount(asked, rounding) if self.policy is not None else asked


def capacity_of(spec: ObjectView) -> Capacity:
    """`spec` is a DeviceCapacity of a slice."""
    policy: ObjectView | None = spec.get("requestPolicy")
    value = Quantity.of(spec.get("value"))
    if policy is None:
        return Capacity(value, None)
    bounds: ObjectView | None = policy.get("validRange")
    return Capacity(
        value,
        RequestPolicy(
            _quantity(policy, "default"),
            ValidRange(_quantity(bounds, "min"), _quantity(bounds, "max"), _quantity(bounds, "step"))
            if bounds is not None
            else None,
            tuple(Quantity.of(value) for value in policy.get("validValues") or ()),
        ),
    )


def _quantity(spec: ObjectView, key: str) -> Quantity | None:
    return Quantity.of(spec[key]) if spec.get(key) is not None else None


def taken(asked: Amounts, capacities: Mapping[str, Capacity], rounding: Rounding) -> dict[str, Quantity]:
    """The amounts cover all capacities of the device, not only those asked for; raises CapacityError."""
    amounts: dict[str, Quantity] = {}
    for name, capacity in capacities.items():
        try:
            amounts[name] = capacity.taken_by(asked.get(name), rounding)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
    return amounts


def refusal(
    asked: Amounts, capacities: Mapping[str, Capacity], used: Sequence[Amounts], rounding: Rounding
) -> str | None:
    """None means that the device can serve the request in addition to its other users; raises
    CapacityError."""
    for name in asked:
        if name not in capacities:
            return f"it has no capacity {name}"
    amounts_taken = taken(asked, capacities, rounding)
    for name, amount in amounts_taken.items() if rounding.exact else ():
        if amount.sign() < 0:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
    for name, capacity in capacities.items():
        amount = amounts_taken[name]
        if capacity.policy is not None and capacity.policy.refuses(amount, rounding):
            return f"capacity {name}: {amount} is not allowed by the request policy"
        total = amount
        for amounts in used:
            if name in amounts:
                total = total + amounts[name]
        if total > capacity.value:
            return f"capacity {name}: {total} of {capacity.value} would be used"
    return None
