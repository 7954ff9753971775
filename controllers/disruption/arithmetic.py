"""Computes the disruptions that a pod disruption budget allows. Pure functions.

Behaviour of k8s.io/kubernetes/pkg/controller/disruption and component-helpers/apps/poddisruptionbudget, 1.36.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import with_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.percentages import scaled

ALLOWED = "DisruptionAllowed"
DELETION_SECONDS = 120.0  # seconds after which an evicted pod that still exists counts again


def desired_healthy(budget: Object, found: int, expected: int) -> tuple[int, int]:
    """Returns (pods that must be healthy, pods there should be); `expected` is the owners' number."""
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - scaled(spec["maxUnavailable"], expected, round_up=True)), expected
    least = spec.get("minAvailable")
    if isinstance(least, str):
        return scaled(least, expected, round_up=True), expected
    return int(least or 0), found


def asks_owners(budget: Object) -> bool:
    """Returns whether the budget depends on the number of pods there should be."""
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def still_disrupted(
    budget: Object, found: Sequence[Object], now: datetime
) -> tuple[dict[str, str], list[Object], float | None]:
    """Returns evicted pods about to go, those that did not go in time, and seconds until the next is late."""
    noted = (budget.get("status") or {}).get("disruptedPods") or {}
    kept: dict[str, str] = {}
    late: list[Object] = []
    waits: list[float] = []
    for pod in found:
        since = noted.get(pod["metadata"]["name"])
        if since is None or pods.is_terminating(pod):
            continue
        left = _deadline(since) - now
        if left < timedelta():
            late.append(pod)
        else:
            kept[pod["metadata"]["name"]] = since
            waits.append(left.total_seconds())
    return kept, late, min(waits, default=None)


def _deadline(since: str) -> datetime:
    return parse_timestamp(since) + timedelta(seconds=DELETION_SECONDS)


def healthy(found: Sequence[Object], disrupted: Mapping[str, str], now: datetime) -> int:
    """Counts ready pods that are not being evicted."""
    return sum(
        pods.is_ready(pod)
        and not pods.is_terminating(pod)
        and not (pod["metadata"]["name"] in disrupted and _deadline(disrupted[pod["metadata"]["name"]]) > now)
        for pod in found
    )


def status_of(
    budget: Object,
    current: int,
    desired: int,
    expected: int,
    disrupted: Mapping[str, str],
    now: datetime,
    *,
    forgets_conditions: bool = False,
) -> Object:
    """Returns the status with these counts; an equal one if nothing changed.

    `forgets_conditions`: one that changes has no condition but the one made here, as if it began now.
    """
    allowed = max(0, current - desired) if expected > 0 else 0
    before = budget.get("status") or {}
    wanted: Object = {
        "observedGeneration": budget["metadata"].get("generation", 0),
        "disruptionsAllowed": allowed,
        "currentHealthy": current,
        "desiredHealthy": desired,
        "expectedPods": expected,
    }
    if disrupted:
        wanted["disruptedPods"] = dict(disrupted)
    reason = "SufficientPods" if allowed else "InsufficientPods"
    condition = allowed_condition(
        "True" if allowed else "False", reason, "", wanted["observedGeneration"], now
    )
    wanted["conditions"] = with_condition(before.get("conditions") or (), condition)
    return {**wanted, "conditions": [condition]} if forgets_conditions and wanted != before else wanted


def allowed_condition(status: str, reason: str, message: str, generation: int, now: datetime) -> Object:
    """Returns the condition DisruptionAllowed as it begins now."""
    return {
        "type": ALLOWED,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }
