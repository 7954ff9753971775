"""Decides how the kinds of semantic parameters are written: KEP-4381 as drafted.

What the draft does not say is as in 1.30 for the kinds that shipped (pkg/registry/resource/*/strategy.go).
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.check_order import ONCE_AS_NEW, Checks
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource.parameters import slice_change_errors
from kubeskew.apiserver.registry.resource.semantic import validation as rules


class NodeSliceStrategy(HandwrittenBuiltIn, ReturnsDeletedObject):
    """NodeResourceSlice."""

    field_labels = ("nodeName", "driverName")
    update_checks: ClassVar[Checks] = ONCE_AS_NEW

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(rules.slice_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(slice_change_errors(new, old))

    def fields(self, obj: Object) -> dict[str, str]:
        return super().fields(obj) | {label: obj.get(label) or "" for label in self.field_labels}
