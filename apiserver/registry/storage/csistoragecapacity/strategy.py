"""Decides how CSIStorageCapacities are written.

Source: pkg/registry/storage/csistoragecapacity/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import node_labels, selectors
from kubeskew.apiserver.registry.storage.csistoragecapacity import (
    validation as csistoragecapacity_validation,
)


class CapacityStrategy(ValidatedAsNew):
    """CSIStorageCapacity."""

    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(csistoragecapacity_validation.capacity_errors(obj))

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        lenient = any(selectors.selector_errors(old.get("nodeTopology") or {}, ""))
        return list(csistoragecapacity_validation.capacity_errors(new, lenient=lenient))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(csistoragecapacity_validation.capacity_update_errors(new, old))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return list(node_labels.selector_warnings(obj.get("nodeTopology"), "nodeTopology"))
