"""Holds the strategies of classic dynamic resource allocation, 1.26 to 1.31.

Source: pkg/registry/resource/*/strategy.go, 1.30.
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.check_order import ONCE_AS_NEW, TWICE_AS_NEW, Checks
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, StrategyContext
from kubeskew.apiserver.registry.resource.classic import structured
from kubeskew.apiserver.registry.resource.classic import validation as rules
from kubeskew.apiserver.registry.resource.semantic import validation as semantic


class ClassicStatus(StatusStrategy):
    """Lets status writes change metadata until 1.29."""

    def metadata_kept(self, ctx: StrategyContext) -> tuple[str, ...]:
        return self.kept_metadata if ctx.features.devices.status_keeps_metadata else ()


class _Mutable(HandwrittenBuiltIn, ReturnsDeletedObject):
    """Checks a changed object as a new one; any change is fine."""

    update_checks: ClassVar[Checks] = TWICE_AS_NEW

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
    """ResourceClaimParameters of 1.30, and of KEP-4381's draft."""

    update_checks: ClassVar[Checks] = ONCE_AS_NEW

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        if ctx.features.devices.semantic_parameters:
            return list(semantic.claim_parameters_errors(obj))
        return list(structured.claim_parameters_errors(obj))

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """Returns the errors; requests that stay may have been checked by a later release."""
        if ctx.features.devices.semantic_parameters:
            return list(semantic.claim_parameters_errors(new, semantic.selectors_of(old)))
        stored = (new.get("driverRequests") or []) == (old.get("driverRequests") or [])
        return list(structured.claim_parameters_errors(new, stored=stored))


class ClassParametersStrategy(_Mutable):
    """ResourceClassParameters of 1.30."""

    update_checks: ClassVar[Checks] = ONCE_AS_NEW

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(structured.class_parameters_errors(obj))
