"""Measures the usage of services: node ports and load balancers, as their specs intend it before ports are
allocated.

Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/services.go, 1.36.
"""

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quota.amounts import ONE, Amounts, count
from kubeskew.apimachinery.quota.evaluators import CREATE, UPDATE, Evaluator

_NODE_PORTS, _LOAD_BALANCERS = "services.nodeports", "services.loadbalancers"


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
