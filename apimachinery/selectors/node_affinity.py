"""Matches nodes against a pod's node selector and required node affinity (component-helpers)."""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.node_selectors import selector_matches


def node_affinity_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def required(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = node_affinity_of(spec).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return found


def fits(spec: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    """Returns whether a pod with that spec may run on the node with those labels and that name."""
    selector = spec.get("nodeSelector")
    if selector and any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = required(spec)
    return affinity is None or selector_matches(affinity, labels, name)


def affinity_matches(pod: Object, node: Object) -> bool:
    """Returns whether the pod may run on the node."""
    return fits(pod["spec"], node["metadata"].get("labels") or {}, node["metadata"]["name"])
