"""Decides how PodGroups are written.

Source: pkg/registry/scheduling/podgroup/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.scheduling.podgroup import validation as podgroup_validation


class PodGroupStrategy(HandwrittenBuiltIn, WithGeneration):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(podgroup_validation.group_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(podgroup_validation.group_update_errors(new, old))
