"""Taints and tolerations.

Source: k8s.io/component-helpers/scheduling/corev1, 1.36.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether one toleration covers one taint; an empty effect or key covers all."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
    return False


def untolerated(
    taints: Iterable[Object], tolerations: Iterable[Object], effects: Iterable[str] = HARD_EFFECTS
) -> Object | None:
    """The first taint with one of the effects that no toleration covers."""
    covering = list(tolerations)
    wanted = set(effects)
    for taint in taints:
        if taint.get("effect") in wanted and not any(tolerates(each, taint) for each in covering):
            return taint
    return None
