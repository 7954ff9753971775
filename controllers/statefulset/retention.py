"""Decides who owns the claims of a stateful set's pods: persistentVolumeClaimRetentionPolicy. Pure functions.

Behaviour of k8s.io/kubernetes/pkg/controller/statefulset/stateful_set_utils.go, 1.36.
"""

from kubeskew.apimachinery.client.refs import PODS, STATEFUL_SETS, Ref
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.owner_references import new_controller_reference
from kubeskew.controllers.statefulset.identity import in_range


def policy(stateful_set: Object) -> tuple[bool, bool]:
    """Returns whether claims are deleted (when the set is, when it is scaled down)."""
    found = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return found.get("whenDeleted") == "Delete", found.get("whenScaled") == "Delete"


def wanted_owners(stateful_set: Object, pod: Object) -> tuple[bool, bool]:
    """Returns whether (the set, the pod) should own the pod's claims."""
    when_deleted, when_scaled = policy(stateful_set)
    scaled_down = when_scaled and not in_range(stateful_set, pod)
    return when_deleted and not scaled_down, scaled_down


def owners_match(claim: Object, stateful_set: Object, pod: Object) -> bool:
    if _has_other_controller(claim, stateful_set, pod):
        return True
    references = claim["metadata"].get("ownerReferences") or []
    by_set, by_pod = wanted_owners(stateful_set, pod)
    if by_set != _is_owned(references, stateful_set):
        return False
    return by_pod == _is_owned(references, pod)


def owned_as_wanted(claim: Object, stateful_set: Object, pod: Object) -> Object:
    """Returns the claim with the owner references of the policy."""
    references = list(claim["metadata"].get("ownerReferences") or ())
    by_set, by_pod = wanted_owners(stateful_set, pod)
    for wanted, owner, ref in ((by_set, stateful_set, STATEFUL_SETS), (by_pod, pod, PODS)):
        references = [reference for reference in references if not _is_of(reference, owner, ref)]
        if wanted:
            references.append(new_controller_reference(owner, ref))
    metadata = {key: value for key, value in claim["metadata"].items() if key != "ownerReferences"}
    if references:
        metadata["ownerReferences"] = references
    return {**claim, "metadata": metadata}


def is_stale(claim: Object, pod_name: str, uid: str = "") -> bool:
    """Returns whether the claim belongs to an earlier pod of that name and is about to be deleted."""
    return any(
        reference["kind"] == PODS.kind and reference["name"] == pod_name and reference["uid"] != uid
        for reference in claim["metadata"].get("ownerReferences") or ()
    )


def _has_other_controller(claim: Object, stateful_set: Object, pod: Object) -> bool:
    """Returns whether another controller owns the claim, so that the policy does not apply."""
    return any(
        reference.get("controller")
        and not _is_of(reference, stateful_set, STATEFUL_SETS)
        and not _is_of(reference, pod, PODS)
        for reference in claim["metadata"].get("ownerReferences") or ()
    )


def _is_of(reference: Object, owner: Object, ref: Ref) -> bool:
    return bool(reference["kind"] == ref.kind and reference["name"] == owner["metadata"]["name"])


def _is_owned(references: list[Object], owner: Object) -> bool:
    uid = owner["metadata"].get("uid")
    return any(reference["uid"] == uid and reference.get("controller") for reference in references)
