"""Computes the taints that a node should have, and how long a pod tolerates them. Pure functions.

Behaviour of k8s.io/kubernetes/pkg/controller/nodelifecycle and tainteviction, 1.36.
"""

from collections.abc import Iterable

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.taints import tolerates

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_NO_SCHEDULE_KEYS = {*_BY_CONDITION.values(), UNSCHEDULABLE}
_NO_EXECUTE_KEYS = {NOT_READY, UNREACHABLE}


def conditions(node: Object) -> list[Object]:
    found: list[Object] = (node.get("status") or {}).get("conditions") or []
    return found


def is_ready(node: Object) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions(node)
    )


def _keys(node: Object) -> set[str]:
    found = {
        _BY_CONDITION.get((condition["type"], condition["status"])) for condition in conditions(node)
    } - {None}
    keys = {key for key in found if key is not None}
    if node["spec"].get("unschedulable"):
        keys.add(UNSCHEDULABLE)
    return keys


def wanted_taints(node: Object, now: str, *, evicting: bool = True) -> list[Object]:
    """Returns the node's taints by its conditions and `spec.unschedulable`; others' taints stay.

    `now` dates new taints; without `evicting` none is NoExecute.
    """
    keys = _keys(node)
    present = node["spec"].get("taints") or []
    wanted = {(key, "NoSchedule") for key in keys}
    if evicting:
        wanted |= {(key, "NoExecute") for key in keys & _NO_EXECUTE_KEYS}
    kept = [taint for taint in present if not _is_ours(taint) or (taint["key"], taint["effect"]) in wanted]
    known = {(taint["key"], taint["effect"]) for taint in kept}
    added = [_taint(key, effect, now) for key, effect in sorted(wanted - known)]
    return [*kept, *added]


def _is_ours(taint: Object) -> bool:
    keys = {"NoSchedule": _NO_SCHEDULE_KEYS, "NoExecute": _NO_EXECUTE_KEYS}.get(taint["effect"], set())
    return taint["key"] in keys


def _taint(key: str, effect: str, now: str) -> Object:
    return {"key": key, "effect": effect, "timeAdded": now}


def no_execute(node: Object) -> list[Object]:
    return [taint for taint in node["spec"].get("taints") or () if taint["effect"] == "NoExecute"]


def seconds_left(pod: Object, taints: Iterable[Object]) -> float | None:
    """Returns how long the pod may stay on a node with these taints: 0 not at all, None for ever."""
    tolerations = pod["spec"].get("tolerations") or []
    used = []
    for taint in taints:
        matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not matching:
            return 0.0
        # As upstream, the first of several tolerations for a taint counts.
        used.append(matching[0])
    limits = [
        max(0, toleration["tolerationSeconds"])
        for toleration in used
        if toleration.get("tolerationSeconds") is not None
    ]
    return float(min(limits)) if limits else None
