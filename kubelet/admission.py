"""Whether a node takes a pod bound to it (kubelet/lifecycle/predicate.go, scheduler.AdmissionCheck)."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from apimachinery.node_affinity import affinity_matches
from apimachinery.quantity import Quantity
from apimachinery.taints import tolerates
from kubelet import pod_spec

Object = dict[str, Any]

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


class Rejection(NamedTuple):
    """`status.reason` of the pod, and the text that follows `Pod was rejected: `."""

    reason: str
    message: str


def admit(
    pod: Object,
    node: Object,
    others: Iterable[Object],
    *,
    extended_by_dra: bool,
    plugged: Mapping[str, int] | None = None,
) -> Rejection | None:
    """None if the node takes the pod beside `others`, its active pods.

    `extended_by_dra`: extended resources that the node's plugins do not offer may be devices of a claim.
    `plugged`: so many devices the node has at least, whatever its status says: they are in use.
    """
    return (
        _resources(pod, node, others, plugged or {}, extended_by_dra=extended_by_dra)
        or _node_affinity(pod, node)
        or _node_name(pod, node)
        or _taints(pod, node)
    )


def _resources(
    pod: Object,
    node: Object,
    others: Iterable[Object],
    plugged: Mapping[str, int],
    *,
    extended_by_dra: bool,
) -> Rejection | None:
    allocatable = {
        name: Quantity.parse(str(amount)).milli_value()
        for name, amount in ((node.get("status") or {}).get("allocatable") or {}).items()
    }
    for name, count in plugged.items():
        allocatable[name] = max(allocatable.get(name, 0), count * 1000)
    used: dict[str, int] = {}
    for other in others:
        for name, amount in {**pod_spec.pod_requests(other), "pods": 1000}.items():
            used[name] = used.get(name, 0) + amount
    for name, amount in {"pods": 1000, **pod_spec.pod_requests(pod)}.items():
        if not _fits(name, amount, allocatable, used, extended_by_dra=extended_by_dra):
            return _insufficient(name, amount, used.get(name, 0), allocatable.get(name, 0))
    return None


def _fits(
    name: str, amount: int, allocatable: Mapping[str, int], used: Mapping[str, int], *, extended_by_dra: bool
) -> bool:
    if amount == 0:
        return True
    if is_extended(name):
        # Extended resources the node does not know are the cluster's business
        # (removeMissingExtendedResources).
        if name not in allocatable:
            return True
        if extended_by_dra and allocatable[name] <= 0:
            return True
    return amount <= allocatable.get(name, 0) - used.get(name, 0)


def is_extended(name: str) -> bool:
    """Whether a resource is none of Kubernetes' own (v1helper.IsExtendedResourceName)."""
    if name in _NATIVE or "/" not in name or name.startswith("requests."):
        return False
    return "kubernetes.io/" not in name or name.startswith("deviceclass.resource.kubernetes.io/")


def _insufficient(name: str, requested: int, used: int, capacity: int) -> Rejection:
    values = [amount if name == "cpu" else -(-amount // 1000) for amount in (requested, used, capacity)]
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {values[0]}, used: {values[1]}, "
        f"capacity: {values[2]}",
    )


def _node_name(pod: Object, node: Object) -> Rejection | None:
    if pod["spec"].get("nodeName") in (None, "", node["metadata"]["name"]):
        return None
    return _failed("NodeName", "node(s) didn't match the requested node name")


def _node_affinity(pod: Object, node: Object) -> Rejection | None:
    if affinity_matches(pod, node):
        return None
    return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")


def _taints(pod: Object, node: Object) -> Rejection | None:
    taints = node["spec"].get("taints") or [] if "spec" in node else []
    tolerations = pod["spec"].get("tolerations") or []
    hard = [taint for taint in taints if taint.get("effect") == "NoExecute"]
    if all(any(tolerates(one, taint) for one in tolerations) for taint in hard):
        return None
    return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _failed(predicate: str, why: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {why}")
