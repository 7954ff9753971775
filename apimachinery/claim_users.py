"""The consumers for which ResourceClaims are made and reserved: pods, or the pods' groups (KEP-5729).

Source: k8s.io/dynamic-resource-allocation/resourceclaim, 1.36 (IsForPod, IsReservedForPod).
"""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.objects import Object, controller_of

POD_GROUPS = ("scheduling.k8s.io", "podgroups")


def pod_group_of(pod: Mapping[str, Any]) -> str:
    """Empty if the pod is scheduled without a group."""
    return str((pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or "")


def is_for_pod(claim: Mapping[str, Any], pod: Mapping[str, Any], *, groups: bool = False) -> bool:
    """With `groups` a claim of the pod's group counts, too."""
    owner = controller_of(claim) or {}
    if owner.get("uid") == pod["metadata"].get("uid"):
        return True
    group = pod_group_of(pod) if groups else ""
    return bool(group) and (owner.get("kind"), owner.get("name")) == ("PodGroup", group)


def reserved_for(claim: Mapping[str, Any]) -> list[Object]:
    return (claim.get("status") or {}).get("reservedFor") or []


def is_pod_group(consumer: Mapping[str, Any]) -> bool:
    return (consumer.get("apiGroup"), consumer.get("resource")) == POD_GROUPS


def reservation(claim: Mapping[str, Any], pod: Mapping[str, Any], *, groups: bool) -> Object | None:
    """The consumer that lets the pod use the claim: the pod itself, or (with `groups`) its group."""
    uid, group = pod["metadata"].get("uid"), pod_group_of(pod) if groups else ""
    for consumer in reserved_for(claim):
        if consumer.get("uid") == uid or (group and is_pod_group(consumer) and consumer.get("name") == group):
            return consumer
    return None
