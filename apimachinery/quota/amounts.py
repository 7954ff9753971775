"""Lists of resources: a quantity by name, and the arithmetic that limits and quotas need.

Source: k8s.io/apiserver/pkg/quota/v1/resources.go, 1.36.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.quantity import ZERO, Format, Quantity

Amounts = dict[str, Quantity]

ONE = Quantity.parse("1")


def amounts(values: Mapping[str, Any] | None) -> Amounts:
    """Parses a JSON resource list; raises QuantityError."""
    return {name: Quantity.of(value) for name, value in values.items()} if values else {}


def texts(found: Amounts) -> dict[str, str]:
    """Writes a resource list as JSON, its names sorted as Go writes maps."""
    return {name: found[name].canonical() for name in sorted(found)}


def count(number: int) -> Quantity:
    return Quantity(number, 0, Format.DECIMAL_SI)


def add(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    total = dict(one)
    for name, quantity in other.items():
        total[name] = total[name] + quantity if name in total else quantity
    return total


def subtract(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    """Subtracts down to zero, not below; names that only `other` has are zero."""
    left = {}
    for name, quantity in one.items():
        rest = quantity - other[name] if name in other else quantity
        left[name] = rest if rest.sign() > 0 else ZERO
    return {**left, **{name: ZERO for name in other if name not in one}}


def mask(found: Mapping[str, Quantity], names: Collection[str]) -> Amounts:
    return {name: quantity for name, quantity in found.items() if name in names}


def exceeding(found: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> set[str]:
    return {name for name, limit in limits.items() if name in found and found[name] > limit}


def negative(found: Mapping[str, Quantity]) -> list[str]:
    return [name for name, quantity in found.items() if quantity.sign() < 0]


def without_zeros(found: Mapping[str, Quantity]) -> Amounts:
    return {name: quantity for name, quantity in found.items() if not quantity.is_zero()}


def raised(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    most = dict(one)
    for name, quantity in other.items():
        if name not in most or quantity > most[name]:
            most[name] = quantity
    return most


def shown(found: Mapping[str, Quantity]) -> str:
    """`a=1,b=2`, sorted by name, for error texts."""
    return ",".join(f"{name}={found[name]}" for name in sorted(found))


def listed(names: Iterable[str]) -> str:
    return ",".join(sorted(names))
