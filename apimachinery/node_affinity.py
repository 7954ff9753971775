"""Matches nodes against a pod's node selector and required node affinity."""

from collections.abc import Mapping

from kubeskew.apimachinery.node_selectors import selector_matches
from kubeskew.apimachinery.objects import Object


def affinity_matches(pod: Object, node: Object) -> bool:
    """Checks nodeSelector and requiredDuringSchedulingIgnoredDuringExecution (component-helpers,
    nodeaffinity)."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return selector_matches(required, labels, node["metadata"]["name"])
