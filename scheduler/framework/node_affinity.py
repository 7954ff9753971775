"""Decides whether a node meets a pod's node selector and required affinity."""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.node_selectors import selector_matches


def node_affinity_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def required(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = node_affinity_of(spec).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return found


def fits(spec: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    selector = spec.get("nodeSelector")
    if selector and any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = required(spec)
    return affinity is None or selector_matches(affinity, labels, name)
