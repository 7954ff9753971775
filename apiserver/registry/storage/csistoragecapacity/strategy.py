"""Decides how CSIStorageCapacities are written.

Source: pkg/registry/storage/csistoragecapacity/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import Returned
from kubeskew.apiserver.registry.generic.checked import Checked
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import node_labels, selectors
from kubeskew.apiserver.registry.storage.csistoragecapacity import (
    validation as csistoragecapacity_validation,
)


class CapacityStrategy(Checked, Returned):
    """CSIStorageCapacity."""

    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(csistoragecapacity_validation.capacity_errors(obj))

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        lenient = any(selectors.selector_errors(old.get("nodeTopology") or {}, ""))
        return [
            *self.metadata_errors(new, ctx),
            *csistoragecapacity_validation.capacity_errors(new, lenient=lenient),
            *metadata,
            *csistoragecapacity_validation.capacity_update_errors(new, old),
        ]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return list(node_labels.selector_warnings(obj.get("nodeTopology"), "nodeTopology"))
