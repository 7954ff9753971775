"""Holds the strategies of classic dynamic resource allocation, 1.26 to 1.31.

Source: pkg/registry/resource/*/strategy.go, 1.30.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, StrategyContext
from kubeskew.apiserver.registry.resource.classic import structured
from kubeskew.apiserver.registry.resource.classic import validation as rules


class ClassicStatus(StatusStrategy):
    """Lets status writes change metadata until 1.29."""

    def metadata_kept(self, ctx: StrategyContext) -> tuple[str, ...]:
        return self.kept_metadata if ctx.features.devices.status_keeps_metadata else ()


class _Mutable(ValidatedAsNew, ReturnsDeletedObject):
    """Checks a changed object as a new one; any change is fine."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []


class SchedulingStatusStrategy(ClassicStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(rules.scheduling_status_errors(new.get("status") or {}))


class SchedulingContextStrategy(_Mutable):
    """PodSchedulingContext, PodScheduling."""

    status = SchedulingStatusStrategy

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(rules.scheduling_errors(obj.get("spec") or {}))


class ResourceClassStrategy(_Mutable):
    """ResourceClass of 1.26 to 1.30."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(rules.class_errors(obj))


class ClaimParametersStrategy(_Mutable):
    """ResourceClaimParameters of 1.30."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(structured.claim_parameters_errors(obj))


class ClassParametersStrategy(_Mutable):
    """ResourceClassParameters of 1.30."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(structured.class_parameters_errors(obj))
