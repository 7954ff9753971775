"""Finds the evaluator that measures a resource, and measures the usage of services.

Node ports and load balancers count as the specs of services intend it before ports are allocated.

Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core (registry.go, services.go), 1.36.
"""

from collections.abc import Iterable, Sequence

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quota.amounts import ONE, Amounts, count
from kubeskew.apimachinery.quota.claims import (
    ClaimFacts,
    DeviceClasses,
    ResourceClaimEvaluator,
    VolumeClaimEvaluator,
)
from kubeskew.apimachinery.quota.evaluators import CREATE, UPDATE, Evaluator
from kubeskew.apimachinery.quota.features import ClaimUsageFeatures
from kubeskew.apimachinery.quota.pods import PodEvaluator

_NODE_PORTS, _LOAD_BALANCERS = "services.nodeports", "services.loadbalancers"
_ALIASED = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
IGNORED = frozenset({"events"})  # never counted

_NO_FACTS = ClaimFacts(lambda: DeviceClasses({}, frozenset()), lambda _namespace, _name: None, lambda _: ())


class ServiceEvaluator(Evaluator):
    """A service's type may change, so updates are charged too."""

    def __init__(self) -> None:
        super().__init__(GroupResource("", "services"), "services", _NODE_PORTS, _LOAD_BALANCERS)

    def handles(self, operation: str, subresource: str, new: Object, old: Object | None) -> bool:
        return not subresource and operation in {CREATE, UPDATE}

    def usage(self, obj: Object) -> Amounts:
        spec = obj["spec"]
        ports, kind = spec.get("ports") or [], spec.get("type")
        node_ports = balancers = 0
        if kind == "NodePort":
            node_ports = len(ports)
        elif kind == "LoadBalancer":
            given = spec.get("allocateLoadBalancerNodePorts") is not False
            node_ports = len(ports) if given else sum(1 for port in ports if port.get("nodePort"))
            balancers = 1
        return {
            "count/services": ONE,
            "services": ONE,
            _LOAD_BALANCERS: count(balancers),
            _NODE_PORTS: count(node_ports),
        }

    def freed(self, old: Object, new: Object) -> bool:
        return _charged_type(old) != _charged_type(new)


def _charged_type(service: Object) -> str:
    kind = service["spec"].get("type") or ""
    return kind if kind in {"NodePort", "LoadBalancer"} else ""


class Evaluators:
    """The evaluators of one component; a resource without one of its own is counted."""

    def __init__(self, gates: FeatureGates, clock: Clock, facts: ClaimFacts = _NO_FACTS) -> None:
        self.pods = PodEvaluator(gates, clock)
        known: list[Evaluator] = [self.pods, ServiceEvaluator(), VolumeClaimEvaluator(gates)]
        if ClaimUsageFeatures.of(gates).devices:
            known.append(ResourceClaimEvaluator(gates, facts, self.pods.usage))
        known += [Evaluator(GroupResource("", name), name) for name in _ALIASED]
        self._known = {evaluator.resource: evaluator for evaluator in known}

    def all(self) -> Sequence[Evaluator]:
        """Evaluators in use so far; `of` adds counters for other resources."""
        return tuple(self._known.values())

    def of(self, resource: GroupResource) -> Evaluator:
        evaluator = self._known.get(resource)
        if evaluator is None:
            evaluator = self._known[resource] = Evaluator(resource)
        return evaluator

    def for_names(self, names: Iterable[str]) -> list[Evaluator]:
        """Counters for `count/…` are made if they are new."""
        wanted = list(names)
        for name in wanted:
            if name.startswith("count/"):
                plural, _, group = name.removeprefix("count/").partition(".")
                self.of(GroupResource(group, plural))
        return [evaluator for evaluator in self._known.values() if evaluator.matching(wanted)]
