"""Decides which writes may have had the scheduler try a waiting pod anew.

Upstream's scheduler asks its plugins that of each event (QueueingHints). Here only what an object says that
plugins look at is compared, whatever kept the pod from its place: which event it was is told, not proven.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.evidence.log import Write

_CLAIMS = "resourceclaims.resource.k8s.io"
_ANY_WRITE = frozenset(
    {
        "resourceslices.resource.k8s.io",
        "deviceclasses.resource.k8s.io",
        "resourceclasses.resource.k8s.io",
        "devicetaintrules.resource.k8s.io",
        "persistentvolumes",
        "persistentvolumeclaims",
        "storageclasses.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csidrivers.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "podschedulingcontexts.resource.k8s.io",
    }
)
_ENDED = frozenset({"Succeeded", "Failed"})
_SCHEDULER = "kube-scheduler"


def wakes(write: Write, before: ObjectView | None, pod: str, claims: Collection[str], namespace: str) -> bool:
    """Returns whether a write may let a pod find a place: not the scheduler's own, nor one that only says
    again what was there.

    `before` is the object as it was; `claims` are the names of the pod's claims in its `namespace`.
    """
    if write.by.startswith(_SCHEDULER):
        return False
    if write.resource in _ANY_WRITE:
        return True
    if write.resource == "nodes":
        return before is None or write.verb == "delete" or _offered(write.value) != _offered(before)
    ours = write.namespace == namespace
    if write.resource == "pods":
        return (ours and write.name == pod and before is not None) or _makes_room(write, before)
    if write.resource == _CLAIMS:
        return (ours and write.name in claims) or _given_back(write, before)
    return False


def _offered(node: ObjectView) -> Mapping[str, Any]:
    """Returns what plugins look at of a node: not when its conditions were reported last."""
    metadata, status = node["metadata"], node.get("status") or {}
    conditions = {each["type"]: each.get("status") for each in status.get("conditions") or []}
    offered = {name: metadata.get(name) or {} for name in ("labels", "annotations")}
    return {
        **offered,
        "spec": node.get("spec") or {},
        "allocatable": status.get("allocatable") or {},
        "features": status.get("declaredFeatures") or [],
        "conditions": conditions,
    }


def _makes_room(write: Write, before: ObjectView | None) -> bool:
    """Returns whether another pod has ended, is gone, or asks for something else."""
    if before is None or not (before.get("spec") or {}).get("nodeName"):
        return False
    was = (before.get("status") or {}).get("phase")
    ended = (write.value.get("status") or {}).get("phase") in _ENDED and was not in _ENDED
    return write.verb == "delete" or ended or write.value.get("spec") != before.get("spec")


def _given_back(write: Write, before: ObjectView | None) -> bool:
    """Returns whether devices of another claim are free again."""
    had = before is not None and bool((before.get("status") or {}).get("allocation"))
    has = write.verb != "delete" and bool((write.value.get("status") or {}).get("allocation"))
    return had and not has
