"""Reads and writes conditions of a definition, and the approval that groups of Kubernetes require.

Sources: apiextensions-apiserver pkg/apihelpers/helpers.go, 1.36; apiextensions-apiserver
pkg/apihelpers/helpers.go (GetAPIApprovalState), 1.36.
"""

from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import find_condition, transition_time, without_condition
from kubeskew.apimachinery.field import FieldError, invalid, required
from kubeskew.apimachinery.objects import Object

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"  # of a definition, until its objects are gone
ESTABLISHED = "Established"
NAMES_ACCEPTED = "NamesAccepted"
TERMINATING = "Terminating"
APPROVED = "KubernetesAPIApprovalPolicyConformant"
ANNOTATION = "api-approved.kubernetes.io"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
MISSING, INVALID, BYPASSED, APPROVED_STATE = "Missing", "Invalid", "Bypassed", "Approved"


def condition(kind: str, status: str, reason: str, message: str) -> Object:
    """The condition has no time; `put` adds it."""
    return {"type": kind, "status": status, "reason": reason, "message": message}


def is_equivalent(one: Object | None, other: Object | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(one.get(name) == other.get(name) for name in ("type", "status", "reason", "message"))


def put(obj: Object, new: Object, now: datetime) -> None:
    """The condition's time is that of the last change of its status."""
    status = obj.setdefault("status", {})
    listed = status["conditions"] = list(status.get("conditions") or [])
    old = find_condition(obj, new["type"])
    if old is None:
        listed.append(_at(new, timestamp(now)))
        return
    listed[listed.index(old)] = _at(new, transition_time(old, new["status"], now))


def drop(obj: Object, kind: str) -> None:
    status = obj.get("status") or {}
    if find_condition(obj, kind) is not None:
        status["conditions"] = without_condition(status["conditions"], kind)


def _at(given: Object, moment: str) -> Object:
    """The order of fields is Go's."""
    return {
        "type": given["type"],
        "status": given["status"],
        "lastTransitionTime": moment,
        "reason": given["reason"],
        "message": given["message"],
    }


class Approval(NamedTuple):
    state: str
    reason: str


def is_protected(group: str) -> bool:
    return group in {"k8s.io", "kubernetes.io"} or group.endswith((".k8s.io", ".kubernetes.io"))


def approval_of(obj: Object) -> Approval:
    """Approval is an annotation: a URL, or a reason that begins with `unapproved`."""
    given = ((obj.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION) or ""
    if not given:
        why = f'protected groups must have approval annotation "{ANNOTATION}", {_SEE}'
        return Approval(MISSING, why)
    if given.startswith("unapproved"):
        return Approval(BYPASSED, f'not approved: "{given}"')
    try:
        split = urlsplit(given)
        valid = bool(split.netloc and split.scheme)
    except ValueError:
        valid = False
    if valid:
        return Approval(APPROVED_STATE, f"approved in {given}")
    why = f'protected groups must have approval annotation "{ANNOTATION}" with either a URL or a reason '
    return Approval(INVALID, f'{why}starting with "unapproved", {_SEE}')


def validate_approval(obj: Object, old: Object | None) -> list[FieldError]:
    """An approval whose state did not change is not checked again."""
    if not is_protected((obj.get("spec") or {}).get("group") or ""):
        return []
    found = approval_of(obj)
    if old is not None and approval_of(old).state == found.state:
        return []
    path = f"metadata.annotations[{ANNOTATION}]"
    if found.state == INVALID:
        return [invalid(path, obj["metadata"]["annotations"][ANNOTATION], found.reason)]
    return [required(path, found.reason)] if found.state == MISSING else []
