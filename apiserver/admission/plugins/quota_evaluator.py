"""Checks whether a write fits the quotas of its namespace, and computes what they would hold after it.

Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go (CheckRequest), 1.36.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quota.amounts import (
    Amounts,
    add,
    amounts,
    exceeding,
    listed,
    mask,
    negative,
    shown,
    subtract,
    texts,
    without_zeros,
)
from kubeskew.apimachinery.quota.evaluators import UPDATE, Evaluator
from kubeskew.apimachinery.selectors.label_requirements import SelectorError


class QuotaError(Exception):
    """The write exceeds a quota; the text is for the user."""


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """A write as quotas see it; `old` is None for a create."""

    operation: str
    subresource: str
    new: Object
    old: Object | None = None


def check(quotas: Sequence[Object], asked: QuotaRequest, evaluator: Evaluator) -> list[Object]:
    """Quotas come back with the write's use added; those it does not touch are the same objects.

    Raises QuotaError, SelectorError.
    """
    matching = [position for position, quota in enumerate(quotas) if _limits(quota, asked.new, evaluator)]
    if not matching:
        return list(quotas)
    usage = evaluator.usage(asked.new)
    below = negative(usage)
    if below:
        raise QuotaError(f"quota usage is negative for resource(s): {listed(below)}")
    after = list(quotas)
    for position in matching:
        more = without_zeros(_more(quotas[position], usage, asked, evaluator))
        if more:
            after[position] = _charged(quotas[position], more, asked)
    return after


def _limits(quota: Object, obj: Object, evaluator: Evaluator) -> bool:
    """Raises QuotaError if the object must set more, or the quota's usage is not known yet."""
    try:
        if not evaluator.matches(quota, obj):
            return False
    except SelectorError as error:
        raise QuotaError(f"failed to parse and convert selector: {error}") from None
    name, status = quota["metadata"]["name"], quota.get("status") or {}
    hard = status.get("hard") or {}
    restricted = evaluator.matching(hard)
    missing = evaluator.missing(restricted, obj)
    if missing:
        raise QuotaError(f"failed quota: {name}: {missing}")
    if not (status.get("used") or {}).keys() >= set(restricted):
        raise QuotaError(f"status unknown for quota: {name}, resources: {listed(restricted)}")
    return True


def _more(quota: Object, usage: Amounts, asked: QuotaRequest, evaluator: Evaluator) -> Amounts:
    """All of the usage is added, or only its growth where the quota applied to the old object."""
    old = asked.old
    if asked.operation != UPDATE or old is None or not old["metadata"].get("resourceVersion"):
        return usage
    return subtract(usage, evaluator.usage(old)) if evaluator.matches(quota, old) else usage


def _charged(quota: Object, more: Amounts, asked: QuotaRequest) -> Object:
    """Raises QuotaError if that is too much; writes of a status are never too much."""
    status = quota["status"]
    hard, used = amounts(status.get("hard")), amounts(status.get("used"))
    requested = mask(more, hard)
    after = add(used, requested)
    if asked.subresource != "status":
        exceeded = exceeding(mask(after, requested), hard)
        if exceeded:
            found = (requested, used, hard)
            asks, has, may = (shown(mask(part, exceeded)) for part in found)
            name = quota["metadata"]["name"]
            raise QuotaError(f"exceeded quota: {name}, requested: {asks}, used: {has}, limited: {may}")
    return {**quota, "status": {**status, "used": texts(after)}}
