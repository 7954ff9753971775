"""Decides how HorizontalPodAutoscalers are written.

Source: pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go, 1.36.
"""

import copy
from typing import ClassVar

from kubeskew.apimachinery.conversion.autoscaling import to_v2
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.autoscaling.horizontalpodautoscaler import (
    validation as horizontalpodautoscaler_validation,
)
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext


class AutoscalerStatus(SpecKeptStatus):
    """Counts of replicas."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(horizontalpodautoscaler_validation.status_errors(new.get("status") or {}))


class AutoscalerStrategy(HandwrittenBuiltIn):
    status: ClassVar[type[Strategy]] = AutoscalerStatus

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return ctx.features.workloads.autoscaler_generation

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, None, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, old, ctx)

    def _errors(self, obj: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        spec, before = _common_spec(obj), None if old is None else _common_spec(old)
        bounds = horizontalpodautoscaler_validation.Bounds.of(spec, before, ctx.features.workloads)
        return list(horizontalpodautoscaler_validation.spec_errors(spec, bounds))


def _common_spec(obj: Object) -> Object:
    """Returns the spec in the shape of v2, whatever version the server stores."""
    if obj.get("apiVersion") == "autoscaling/v1":
        obj = copy.deepcopy(obj)
        to_v2(obj)
    spec: Object = obj.get("spec") or {}
    return spec
