"""Tells which volume claims a pod uses."""

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.pod_info import PodInfo


def uses_claim(pod: Object, old: Object | None, new: Object | None) -> bool:
    """Returns whether the pod uses the changed claim."""
    changed = new or old
    if changed is None or changed["metadata"].get("namespace") != pod["metadata"].get("namespace"):
        return False
    return changed["metadata"]["name"] in PodInfo(pod).volume_claims
