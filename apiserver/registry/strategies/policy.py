"""Pod disruption budgets and autoscalers.

Source: k8s.io/kubernetes/pkg/registry/{policy/poddisruptionbudget,autoscaling/horizontalpodautoscaler}, 1.36.
"""

import copy
from typing import ClassVar

from kubeskew.apimachinery.conversion.autoscaling import to_v2
from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError
from kubeskew.apiserver.registry.strategies.checked import Checked, WithoutMetadata
from kubeskew.apiserver.registry.strategies.shared import CountedConditional, SpecKeptStatus
from kubeskew.apiserver.registry.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.validation import autoscalers, budgets


class BudgetStatus(WithoutMetadata, SpecKeptStatus):
    """Conditions and counts."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(budgets.status_errors(new.get("status") or {}))


class BudgetStrategy(WithoutMetadata, CountedConditional):
    status: ClassVar[type[Strategy]] = BudgetStatus

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(budgets.budget_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(budgets.budget_errors(new.get("spec") or {}, lenient=budgets.is_lenient(old)))


class AutoscalerStatus(SpecKeptStatus):
    """Counts of replicas."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(autoscalers.status_errors(new.get("status") or {}))


class AutoscalerStrategy(Checked):
    status: ClassVar[type[Strategy]] = AutoscalerStatus

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return ctx.version.minor >= 37 and ctx.gates.enabled("HPAGeneration")

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, None, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, old, ctx)

    def _errors(self, obj: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        spec, before = _common_spec(obj), None if old is None else _common_spec(old)
        to_zero = ctx.gates.enabled("HPAScaleToZero")
        bounds = autoscalers.Bounds.of(spec, before, ctx.version.minor, to_zero=to_zero)
        return list(autoscalers.spec_errors(spec, bounds))


def _common_spec(obj: Object) -> Object:
    """The spec in the shape of v2, whatever version the server stores."""
    if obj.get("apiVersion") == "autoscaling/v1":
        obj = copy.deepcopy(obj)
        to_v2(obj)
    spec: Object = obj.get("spec") or {}
    return spec


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("policy", "poddisruptionbudgets"): BudgetStrategy,
    GroupResource("autoscaling", "horizontalpodautoscalers"): AutoscalerStrategy,
}
