"""Decides how PodGroups are written.

Source: pkg/registry/scheduling/podgroup/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, StrategyContext
from kubeskew.apiserver.registry.scheduling.podgroup import validation as podgroup_validation


class PodGroupStatus(StatusStrategy):
    """The status, with which nobody comes to own metadata."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(podgroup_validation.group_status_errors(new, old))

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))


class PodGroupStrategy(HandwrittenBuiltIn):
    status = PodGroupStatus

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(podgroup_validation.group_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(podgroup_validation.group_update_errors(new, old))
