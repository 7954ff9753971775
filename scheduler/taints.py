"""Finds the taints that keep a pod away from a node.

Source: k8s.io/component-helpers/scheduling/corev1, 1.36.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.taints import tolerates

Object = Mapping[str, Any]

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def untolerated(
    taints: Iterable[Object], tolerations: Iterable[Object], effects: Iterable[str] = HARD_EFFECTS
) -> Object | None:
    """Returns the first taint with one of the effects that no toleration covers."""
    covering = list(tolerations)
    wanted = set(effects)
    for taint in taints:
        if taint.get("effect") in wanted and not any(tolerates(toleration, taint) for toleration in covering):
            return taint
    return None
