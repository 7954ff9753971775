"""Finds, makes and sets the conditions of a status.

Source: k8s.io/apimachinery pkg/api/meta/conditions.go (FindStatusCondition, IsStatusConditionTrue,
SetStatusCondition, RemoveStatusCondition), 1.36.
"""

from collections.abc import Sequence
from datetime import datetime

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object, ObjectView


def find_condition(obj: ObjectView, kind: str) -> Object | None:
    conditions: Sequence[Object] = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def is_condition_true(obj: ObjectView, kind: str) -> bool:
    condition = find_condition(obj, kind)
    return condition is not None and condition.get("status") == "True"


def new_condition(kind: str, status: str, reason: str, message: str, now: datetime) -> Object:
    """The order of fields is Go's."""
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }


def transition_time(present: ObjectView | None, status: str, now: datetime) -> str:
    """The time of the present condition, if it has one, stays as long as its status does."""
    known = present.get("lastTransitionTime") if present and present.get("status") == status else None
    return known or timestamp(now)


def with_condition(conditions: Sequence[Object], new: Object) -> list[Object]:
    """Puts `new` in the place of the condition of its type, or last.

    `new` has the time of now. The time of the present one stays if the status does.
    """
    changed = list(conditions)
    for position, present in enumerate(changed):
        if present["type"] == new["type"]:
            if present["status"] == new["status"]:
                new = {**new, "lastTransitionTime": present.get("lastTransitionTime")}
            changed[position] = new
            return changed
    return [*changed, new]


def without_condition(conditions: Sequence[Object], kind: str) -> list[Object]:
    return [condition for condition in conditions if condition.get("type") != kind]
