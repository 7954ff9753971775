"""CSIStorageCapacity: validation, strategy and cells of tables.

Sources: pkg/apis/storage/validation/validation.go, pkg/registry/storage/csistoragecapacity/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE


def capacity_errors(obj: Object, *, lenient: bool = False) -> Iterator[FieldError]:
    """`lenient`: values of the topology may be no label values."""
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


class CapacityStrategy(ValidatedAsNew):
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(capacity_errors(obj))

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        lenient = any(selectors.selector_errors(old.get("nodeTopology") or {}, ""))
        return list(capacity_errors(new, lenient=lenient))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(capacity_update_errors(new, old))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return list(selectors.selector_warnings(obj.get("nodeTopology"), "nodeTopology"))
