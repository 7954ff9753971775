"""The claims that a pod uses, and the owners of claims.

Source: k8s.io/dynamic-resource-allocation/resourceclaim/claim.go, 1.36.
"""

from typing import Any

from kubeskew.apimachinery.claim_users import POD_GROUPS, is_for_pod, pod_group_of
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import SyncError
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"

_NAME_BASE_LIMIT = 57  # leaves room for a hyphen and five random characters within 63


class ClaimNotCreated(Exception):  # noqa: N818 - upstream's ErrClaimNotFound: a state
    pass


class ClaimError(SyncError):
    pass


def _source(pod_claim: Object, features: ResourceClaimFeatures) -> Object:
    return pod_claim.get("source") or {} if features.nested_source else pod_claim


def has_template(pod_claim: Object, features: ResourceClaimFeatures) -> bool:
    if features.inline_templates:
        return pod_claim.get("template") is not None
    return template_name(pod_claim, features) is not None


def template_name(pod_claim: Object, features: ResourceClaimFeatures) -> str | None:
    found: str | None = _source(pod_claim, features).get("resourceClaimTemplateName")
    return found


def claim_name(pod: Object, pod_claim: Object, features: ResourceClaimFeatures) -> tuple[str | None, bool]:
    """An entry of `spec.resourceClaims` needs (claim, must the pod own it); the name is None if no claim is
    needed.

    Raises ClaimNotCreated, or ClaimError if the entry has no known field.
    """
    source = _source(pod_claim, features)
    if source.get("resourceClaimName") is not None:
        return source["resourceClaimName"], False
    metadata, name = pod["metadata"], pod_claim["name"]
    if not has_template(pod_claim, features):
        raise ClaimError(
            f'pod "{metadata.get("namespace", "")}/{metadata["name"]}", spec.resourceClaim "{name}": '
            "none of the supported fields are set"
        )
    if not features.generated_names:
        return f"{metadata['name']}-{name}", True
    for status in pod.get("status", {}).get("resourceClaimStatuses") or ():
        if status["name"] == name:
            return status.get("resourceClaimName"), True
    raise ClaimNotCreated


def claim_names(pod: Object, features: ResourceClaimFeatures) -> list[str]:
    """Only claims named in the pod's status count (before 1.35 not those of extended resources)."""
    names = []
    for pod_claim in pod["spec"].get("resourceClaims") or ():
        try:
            name, _ = claim_name(pod, pod_claim, features)
        except (ClaimNotCreated, ClaimError):
            continue
        if name:
            names.append(name)
    if features.frees_extended and (extended := extended_claim_name(pod)):
        names.append(extended)
    return names


def extended_claim_name(pod: Object) -> str:
    """The scheduler creates this claim for a pod's extended resources; empty without any."""
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return str(extended.get("resourceClaimName") or "")


def metadata_name(pod_name: str, claim_name: str, features: ResourceClaimFeatures) -> dict[str, str]:
    if not features.generated_names:
        return {"name": f"{pod_name}-{claim_name}"}
    return {"generateName": generate_name(pod_name, claim_name, dashed=features.dashed_names)}


def generate_name(pod_name: str, claim_name: str, *, dashed: bool = True) -> str:
    """Names are `<pod>-<claim>-`; both parts are cut in proportion if it is too long."""
    whole = f"{pod_name}-{claim_name}" + ("-" if dashed else "")
    if len(whole) <= _NAME_BASE_LIMIT:
        return whole
    cut = (len(part) * _NAME_BASE_LIMIT // len(whole) for part in (pod_name, claim_name))
    return f"{pod_name[: next(cut)]}-{claim_name[: next(cut)]}"


def is_made_for(claim: Object, owner_name: str, entry_name: str, features: ResourceClaimFeatures) -> bool:
    """Claims of 1.27 and before have no annotation, but the name of owner and entry; up to 1.31 that
    counts.
    """
    entry = (claim["metadata"].get("annotations") or {}).get(POD_CLAIM_ANNOTATION)
    if entry is None and features.knows_claims_by_name:
        return bool(claim["metadata"]["name"] == f"{owner_name}-{entry_name}")
    return bool(entry == entry_name)


def owning_pod(claim: Object) -> tuple[str, str] | None:
    """(name, uid); None unless the claim was created for a pod."""
    owner = controller_of(claim)
    if owner is not None and (owner["apiVersion"], owner["kind"]) == ("v1", "Pod"):
        return owner["name"], owner["uid"]
    return None


def check_owner(pod: Object, claim: Object, *, groups: bool = False) -> None:
    """Raises ClaimError if the claim was created for another pod (or, with `groups`, group of pods)."""
    if not is_for_pod(claim, pod, groups=groups):
        names = [f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" for obj in (claim, pod)]
        raise ClaimError(f"ResourceClaim {names[0]} was not created for pod {names[1]} (pod is not owner)")


def owning_group(claim: Object) -> str:
    """Empty unless the claim was created for a group of pods."""
    owner = controller_of(claim)
    return str(owner["name"]) if owner is not None and owner["kind"] == "PodGroup" else ""


def is_done(pod: Object) -> bool:
    """No container runs, or ever will."""
    return is_terminal(pod) or (pods.is_terminating(pod) and not pod["spec"].get("nodeName"))


def is_pod_reference(consumer: Object) -> bool:
    return not consumer.get("apiGroup") and consumer.get("resource") == "pods"


def asks_admin_access(template: Object) -> bool:
    """v1alpha3 and v1beta1 have adminAccess in the request itself."""
    requests: list[Any] = ((template.get("spec") or {}).get("devices") or {}).get("requests") or []
    return any(
        (request.get("exactly") or {}).get("adminAccess") or request.get("adminAccess")
        for request in requests
    )


def group_keys(pod: Object) -> list[str]:
    """Indexes pods by the group with which they are scheduled."""
    group = pod_group_of(pod)
    return [f"{pod['metadata']['namespace']}/{group}"] if group else []


def owner_keys(claim: Object) -> list[str]:
    """Indexes claims by the pod or group for which they were created, with `owner_key`."""
    owner = controller_of(claim)
    if owner is None:
        return []
    api_version, kind = owner["apiVersion"], owner["kind"]
    if (api_version, kind) != ("v1", "Pod") and not (
        kind == "PodGroup" and api_version.startswith(f"{POD_GROUPS[0]}/")
    ):
        return []
    return [owner_key(kind, claim["metadata"]["namespace"], owner["uid"])]


def owner_key(kind: str, namespace: str, uid: str) -> str:
    """Pods have the key of their UID, in any namespace (as upstream, up to 1.36 at least), groups that of
    namespace and UID.
    """
    return uid if kind == "Pod" else f"{namespace}/{uid}"
