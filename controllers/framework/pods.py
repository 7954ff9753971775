"""States of pods: active, ready, available; and the order in which they are deleted.

Source: k8s.io/kubernetes/pkg/controller/controller_utils.go, pkg/api/v1/pod/util.go, 1.36.
"""

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.conditions import find_condition, is_condition_true
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar, is_terminal

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def phase(pod: Object) -> str:
    return pod.get("status", {}).get("phase") or ""


def is_terminating(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_active(pod: Object) -> bool:
    return not is_terminal(pod) and not is_terminating(pod)


def is_ready(pod: Object) -> bool:
    return is_condition_true(pod, "Ready")


def ready_since(pod: Object) -> datetime | None:
    found = find_condition(pod, "Ready")
    if found is None or found["status"] != "True" or not found.get("lastTransitionTime"):
        return None
    return parse_timestamp(found["lastTransitionTime"])


def available_in(pod: Object, min_ready_seconds: int, now: datetime) -> float | None:
    """A ready pod counts as available after these seconds, 0 if it does already; None if it is not ready."""
    if not is_ready(pod):
        return None
    if min_ready_seconds == 0:
        return 0.0
    since = ready_since(pod)
    if since is None:
        return None
    return max(0.0, min_ready_seconds - (now - since).total_seconds())


def deletion_order(pods: Iterable[Object], per_node: dict[str, int], now: datetime) -> list[Object]:
    """Replica sets delete pods in this order.

    `per_node` counts the related pods of each node: those on crowded nodes go first.
    """
    return sorted(pods, key=lambda pod: _rank(pod, per_node, now))


def _rank(pod: Object, per_node: dict[str, int], now: datetime) -> tuple[Any, ...]:
    node = pod["spec"].get("nodeName") or ""
    ready = is_ready(pod)
    since = ready_since(pod)
    return (
        bool(node),  # unassigned first
        _PHASES.get(phase(pod), 0),
        ready,
        deletion_cost(pod),
        -per_node.get(node, 0),
        # Among ready ones the most recent first; ages are compared on a logarithmic scale, so that
        # which of two old pods goes is not a matter of seconds (LogarithmicScaleDown).
        _logarithmic_age(since, now) if ready else 0,
        -_restarts(pod, sidecars=False),
        -_restarts(pod, sidecars=True),
        _logarithmic_age(_created(pod), now),
        pod["metadata"].get("uid", ""),
    )


def deletion_cost(pod: Object) -> int:
    """0 if the annotation is absent or no 32-bit integer."""
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "")
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (len(digits) > 1 and digits[0] == "0") or text == "-0":
        return 0
    value = int(text)
    return value if -(2**31) <= value < 2**31 else 0


def _restarts(pod: Object, *, sidecars: bool) -> int:
    """One container's maximum counts; sidecars are compared after the regular ones."""
    status = pod.get("status", {})
    if not sidecars:
        return max(
            (found.get("restartCount", 0) for found in status.get("containerStatuses") or ()), default=0
        )
    names = {
        container["name"] for container in pod["spec"].get("initContainers") or () if is_sidecar(container)
    }
    return max(
        (
            found.get("restartCount", 0)
            for found in status.get("initContainerStatuses") or ()
            if found["name"] in names
        ),
        default=0,
    )


def _created(pod: Object) -> datetime | None:
    text = pod["metadata"].get("creationTimestamp")
    return parse_timestamp(text) if text else None


def _logarithmic_age(moment: datetime | None, now: datetime) -> int:
    """Older times have larger numbers; unset times have -1, as if created now."""
    if moment is None:
        return -1
    nanoseconds = (now - moment).total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds >= 1 else -1
