"""Finds the taints that keep a pod away from a node.

Source: k8s.io/component-helpers/scheduling/corev1, 1.36.
"""

from collections.abc import Iterable

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.selectors.taints import tolerates

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def untolerated(
    taints: Iterable[ObjectView], tolerations: Iterable[ObjectView], effects: Iterable[str] = HARD_EFFECTS
) -> ObjectView | None:
    """Returns the first taint with one of the effects that no toleration covers."""
    covering = list(tolerations)
    wanted = set(effects)
    for taint in taints:
        if taint.get("effect") in wanted and not any(tolerates(toleration, taint) for toleration in covering):
            return taint
    return None
