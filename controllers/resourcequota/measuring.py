"""Measures the usage in a namespace of what a quota limits.

Source: k8s.io/apiserver/pkg/quota/v1/resources.go (CalculateUsage) and generic/evaluator.go, 1.36.
"""

from collections.abc import Callable, Iterable

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quota.amounts import Amounts, add, count, mask
from kubeskew.apimachinery.quota.evaluators import Evaluator, scope_selectors
from kubeskew.apimachinery.quota.registry import Evaluators

# The objects of a resource in a namespace; None if the resource is not served.
Listing = Callable[[GroupResource, str], Iterable[Object] | None]


def measure(quota: Object, evaluators: Evaluators, listing: Listing) -> Amounts:
    """Returns the usage of every resource of the quota that has an evaluator."""
    hard = quota["spec"].get("hard") or {}
    namespace = quota["metadata"]["namespace"]
    total: Amounts = {}
    for evaluator in evaluators.for_names(hard):
        objects = listing(evaluator.resource, namespace)
        if objects is not None:
            total = add(total, _used(quota, evaluator, objects))
    return mask(total, hard)


def _used(quota: Object, evaluator: Evaluator, objects: Iterable[Object]) -> Amounts:
    names = evaluator.matching(quota["spec"].get("hard") or {})
    total: Amounts = dict.fromkeys(names, count(0))
    selectors = scope_selectors(quota["spec"])
    for obj in objects:
        if evaluator.in_all(selectors, obj):
            total = add(total, mask(evaluator.usage(obj), names))
    return total
