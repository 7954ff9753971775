"""Decides how ServiceCIDRs are written.

Source: pkg/registry/networking/servicecidr/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.check_order import Check, Checks
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.networking.servicecidr import validation as servicecidr_validation


class ServiceCIDRStrategy(ValidatedAsNew):
    """Until 1.35 its status was not kept from those who write the rest."""

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        if ctx.features.services.wipes_range_status:
            super().prepare_for_create(obj, ctx)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        if ctx.features.services.wipes_range_status:
            super().prepare_for_update(new, old, ctx)

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        if ctx.features.services.range_changes_alone:
            return (Check.METADATA_CHANGE, Check.CHANGE)
        return super().update_checks_for(ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(servicecidr_validation.service_range_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(servicecidr_validation.service_range_update_errors(new, old))
