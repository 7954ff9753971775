"""Whether a node is one that a pod's selector, required affinity and tolerations allow."""

from collections.abc import Iterable, Mapping
from typing import Any

Object = dict[str, Any]


def affinity_matches(pod: Object, node: Object) -> bool:
    """nodeSelector and requiredDuringSchedulingIgnoredDuringExecution (component-helpers, nodeaffinity)."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term_matches(term, labels, fields) for term in required.get("nodeSelectorTerms") or [])


def _term_matches(term: Object, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions = term.get("matchExpressions") or []
    by_field = term.get("matchFields") or []
    if not expressions and not by_field:
        return False  # an empty term selects nothing
    return all(_holds(entry, labels) for entry in expressions) and all(_holds(e, fields) for e in by_field)


def _holds(requirement: Object, values: Mapping[str, str]) -> bool:
    value = values.get(requirement["key"])
    wanted = requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compared(value, wanted, greater=operator == "Gt")
    return False


def _compared(value: str | None, wanted: list[str], *, greater: bool) -> bool:
    try:
        number, limit = int(value or ""), int(wanted[0])
    except (ValueError, IndexError):
        return False
    return number > limit if greater else number < limit


def tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
    """Whether one of the tolerations is for the taint (core/v1, Toleration.ToleratesTaint)."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if (effect and effect != taint.get("effect")) or (key and key != taint["key"]):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")
