"""Finds and sets the conditions of a status.

Source: k8s.io/apimachinery pkg/api/meta/conditions.go (FindStatusCondition, SetStatusCondition), 1.36.
"""

from collections.abc import Sequence

from kubeskew.apimachinery.objects import Object


def find_condition(obj: Object, kind: str) -> Object | None:
    conditions: Sequence[Object] = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), None)


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
