"""PodDisruptionBudget: validation, strategy and cells of tables.

Sources: k8s.io/kubernetes/pkg/apis/policy/validation/validation.go,
pkg/registry/policy/poddisruptionbudget/strategy.go, 1.36.
"""

from collections.abc import Iterator
from typing import ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, invalid, not_supported
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import (
    SpecKeptStatus,
    WithGenerationConditionalUpdate,
    WithoutMetadata,
)
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.shared import conditions, selectors
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def budget_errors(spec: Object, *, lenient: bool = False) -> Iterator[FieldError]:
    """`lenient`: values of the selector may be no label values, as they were before."""
    path = "spec"
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        yield invalid(path, _shown(spec), "minAvailable and maxUnavailable cannot be both set")
    for name, amount in (("minAvailable", least), ("maxUnavailable", most)):
        if amount is not None:
            yield from share_errors(amount, child(path, name))
    errors = selectors.selector_errors(spec.get("selector") or {}, child(path, "selector"))
    yield from (error for error in errors if not (lenient and ".values[" in error.path))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        yield not_supported(child(path, "unhealthyPodEvictionPolicy"), policy, _POLICIES)


def is_lenient(old: Object) -> bool:
    return any(selectors.selector_errors((old.get("spec") or {}).get("selector") or {}, ""))


def share_errors(amount: int | str, path: str) -> Iterator[FieldError]:
    if isinstance(amount, int):
        if amount < 0:
            yield invalid(path, amount, NOT_NEGATIVE)
        return
    texts = names.percent(amount)
    yield from (invalid(path, amount, text) for text in texts)
    if not texts and int(amount[:-1]) > 100:
        yield invalid(path, amount, "must not be greater than 100%")


def _shown(spec: Object) -> Object:
    """Field errors show upstream's internal type."""
    fields = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
    return {name[:1].upper() + name[1:]: spec.get(name) for name in fields}


def status_errors(status: Object, *, texts: bool) -> Iterator[FieldError]:
    """`texts`: errors of conditions say that what is missing must be set."""
    found = status.get("conditions") or []
    yield from conditions.condition_errors(found, "status.conditions", texts=texts)
    for name in _COUNTS:
        count = status.get(name) or 0
        if count < 0:
            yield invalid(child("status", name), count, NOT_NEGATIVE)


class BudgetStatus(WithoutMetadata, SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        texts = ctx.features.kinds.condition_texts
        return list(status_errors(new.get("status") or {}, texts=texts))


class BudgetStrategy(WithoutMetadata, WithGenerationConditionalUpdate):
    status: ClassVar[type[Strategy]] = BudgetStatus

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(budget_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(budget_errors(new.get("spec") or {}, lenient=is_lenient(old)))


def pod_disruption_budget_cells(subject: Subject) -> Cells:
    least, most = subject.at("spec", "minAvailable"), subject.at("spec", "maxUnavailable")
    return {
        "Min Available": "N/A" if least is None else str(least),
        "Max Unavailable": "N/A" if most is None else str(most),
        "Allowed Disruptions": subject.number("status", "disruptionsAllowed"),
    }
