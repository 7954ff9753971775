"""Decides how PriorityClasses are written.

Source: pkg/registry/scheduling/priorityclass/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.scheduling.priorityclass import validation as priorityclass_validation


class PriorityClassStrategy(HandwrittenBuiltIn, WithGeneration):
    """Its first generation is its last: nothing that counts may change."""

    generation_ignores = frozenset({"metadata", "description", "globalDefault"})

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(priorityclass_validation.priority_class_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(priorityclass_validation.priority_class_update_errors(new, old))
