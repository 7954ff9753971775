"""Decides whether a node takes a pod bound to it (kubelet/lifecycle/predicate.go,
scheduler.AdmissionCheck)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import conflicts, host_ports, is_sidecar
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.resource_names import is_dra_extended_resource, is_extended_resource
from kubeskew.apimachinery.selectors.node_affinity import affinity_matches
from kubeskew.apimachinery.selectors.taints import tolerates
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.features import DelegatedToDRA

NODE_AFFINITY = "NodeAffinity"  # the reason of a pod that asks for another node

_OS_LABEL, _OS = "kubernetes.io/os", "linux"
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
    delegated_to_dra: DelegatedToDRA,
    refuses_sidecars: bool = False,
    overlooks_sidecar_ports: bool = False,
    plugged: Mapping[str, int] | None = None,
) -> Rejection | None:
    """Returns None if the node takes the pod beside `others`, its active pods.

    `plugged` is the least number of devices that the node has, whatever its status says: they are in use.
    """
    others = list(others)
    return (
        _operating_system(pod)
        or (_sidecars(pod) if refuses_sidecars else None)
        or _resources(pod, node, others, plugged or {}, delegated_to_dra)
        or _node_affinity(pod, node)
        or _node_name(pod, node)
        or _host_ports(pod, others, of_sidecars=not overlooks_sidecar_ports)
        or _taints(pod, node)
    )


def _operating_system(pod: Object) -> Rejection | None:
    """Returns why a node, which runs Linux, refuses a pod of another operating system."""
    if (pod["metadata"].get("labels") or {}).get(_OS_LABEL, _OS) != _OS:
        text = f"Failed to admit pod as the `{_OS_LABEL}` label doesn't match node label"
        return Rejection("PodOSSelectorNodeLabelDoesNotMatch", text)
    if (pod["spec"].get("os") or {"name": _OS}).get("name") != _OS:
        return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    return None


def _sidecars(pod: Object) -> Rejection | None:
    """Returns why a kubelet refuses a pod with sidecars (1.28 to 1.32, SidecarContainers off)."""
    for container in filter(is_sidecar, pod_spec.init_containers(pod)):
        text = f'Init container "{container["name"]}" may not have a non-default restartPolicy'
        return Rejection("InitContainerRestartPolicyForbidden", text)
    return None


def _host_ports(pod: Object, others: Iterable[Object], *, of_sidecars: bool) -> Rejection | None:
    wanted = host_ports(pod["spec"], of_sidecars=of_sidecars)
    taken = (port for other in others for port in sorted(host_ports(other["spec"], of_sidecars=of_sidecars)))
    if not wanted or not conflicts(wanted, taken):
        return None
    return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")


def _resources(
    pod: Object,
    node: Object,
    others: Iterable[Object],
    plugged: Mapping[str, int],
    delegated_to_dra: DelegatedToDRA,
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
    own = _for_node(pod, allocatable, delegated_to_dra)
    for name, amount in {"pods": 1000, **pod_spec.pod_requests(own)}.items():
        free = allocatable.get(name, 0) - used.get(name, 0)
        if amount > free and not (amount == 0 or _is_left(name, allocatable, delegated_to_dra)):
            return _insufficient(name, amount, used.get(name, 0), allocatable.get(name, 0))
    return None


def _for_node(pod: Object, allocatable: Mapping[str, int], delegated_to_dra: DelegatedToDRA) -> Object:
    """Returns the pod without the requests that the node does not check (removeMissingExtendedResources)."""
    mapped = pod_spec.mapped_resources(pod) if delegated_to_dra is DelegatedToDRA.MAPPED else ()

    def filtered(container: Object) -> Object:
        resources = container.get("resources") or {}
        requests = {
            name: amount
            for name, amount in (resources.get("requests") or {}).items()
            if not (is_dra_extended_resource(name) and (container["name"], name) in mapped)
            and not (is_extended_resource(name) and name not in allocatable)
        }
        return {**container, "resources": {**resources, "requests": requests}}

    spec = dict(pod["spec"])
    for field in ("containers", "initContainers"):
        spec[field] = [filtered(container) for container in spec.get(field) or ()]
    return {**pod, "spec": spec}


def _is_left(name: str, allocatable: Mapping[str, int], delegated_to_dra: DelegatedToDRA) -> bool:
    if name in _NATIVE or name == "pods":
        return False
    if delegated_to_dra is DelegatedToDRA.UNNAMED:
        return name not in allocatable
    return delegated_to_dra is DelegatedToDRA.ABSENT and allocatable.get(name, 0) <= 0


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
    return _failed(NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")


def _taints(pod: Object, node: Object) -> Rejection | None:
    taints = node["spec"].get("taints") or [] if "spec" in node else []
    tolerations = pod["spec"].get("tolerations") or []
    hard = [taint for taint in taints if taint.get("effect") == "NoExecute"]
    if all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in hard):
        return None
    return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _failed(predicate: str, why: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {why}")
