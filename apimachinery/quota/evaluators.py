"""The interface of evaluators, the one that only counts objects, and the names and scopes of quotas.

Sources: k8s.io/apiserver/pkg/quota/v1/interfaces.go and generic/evaluator.go,
k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go and persistent_volume_claims.go,
k8s.io/kubernetes/pkg/apis/core/v1/helper, 1.36.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import IMPLICIT, REQUESTS, is_native
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.quota.amounts import ONE, Amounts
from kubeskew.apimachinery.selectors.label_requirements import Operator, Requirement, SelectorError

LIMITS, HUGEPAGES = "limits.", "hugepages-"
DEVICES = ".deviceclass.resource.k8s.io/devices"  # after a class
STORAGE_CLASS = ".storageclass.storage.k8s.io/"  # after a class, before a resource
PRIORITY_CLASS, ATTRIBUTES_CLASS = "PriorityClass", "VolumeAttributesClass"
_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_QOS = ("cpu", "memory")
CREATE, UPDATE = "CREATE", "UPDATE"


def object_count(resource: GroupResource) -> str:
    """Quotas call it `count/deployments.apps`."""
    return f"count/{resource}"


def is_extended_in_quota(name: str) -> bool:
    """Quotas write extended resources with a prefix: `requests.example.com/gpu`."""
    return name.startswith(REQUESTS) and not is_native(name)


def is_implicit_in_quota(name: str) -> bool:
    """True for the implicit extended resource of a device class."""
    return name.startswith(REQUESTS + IMPLICIT)


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """`labels` have the scope as their key; raises SelectorError."""
    operator = selector.get("operator") or ""
    if operator not in _OPERATORS:
        raise SelectorError(f'"{operator}" is not a valid scope selector operator')
    values = tuple(selector.get("values") or ())
    return Requirement.checked(selector["scopeName"], _OPERATORS[operator], values).matches(labels)


def pod_in_scope(selector: Object, pod: Object) -> bool:
    """False for scopes that are not of pods; raises SelectorError."""
    name, spec = selector.get("scopeName"), pod["spec"]
    if name in {"Terminating", "NotTerminating"}:
        return is_terminating(pod) is (name == "Terminating")
    if name in {"BestEffort", "NotBestEffort"}:
        return is_best_effort(pod) is (name == "BestEffort")
    if name == PRIORITY_CLASS:
        wanted = spec.get("priorityClassName") or ""
        if selector.get("operator") == "Exists":
            return bool(wanted)
        return selects(selector, {PRIORITY_CLASS: wanted} if wanted else {})
    return name == "CrossNamespacePodAffinity" and uses_other_namespaces(spec)


def claim_in_scope(selector: Object, claim: Object) -> bool:
    """Requested, pending and current attribute classes count; raises SelectorError."""
    if selector.get("scopeName") != ATTRIBUTES_CLASS:
        return False
    classes = attribute_classes(claim)
    if selector.get("operator") == "Exists":
        return bool(classes)
    if not classes:
        return selects(selector, {})
    return any(selects(selector, {ATTRIBUTES_CLASS: name}) for name in sorted(classes))


def attribute_classes(claim: Object) -> set[str]:
    """The requested, current and pending classes count."""
    status = claim.get("status") or {}
    names = {
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    return {name for name in names if name}


def is_terminating(pod: Object) -> bool:
    """Quotas call a pod with a deadline terminating."""
    deadline = pod["spec"].get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def is_best_effort(pod: Object) -> bool:
    """True if no part of the pod requests or limits cpu or memory; a QoS class in its status goes first."""
    known = (pod.get("status") or {}).get("qosClass")
    if known:
        return bool(known == "BestEffort")
    spec = pod["spec"]
    if spec.get("resources"):
        return not _asks(spec)
    return not any(
        _asks(container)
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    )


def _asks(holder: Mapping[str, Any]) -> bool:
    resources = holder.get("resources") or {}
    return any(
        name in (resources.get(field) or {}) and Quantity.of(resources[field][name]).sign() > 0
        for field in ("requests", "limits")
        for name in _QOS
    )


def uses_other_namespaces(spec: Mapping[str, Any]) -> bool:
    """True if a term of the pod's affinities selects other namespaces."""
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        terms = list(found.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        weighted = found.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [term.get("podAffinityTerm") or {} for term in weighted]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


class Evaluator:
    """Measures one resource; the defaults are those of objects that are only counted.

    `resource` is the resource by its storage name, `names` are its names in quotas.
    """

    def __init__(self, resource: GroupResource, *aliases: str) -> None:
        self.resource = resource
        self.names = (object_count(resource), *aliases)

    def handles(self, operation: str, subresource: str, new: Object, old: Object | None) -> bool:
        """True if a write of that kind may change the usage."""
        return not subresource and operation == CREATE

    def matching(self, names: Iterable[str]) -> list[str]:
        """Keeps the names of resources that this evaluator measures."""
        return [name for name in names if name in self.names]

    def missing(self, required: Collection[str], obj: Object) -> str:
        """Message if a quota requires fields that the object lacks, else empty."""
        return ""

    def in_scope(self, selector: Object, obj: Object) -> bool:
        """Resources that are only counted have no scopes. Other evaluators raise SelectorError for a wrong
        selector.
        """
        return False

    def usage(self, obj: Object) -> Amounts:
        """Usage by the names of a quota's resources."""
        return dict.fromkeys(self.names, ONE)

    def freed(self, old: Object, new: Object) -> bool:
        """True if a change of a stored object may have lowered its usage (or raised it without a charge)."""
        return False

    # --- shared by all -------------------------------------------------------------------------------------

    def matches(self, quota: Object, obj: Object) -> bool:
        """True if the quota limits a resource of this evaluator, and the object is in all its scopes."""
        hard = (quota.get("status") or {}).get("hard") or {}
        if not self.matching(hard):
            return False
        return self.in_all(scope_selectors(quota["spec"]), obj)

    def in_all(self, selectors: Sequence[Object], obj: Object) -> bool:
        return all(self.in_scope(selector, obj) for selector in selectors)


def scope_selectors(spec: Object) -> list[Object]:
    """Gives scopes and scopeSelector one form: scopeName, operator, values."""
    selectors: list[Object] = [
        {"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()
    ]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return selectors
