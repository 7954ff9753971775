"""Decides how LimitRanges are written.

Source: pkg/registry/core/limitrange/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.limitrange import validation as limitrange_validation
from kubeskew.apiserver.registry.generic.builtin import CreatedByUpdate
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext


class LimitRangeStrategy(CreatedByUpdate):
    """Validates limit ranges; one without a name gets a uid for it."""

    update_checks = (Check.METADATA, Check.STRUCTURE, Check.CHANGE)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        if not obj["metadata"].get("name"):
            obj["metadata"]["name"] = ctx.entropy.uid()

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(limitrange_validation.limit_range_errors(obj.get("spec") or {}))
