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
        # What is sent as v1 has values of 0 by known bug 137856, what is sent as v2 and stored as v1 has not.
        zeros = ctx.features.workloads.zero_metric_values and ctx.request_version == "v1"
        spec = _common_spec(obj, zero_values=zeros)
        before = None if old is None else _common_spec(old, zero_values=zeros)
        bounds = horizontalpodautoscaler_validation.Bounds.of(spec, before, ctx.features.workloads)
        return list(horizontalpodautoscaler_validation.spec_errors(spec, bounds))


def _common_spec(obj: Object, *, zero_values: bool) -> Object:
    """Returns the spec in the shape of v2, whatever version the server stores."""
    if obj.get("apiVersion") == "autoscaling/v1":
        obj = copy.deepcopy(obj)
        to_v2(obj, zero_values=zero_values)
    spec: Object = obj.get("spec") or {}
    return spec
