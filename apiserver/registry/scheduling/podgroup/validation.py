"""Checks PodGroups.

Source: pkg/apis/scheduling/validation/validation.go and the markers of k8s.io/api/scheduling/v1alpha2, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, index, invalid, too_many
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.scheduling import policies
from kubeskew.apiserver.registry.shared import declared
from kubeskew.apiserver.registry.shared.conditions import condition_errors

_UNCHANGING = (
    "podGroupTemplateRef", "schedulingPolicy", "schedulingConstraints", "resourceClaims", "disruptionMode",
    "priorityClassName", "priority",
)  # fmt: skip
_NO_CLAIM = "must match the name of an entry in `spec.resourceClaims`"


def group_errors(spec: Object) -> Iterator[FieldError]:
    """Checks a PodGroup."""
    reference, at = spec.get("podGroupTemplateRef"), "spec.podGroupTemplateRef"
    if reference is not None and reference.get("workload") is None:
        yield invalid(at, "", "must specify one of: `workload`")
    elif reference is not None:
        workload, at = reference["workload"], child(at, "workload")
        yield from declared.needed(workload, "workloadName", at, declared.long_name)
        yield from declared.needed(workload, "podGroupTemplateName", at, declared.short_name)
    yield from policies.group_errors(spec, "spec")


def group_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = (group.get("spec") or {} for group in (new, old))
    for name in _UNCHANGING:
        if (after.get(name) or None) != (before.get(name) or None):
            yield invalid(child("spec", name), None, IMMUTABLE)
            if name == "resourceClaims" and len(after.get(name) or ()) > policies.MAX_CLAIMS:
                yield too_many(child("spec", name), len(after[name]), policies.MAX_CLAIMS)


def group_status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Checks the status: conditions, and the claims that were made for the group."""
    status, before = new.get("status") or {}, old.get("status") or {}
    yield from condition_errors(status.get("conditions") or [], "status.conditions")
    claims, path = status.get("resourceClaimStatuses") or [], "status.resourceClaimStatuses"
    known = {claim.get("name") for claim in (new.get("spec") or {}).get("resourceClaims") or ()}
    for position, claim in enumerate(claims):
        name = claim.get("name") or ""
        if name not in known:
            yield invalid(child(index(path, position), "name"), name, _NO_CLAIM)
    if claims == (before.get("resourceClaimStatuses") or []):
        return
    if len(claims) > policies.MAX_CLAIMS:
        yield too_many(path, len(claims), policies.MAX_CLAIMS)
        return
    yield from policies.repeats(claims, path, {"name": "", "resourceClaimName": None})
    for position, claim in enumerate(claims):
        if claim.get("resourceClaimName") is not None:
            at = child(index(path, position), "resourceClaimName")
            yield from declared.long_name(claim["resourceClaimName"], at)
