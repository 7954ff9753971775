"""Decides whether an object is in a quota's scope.

Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go and persistent_volume_claims.go, 1.36.
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.selectors.label_requirements import Operator, Requirement, SelectorError

PRIORITY_CLASS, ATTRIBUTES_CLASS = "PriorityClass", "VolumeAttributesClass"
_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_QOS = ("cpu", "memory")


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Returns whether a scope's selector matches these labels, whose key is the scope; raises
    SelectorError."""
    operator = selector.get("operator") or ""
    if operator not in _OPERATORS:
        raise SelectorError(f'"{operator}" is not a valid scope selector operator')
    values = tuple(selector.get("values") or ())
    return Requirement.checked(selector["scopeName"], _OPERATORS[operator], values).matches(labels)


def pod_in_scope(selector: Object, pod: Object) -> bool:
    """Returns whether a pod is in a scope; no pod is in a scope for other kinds."""
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
    """Returns whether a volume claim is in a scope, by its requested, pending or current attribute
    classes."""
    if selector.get("scopeName") != ATTRIBUTES_CLASS:
        return False
    classes = attribute_classes(claim)
    if selector.get("operator") == "Exists":
        return bool(classes)
    if not classes:
        return selects(selector, {})
    return any(selects(selector, {ATTRIBUTES_CLASS: name}) for name in sorted(classes))


def attribute_classes(claim: Object) -> set[str]:
    """Returns the volume attributes classes that a claim refers to."""
    status = claim.get("status") or {}
    names = {
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    return {name for name in names if name}


def is_terminating(pod: Object) -> bool:
    """Returns whether a pod has a deadline, which quotas call terminating."""
    deadline = pod["spec"].get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def is_best_effort(pod: Object) -> bool:
    """Returns whether nothing in a pod requests cpu or memory; by its status if that has a QoS class."""
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
    """Returns whether a term of the pod's affinities selects other namespaces."""
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        terms = list(found.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        weighted = found.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [term.get("podAffinityTerm") or {} for term in weighted]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
