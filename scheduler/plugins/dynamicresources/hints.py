"""The queueing hints of DynamicResources: the events that may help a pod that it rejected."""

from collections.abc import Callable, Hashable, Sequence

from kubeskew.apimachinery.claim_users import controller_of, is_for_pod
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import (
    ClaimNotUsable,
    allocation,
    claim_names,
    display,
    is_extended_resource_claim,
)
from kubeskew.scheduler.features.dynamic_resources import DynamicResourcesFeatures
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource, Hint, Topics

PodClaims = Callable[[Object], Sequence[Object]]


def hints(
    pod_claims: PodClaims, features: DynamicResourcesFeatures, *, with_hints: bool
) -> Sequence[EventHint]:
    """`pod_claims` gives the claims of a pod or raises ClaimNotUsable; `with_hints` is the gate
    SchedulerQueueingHints."""
    changed = Action.ADD | Action.UPDATE
    node = Action.ADD | Action.UPDATE_NODE_LABEL
    if features.allocatable_helps:
        node |= Action.UPDATE_NODE_ALLOCATABLE
    if not with_hints:  # nodes that come with a taint are then not reported as new
        node |= Action.UPDATE_NODE_TAINT
    claim = changed | Action.DELETE if features.deletion_helps else changed
    found = [
        EventHint(ClusterEvent(EventResource.NODE, node)),
        EventHint(
            ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_GENERATED_CLAIM),
            _after_pod_change(pod_claims),
        ),
        EventHint(
            ClusterEvent(EventResource.RESOURCE_CLAIM, claim),
            _after_claim_change(pod_claims),
            Topics(_topics_of_pod, _topics_of_claim),
        ),
        EventHint(ClusterEvent(EventResource.DEVICE_CLASS, changed)),
    ]
    if features.slices_help:
        found.append(EventHint(ClusterEvent(EventResource.RESOURCE_SLICE, changed)))
    return found


def _after_pod_change(pod_claims: PodClaims) -> Hint:
    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:  # noqa: ARG001 - protocol
        if new is None or new["metadata"].get("uid") != pod["metadata"].get("uid"):
            return False
        try:
            pod_claims(new)
        except ClaimNotUsable:
            return False
        return True

    return hint


def _after_claim_change(pod_claims: PodClaims) -> Hint:
    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:
        changed = new or old
        if _frees_devices(old, new):
            return _are_usable(pod, pod_claims)
        if changed is not None and is_extended_resource_claim(changed) and is_for_pod(changed, pod):
            return new is None  # the leftover is gone
        if new is None or not _uses(pod, new, pod_claims):
            return False
        return old is None or old.get("status") != new.get("status")

    return hint


def _are_usable(pod: Object, pod_claims: PodClaims) -> bool:
    """Returns whether the pod may lack nothing but free devices."""
    try:
        pod_claims(pod)
    except ClaimNotUsable:
        return False
    return True


def _frees_devices(old: Object | None, new: Object | None) -> bool:
    return old is not None and allocation(old) is not None and (new is None or allocation(new) is None)


def _topics_of_claim(old: Object | None, new: Object | None) -> list[Hashable] | None:
    """Returns the claim's name and its owner; None if it frees devices, which concerns every pod."""
    changed = new or old
    if changed is None or _frees_devices(old, new):
        return None
    topics: list[Hashable] = [("claim", display(changed))]
    owner = controller_of(changed)
    if owner is not None:
        topics.append(("pod", owner.get("uid")))
    return topics


def _topics_of_pod(pod: Object) -> list[Hashable]:
    """Returns the pod itself, and the claims that it names."""
    metadata, namespace = pod["metadata"], pod["metadata"].get("namespace", "")
    topics: list[Hashable] = [("pod", metadata.get("uid"))]
    try:
        topics += [("claim", f"{namespace}/{name}") for name, _ in claim_names(pod)]
    except ClaimNotUsable:
        return topics  # no claim can help before the pod itself changes
    return topics


def _uses(pod: Object, claim: Object, pod_claims: PodClaims) -> bool:
    try:
        used = pod_claims(pod)
    except ClaimNotUsable:
        return False
    return any(used_claim["metadata"].get("uid") == claim["metadata"].get("uid") for used_claim in used)
