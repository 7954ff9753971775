"""Reduces objects to their metadata: on their own, in lists, in the rows of Tables."""

from typing import Final

from kubeskew.apimachinery.objects import Object

# The fields of upstream's internal types, from which it takes the metadata.
_INTERNAL_FIELDS: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("apps", "DaemonSet"): frozenset({"deprecated.daemonset.template.generation"}),
    ("apps", "Deployment"): frozenset({"deprecated.deployment.rollback.to"}),
    ("autoscaling", "HorizontalPodAutoscaler"): frozenset(
        f"autoscaling.alpha.kubernetes.io/{name}"
        for name in ("behavior", "conditions", "current-metrics", "metrics")
    ),
}


def partial(obj: Object, version: str) -> Object:
    """Returns a PartialObjectMetadata of a version of meta.k8s.io."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": _metadata(obj),
    }


def _metadata(obj: Object) -> Object:
    metadata: Object = obj.get("metadata") or {}
    group, annotations = (obj.get("apiVersion") or "").partition("/")[0], metadata.get("annotations")
    fields = _INTERNAL_FIELDS.get((group, obj.get("kind") or ""))
    if not fields or not annotations:
        return metadata
    shown = {name: value for name, value in annotations.items() if name not in fields}
    if shown:
        return {**metadata, "annotations": shown}
    return {name: value for name, value in metadata.items() if name != "annotations"}
