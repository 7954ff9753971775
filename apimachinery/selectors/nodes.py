"""Matches nodes against node selectors, node affinity and the tolerations of a pod.

Sources: k8s.io/component-helpers/scheduling/corev1 and its nodeaffinity,
k8s.io/api/core/v1/toleration.go, 1.36. Devices and their requests follow the same rules of taints
(k8s.io/dynamic-resource-allocation/resourceclaim, ToleratesTaint).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.go_formats import parse_int
from kubeskew.apimachinery.names import label_value
from kubeskew.apimachinery.objects import Object, ObjectView

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def requirement_matches(requirement: ObjectView, values: Mapping[str, str]) -> bool:
    """Checks one `matchExpressions` or `matchFields` entry against labels or fields; an invalid one
    matches nothing."""
    operator, wanted = requirement.get("operator"), requirement.get("values") or []
    value = values.get(requirement["key"])
    match operator:
        case "In":
            return value in wanted if value is not None else False
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(wanted) == 1:
            return _ordered(operator, value, wanted[0])
    return False


def _ordered(operator: str, value: str, limit: str) -> bool:
    try:
        number, bound = parse_int(value), parse_int(limit)
    except ValueError:
        return False
    return number > bound if operator == "Gt" else number < bound


def term_matches(term: ObjectView, labels: Mapping[str, str], name: str) -> bool:
    """Checks a NodeSelectorTerm; an empty one matches no node, as one with a value that no label can have."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    matches = _all(expressions, labels) and _all(fields, {"metadata.name": name})
    return matches and not have_impossible_values(expressions)


def have_impossible_values(requirements: Iterable[ObjectView]) -> bool:
    return any(label_value(value) for each in requirements for value in each.get("values") or ())


def _all(requirements: Iterable[ObjectView], values: Mapping[str, str]) -> bool:
    return all(requirement_matches(requirement, values) for requirement in requirements)


def selector_matches(selector: ObjectView, labels: Mapping[str, str], name: str) -> bool:
    """Checks a NodeSelector: any of its terms must match."""
    return any(term_matches(term, labels, name) for term in selector.get("nodeSelectorTerms") or ())


def node_affinity_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def required(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = node_affinity_of(spec).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return found


def fits(spec: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    """The pod's `nodeSelector` and required node affinity must both match."""
    selector = spec.get("nodeSelector")
    if selector and any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = required(spec)
    return affinity is None or selector_matches(affinity, labels, name)


def affinity_matches(pod: Object, node: Object) -> bool:
    return fits(pod["spec"], node["metadata"].get("labels") or {}, node["metadata"]["name"])


def tolerates(toleration: ObjectView, taint: ObjectView) -> bool:
    """An empty effect or key covers all taints."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
    return False


def is_tolerated(taint: ObjectView, tolerations: Iterable[ObjectView]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def untolerated(
    taints: Iterable[ObjectView], tolerations: Iterable[ObjectView], effects: Iterable[str] = HARD_EFFECTS
) -> ObjectView | None:
    """The first taint counts that has one of the effects and that no toleration covers."""
    covering = list(tolerations)
    wanted = set(effects)
    for taint in taints:
        if taint.get("effect") in wanted and not is_tolerated(taint, covering):
            return taint
    return None
