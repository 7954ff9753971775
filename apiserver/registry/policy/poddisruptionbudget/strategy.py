"""Decides how PodDisruptionBudgets are written.

Source: pkg/registry/policy/poddisruptionbudget/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus, WithGenerationConditionalUpdate
from kubeskew.apiserver.registry.generic.handwritten_validation import WithoutMetadata
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.policy.poddisruptionbudget import (
    validation as poddisruptionbudget_validation,
)


class BudgetStatus(WithoutMetadata, SpecKeptStatus):
    """Conditions and counts."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        texts = ctx.features.requests.condition_texts
        return list(poddisruptionbudget_validation.status_errors(new.get("status") or {}, texts=texts))


class BudgetStrategy(WithoutMetadata, WithGenerationConditionalUpdate):
    status: ClassVar[type[Strategy]] = BudgetStatus

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(poddisruptionbudget_validation.budget_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(
            poddisruptionbudget_validation.budget_errors(
                new.get("spec") or {}, lenient=poddisruptionbudget_validation.is_lenient(old)
            )
        )
