"""Checks CSIStorageCapacities.

Source: pkg/apis/storage/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    invalid,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE


def capacity_errors(obj: Object, *, lenient: bool = False) -> Iterator[FieldError]:
    """Checks a CSIStorageCapacity; `lenient`: values of its topology may be no label values."""
    errors = selectors.selector_errors(obj.get("nodeTopology") or {}, "nodeTopology")
    yield from (error for error in errors if not (lenient and ".values[" in error.path))
    name = obj.get("storageClassName") or ""
    yield from (invalid("storageClassName", name, text) for text in names.dns1123_subdomain(name))
    amount = obj.get("capacity")
    if amount is not None and Quantity.parse(amount).sign() < 0:
        yield invalid("capacity", amount, NOT_NEGATIVE)


def capacity_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for name in ("nodeTopology", "storageClassName"):
        if new.get(name) != old.get(name):
            yield invalid(name, new.get(name), IMMUTABLE)
