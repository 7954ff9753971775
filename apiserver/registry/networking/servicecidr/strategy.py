"""Decides how ServiceCIDRs are written.

Source: pkg/registry/networking/servicecidr/strategy.go, 1.31 to 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.check_order import Check, Checks
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.networking.servicecidr import validation as servicecidr_validation


class ServiceCIDRStatus(StatusStrategy):
    """Writes of the status: until 1.35 the fields that they reset were those of a group that is none."""

    def metadata_kept(self, ctx: StrategyContext) -> tuple[str, ...]:
        return self.kept_metadata if ctx.features.services.cidr_status_keeps_metadata else ()

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",)) if ctx.features.services.cidr_status_resets_fields else ()


class ServiceCIDRStrategy(ValidatedAsNew):
    """Its status is kept from those who write the rest since 1.36 only, by a gate."""

    status: ClassVar[type[Strategy]] = ServiceCIDRStatus

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        if ctx.features.services.wipes_cidr_status:
            super().prepare_for_create(obj, ctx)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        if ctx.features.services.wipes_cidr_status:
            super().prepare_for_update(new, old, ctx)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("status",),) if ctx.features.services.wipes_cidr_status else ()

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        if ctx.features.services.range_changes_alone:
            return (Check.METADATA_CHANGE, Check.CHANGE)
        return super().update_checks_for(ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(servicecidr_validation.service_range_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(servicecidr_validation.service_range_update_errors(new, old))
