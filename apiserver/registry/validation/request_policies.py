"""Rules of how the capacity of a shared device may be asked for.

Source: pkg/apis/resource/validation/validation.go (validateCapacityRequestPolicy), 1.34 to 1.37.
"""

from collections.abc import Iterator

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, forbidden, index, invalid, required, too_many
from apimachinery.quantity import Quantity

MAX_VALID_VALUES = 10
_ONE_POLICY = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
)
_NOT_VALID = "default value is not valid according to the requestPolicy"


def policy_errors(capacity: Object, path: str, *, shared: bool) -> Iterator[FieldError]:
    """`shared`: the device allows several allocations."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    at = child(path, "requestPolicy")
    if not shared:
        yield forbidden(at, "allowMultipleAllocations must be true")
        return
    most = Quantity.parse(capacity.get("value") or "0")
    values, bounds, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and bounds is not None:
        yield forbidden(at, _ONE_POLICY)
    elif values:
        if default is None:
            yield required(child(at, "default"), "required when validValues is defined")
        yield from _values(values, default, most, at)
    elif bounds is not None:
        if default is None:
            yield required(child(at, "default"), "required when validRange is defined")
        yield from _range(bounds, default, most, child(at, "validRange"))


def _values(values: list[str], default: str | None, most: Quantity, path: str) -> Iterator[FieldError]:
    at = child(path, "validValues")
    if len(values) > MAX_VALID_VALUES:
        yield too_many(at, len(values), MAX_VALID_VALUES)
        return
    parsed = [Quantity.parse(value) for value in values]
    for position, amount in enumerate(parsed):
        if amount > most:
            text = f"option is larger than capacity value: {most.canonical()}"
            yield invalid(index(at, position), values[position], text)
        if position and parsed[position - 1] >= amount:
            yield invalid(index(at, position), values[position], "values must be sorted in ascending order")
    if default is not None and Quantity.parse(default) not in parsed:
        yield invalid(child(path, "default"), default, _NOT_VALID)


def _range(bounds: Object, default: str | None, most: Quantity, path: str) -> Iterator[FieldError]:
    least = Quantity.parse(bounds.get("min") or "0")
    if least > most:
        text = f"min is larger than capacity value: {most.canonical()}"
        yield invalid(child(path, "min"), bounds.get("min"), text)
    top = bounds.get("max")
    if top is not None and Quantity.parse(top) > most:
        text = f"max is larger than capacity value: {most.canonical()}"
        yield invalid(child(path, "max"), top, text)
    if top is not None and Quantity.parse(top) < least:
        yield invalid(child(path, "min"), bounds.get("min"), f"min is larger than max: {top}")
    if default is not None and Quantity.parse(default) < least:
        yield invalid(
            child(path.rpartition(".")[0], "default"),
            default,
            f"default is less than min: {least.canonical()}",
        )
    step = bounds.get("step")
    if step is not None:
        yield from _steps(bounds, step, default, least, most, path)


def _steps(
    bounds: Object, step: str, default: str | None, least: Quantity, most: Quantity, path: str
) -> Iterator[FieldError]:
    size = Quantity.parse(step)
    if least + size > most:
        text = f"one step {(least + size).canonical()} is larger than capacity value: {most.canonical()}"
        yield invalid(child(path, "step"), step, text)
    text = f"value is not a multiple of a given step ({size.canonical()}) from ({least.canonical()})"
    for where, value in (
        (child(path, "max"), bounds.get("max")),
        (child(path.rpartition(".")[0], "default"), default),
    ):
        if (
            value is not None
            and size.milli_value()
            and ((Quantity.parse(value).milli_value() - least.milli_value()) % size.milli_value())
        ):
            yield invalid(where, value, text)
