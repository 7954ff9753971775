"""Requires definitions in the groups of Kubernetes itself to name their approval.

Source: apiextensions-apiserver pkg/apihelpers/helpers.go (GetAPIApprovalState), 1.36.
"""

from typing import NamedTuple
from urllib.parse import urlsplit

from kubeskew.apimachinery.field import FieldError, invalid, required
from kubeskew.apimachinery.objects import Object

ANNOTATION = "api-approved.kubernetes.io"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
MISSING, INVALID, BYPASSED, APPROVED = "Missing", "Invalid", "Bypassed", "Approved"


class Approval(NamedTuple):
    """Holds the state of a definition's approval, and the reason."""

    state: str
    reason: str


def is_protected(group: str) -> bool:
    """Decides whether a group belongs to Kubernetes."""
    return group in {"k8s.io", "kubernetes.io"} or group.endswith((".k8s.io", ".kubernetes.io"))


def approval_of(obj: Object) -> Approval:
    """Reads the approval from a definition's annotation."""
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
        return Approval(APPROVED, f"approved in {given}")
    why = f'protected groups must have approval annotation "{ANNOTATION}" with either a URL or a reason '
    return Approval(INVALID, f'{why}starting with "unapproved", {_SEE}')


def validate(obj: Object, old: Object | None) -> list[FieldError]:
    """Returns the errors of the approval; one that did not change is left alone."""
    if not is_protected((obj.get("spec") or {}).get("group") or ""):
        return []
    found = approval_of(obj)
    if old is not None and approval_of(old).state == found.state:
        return []
    path = f"metadata.annotations[{ANNOTATION}]"
    if found.state == INVALID:
        return [invalid(path, obj["metadata"]["annotations"][ANNOTATION], found.reason)]
    return [required(path, found.reason)] if found.state == MISSING else []
