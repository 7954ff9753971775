"""Decides how CSINodes are written.

Source: pkg/registry/storage/csinode/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.storage.csinode import validation as csinode_validation


class CSINodeStrategy(HandwrittenBuiltIn, ReturnsDeletedObject):
    """CSINode: as upstream, a change is checked as a new object, twice."""

    allow_unconditional_update = False
    update_checks = (Check.METADATA, Check.OWN_RULES, Check.METADATA, Check.OWN_RULES, Check.CHANGE)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(csinode_validation.node_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        counts = ctx.features.volumes.counts_change
        return list(csinode_validation.node_update_errors(new, old, counts_change=counts))
