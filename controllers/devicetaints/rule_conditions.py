"""Makes the status of a taint rule, which reports the evictions that it causes (1.35 and later).

Source: pkg/controller/devicetainteviction (maybeUpdateRuleStatus), 1.36: its wording.
"""

from dataclasses import dataclass

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.devicetaints.evictions import NO_EXECUTE

IN_PROGRESS = "EvictionInProgress"
_ONCE = (
    "if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule "
    "to trigger an update."
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a rule's effects. Published and allocated devices are counted for the effect None only."""

    pods: int = 0  # pods that wait for their eviction, or would be evicted
    namespaces: int = 0  # namespaces of those pods
    evicted: int = 0  # evicted pods since the controller started
    published: int = 0
    allocated: int = 0


def condition_of(rule: Object, counts: Counts) -> Object:
    """Returns the condition, without its time."""
    effect = rule["spec"]["taint"]["effect"]
    status, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if effect == NO_EXECUTE:
        status, reason, message = _executed(counts)
    elif effect == "None":
        reason, message = "NoEffect", _simulated(counts)
    if counts.evicted:
        evicted = f"{_count(counts.evicted, 'pod')} evicted since starting the controller."
        message = f"{message} {evicted}" if message else evicted
    return {
        "type": IN_PROGRESS,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": rule["metadata"].get("generation") or 0,
    }


def _executed(counts: Counts) -> tuple[str, str, str]:
    if counts.pods:
        need = "1 pod needs" if counts.pods == 1 else f"{counts.pods} pods need"
        return "True", "PodsPendingEviction", f"{need} to be evicted in {_namespaces(counts)}."
    return "False", "Completed" if counts.evicted else "NotStarted", ""


def _simulated(counts: Counts) -> str:
    return " ".join(
        (
            f"{_count(counts.published, 'published device')} selected.",
            f"{_count(counts.allocated, 'allocated device')} selected.",
            f"{_count(counts.pods, 'pod')} would be evicted in {_namespaces(counts)}",
            _ONCE,
        )
    )


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _namespaces(counts: Counts) -> str:
    return "1 namespace" if counts.namespaces == 1 else f"{counts.namespaces} different namespaces"
