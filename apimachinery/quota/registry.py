"""Finds the evaluator that measures a resource.

Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/registry.go, 1.36.
"""

from collections.abc import Iterable, Sequence

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.quota.evaluators import Evaluator
from kubeskew.apimachinery.quota.pods import PodEvaluator
from kubeskew.apimachinery.quota.resource_claims import ClaimFacts, DeviceClasses, ResourceClaimEvaluator
from kubeskew.apimachinery.quota.services import ServiceEvaluator
from kubeskew.apimachinery.quota.volume_claims import VolumeClaimEvaluator

_ALIASED = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
IGNORED = frozenset({"events"})  # never counted

_NO_FACTS = ClaimFacts(lambda: DeviceClasses({}, frozenset()), lambda _namespace, _name: None, lambda _: ())


class Evaluators:
    """The evaluators of one component; a resource without one of its own is counted."""

    def __init__(self, gates: FeatureGates, clock: Clock, facts: ClaimFacts = _NO_FACTS) -> None:
        self.pods = PodEvaluator(gates, clock)
        known: list[Evaluator] = [self.pods, ServiceEvaluator(), VolumeClaimEvaluator(gates)]
        if gates.enabled("DynamicResourceAllocation"):
            known.append(ResourceClaimEvaluator(gates, facts, self.pods.usage))
        known += [Evaluator(GroupResource("", name), name) for name in _ALIASED]
        self._known = {evaluator.resource: evaluator for evaluator in known}

    def all(self) -> Sequence[Evaluator]:
        """Returns the evaluators in use so far."""
        return tuple(self._known.values())

    def of(self, resource: GroupResource) -> Evaluator:
        evaluator = self._known.get(resource)
        if evaluator is None:
            evaluator = self._known[resource] = Evaluator(resource)
        return evaluator

    def for_names(self, names: Iterable[str]) -> list[Evaluator]:
        """Returns the evaluators of a quota's resources, counters for `count/…` included."""
        wanted = list(names)
        for name in wanted:
            if name.startswith("count/"):
                plural, _, group = name.removeprefix("count/").partition(".")
                self.of(GroupResource(group, plural))
        return [evaluator for evaluator in self._known.values() if evaluator.matching(wanted)]
