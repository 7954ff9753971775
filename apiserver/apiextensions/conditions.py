"""Reads and sets the conditions of a definition.

Source: apiextensions-apiserver pkg/apihelpers/helpers.go, 1.36.
"""

from datetime import datetime

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"  # of a definition, until its objects are gone
ESTABLISHED = "Established"
NAMES_ACCEPTED = "NamesAccepted"
TERMINATING = "Terminating"
APPROVED = "KubernetesAPIApprovalPolicyConformant"


def condition(kind: str, status: str, reason: str, message: str) -> Object:
    """Returns a condition without its time."""
    return {"type": kind, "status": status, "reason": reason, "message": message}


def is_true(obj: Object, kind: str) -> bool:
    """Decides whether the condition is true."""
    return (find_condition(obj, kind) or {}).get("status") == "True"


def is_equivalent(one: Object | None, other: Object | None) -> bool:
    """Decides whether two conditions say the same; the times at which they began do not matter."""
    if one is None or other is None:
        return one is other
    return all(one.get(name) == other.get(name) for name in ("type", "status", "reason", "message"))


def put(obj: Object, new: Object, now: datetime) -> None:
    """Set a condition; its time is that of the last change of its status."""
    status = obj.setdefault("status", {})
    listed = status["conditions"] = list(status.get("conditions") or [])
    old = find_condition(obj, new["type"])
    if old is None:
        listed.append(_at(new, timestamp(now)))
        return
    moment = (old.get("lastTransitionTime") if old.get("status") == new["status"] else "") or timestamp(now)
    listed[listed.index(old)] = _at(new, moment)


def drop(obj: Object, kind: str) -> None:
    """Remove the condition of a type."""
    status = obj.get("status") or {}
    if find_condition(obj, kind) is not None:
        status["conditions"] = [
            condition for condition in status["conditions"] if condition.get("type") != kind
        ]


def _at(given: Object, moment: str) -> Object:
    """Returns the condition in Go's order of fields."""
    return {
        "type": given["type"],
        "status": given["status"],
        "lastTransitionTime": moment,
        "reason": given["reason"],
        "message": given["message"],
    }
