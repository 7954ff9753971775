"""Holds the rules of how the capacity of a shared device may be asked for.

Source: pkg/apis/resource/validation/validation.go (validateRequestPolicy), 1.34 to 1.37.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    required,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.dra_features import DRAFeatures

MAX_VALID_VALUES = 10
_MOST = 2**63 - 1
_ONE_POLICY = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
)
_NOT_VALID = "default value is not valid according to the requestPolicy"
_BOUNDS = ("default", "min", "max", "step")


def policy_errors(capacity: Object, path: str, rules: DRAFeatures, *, shared: bool) -> Iterator[FieldError]:
    """Checks a policy; `shared`: the device allows several allocations."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    at = child(path, "requestPolicy")
    if not shared:
        yield forbidden(at, "allowMultipleAllocations must be true")
        return
    most = Quantity.of(capacity.get("value") or "0")
    values, bounds, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and bounds is not None:
        yield forbidden(at, _ONE_POLICY)
    elif values and default is None:
        yield required(child(at, "default"), "required when validValues is defined")
    elif values:
        parsed = [Quantity.of(value) for value in values]
        yield from _values(parsed, Quantity.of(default), most, child(at, "validValues"), rules)
    elif bounds is not None and default is None:
        yield required(child(at, "default"), "required when validRange is defined")
    elif bounds is not None:
        yield from _Range(bounds, default, most, child(at, "validRange"), rules).errors()


def _values(
    values: list[Quantity], default: Quantity, most: Quantity, path: str, rules: DRAFeatures
) -> Iterator[FieldError]:
    for position in range(1, len(values)):
        if values[position - 1] > values[position]:
            text = "values must be sorted in ascending order"
            yield invalid(index(path, position), values[position].canonical(), text)
    found = False
    if len(values) > MAX_VALID_VALUES:
        yield too_many(path, len(values), MAX_VALID_VALUES)
    if len(values) <= MAX_VALID_VALUES or not rules.declarative_validation:
        found = default in values
        for position, value in enumerate(values):
            if value > most:
                text = f"option is larger than capacity value: {most.canonical()}"
                yield invalid(index(path, position), value.canonical(), text)
        yield from _repeats(values, path, rules)
    if not found:
        yield invalid(path, default.canonical(), _NOT_VALID)


def _repeats(values: list[Quantity], path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    """Checks for equal values; whole numbers are compared unless fractions are allowed."""
    seen = set()
    for position, value in enumerate(values):
        name = format(value.decimal(), "f") if rules.fractional_capacity else str(value.value())
        if name in seen:
            yield duplicate(index(path, position), name)
        seen.add(name)


class _Range:
    """A range from `min` to `max`, in steps from `min`."""

    def __init__(
        self, bounds: Object, default: str, capacity: Quantity, path: str, rules: DRAFeatures
    ) -> None:
        given = {"default": default, **{name: bounds.get(name) for name in _BOUNDS[1:]}}
        self._given = {name: Quantity.of(value) for name, value in given.items() if value is not None}
        self._capacity = capacity
        self._path = path
        self._rules = rules

    def errors(self) -> Iterator[FieldError]:
        if "min" not in self._given:
            yield required(child(self._path, "min"), "required when validRange is defined")
            return
        yield from self._limits()
        if self._in_millis:
            inexact = [name for name in self._given if _is_finer_than_milli(self._given[name])]
            yield from (self._wrong(name, "value cannot be represented as a milli value") for name in inexact)
            if inexact:
                return
        if "step" in self._given:
            yield from self._steps()

    def _wrong(self, where: str, text: str, value: str = "") -> FieldError:
        shown = self._given[value or where].canonical()
        return invalid(child(self._path, where), shown, text)

    def _limits(self) -> Iterator[FieldError]:
        least, default, most = self._given["min"], self._given["default"], self._given.get("max")
        capacity = f"capacity value: {self._capacity.canonical()}"
        later = self._rules.policy_bounds
        if least > self._capacity:
            yield self._wrong("min", f"min is larger than {capacity}")
        if default < least:
            text = f"default is less than min: {least.canonical()}"
            yield self._wrong("default" if later else "min", text, "default")
        if most is None:
            return
        if least > most:
            yield self._wrong("max", f"min is larger than max: {most.canonical()}", "min")
        if most > self._capacity:
            yield self._wrong("max", f"max is larger than {capacity}")
        if default > most:
            text = f"default is more than max: {most.canonical()}"
            yield self._wrong("default" if later else "max", text, "default")

    @property
    def _in_millis(self) -> bool:
        """Decides whether fractions are meant, which is a gate of its own."""
        return self._rules.fractional_capacity and any(
            amount.decimal() != int(amount.decimal()) for amount in self._given.values()
        )

    def _steps(self) -> Iterator[FieldError]:
        step, least = self._given["step"], self._given["min"]
        if step.sign() == 0 and self._rules.zero_step_panics:
            raise RuntimeError("panic: runtime error: integer divide by zero")
        if step.sign() <= 0:
            yield self._wrong("step", "must be greater than zero")
            return
        first = least + step
        if first > self._capacity:
            text = f"one step {first.canonical()} is larger than capacity value: {self._capacity.canonical()}"
            yield self._wrong("step", text)
        if self._rules.policy_bounds and not self._in_millis:
            outside = [error for name in _BOUNDS for error in self._outside(name)]
            yield from outside
            if outside:
                return
        text = f"value is not a multiple of a given step ({step.canonical()}) from ({least.canonical()})"
        for name in ("default", "max"):
            if name in self._given and (self._number(name) - self._number("min")) % (
                self._number("step") or 1
            ):
                yield self._wrong("step", text, name)

    def _outside(self, name: str) -> Iterator[FieldError]:
        amount = self._given.get(name)
        if amount is not None and amount.sign() < 0:
            yield self._wrong(name, "must be greater than or equal to 0")
        elif amount is not None and amount.decimal() > _MOST:
            yield self._wrong(name, f"must not be larger than {_MOST}")

    def _number(self, name: str) -> int:
        amount = self._given[name]
        return amount.milli_value() if self._in_millis else amount.value()


def _is_finer_than_milli(amount: Quantity) -> bool:
    thousandfold = amount.decimal() * 1000
    return thousandfold != int(thousandfold) or abs(thousandfold) > _MOST
