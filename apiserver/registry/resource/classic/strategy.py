"""Holds the strategies of classic dynamic resource allocation, 1.26 to 1.31.

Source: pkg/registry/resource/*/strategy.go, 1.30.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource.classic import validation as rules


class SchedulingStatusStrategy(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(rules.scheduling_status_errors(new.get("status") or {}))


class SchedulingContextStrategy(BuiltIn):
    """PodSchedulingContext, PodScheduling."""

    status = SchedulingStatusStrategy
    returns_deleted_object = True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(rules.scheduling_errors(obj.get("spec") or {}))


class ResourceClassStrategy(BuiltIn):
    returns_deleted_object = True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(rules.class_errors(obj))
